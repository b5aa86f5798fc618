package postgres

import (
	"context"
	"crypto/tls"
	_ "embed"
	"fmt"
	"net"
	"slices"
	"time"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/postgres/dsn"
)

var (
	//go:embed sql/operator_session.sql
	sessionSQL string
	//go:embed sql/operator_rights.sql
	rightsSQL string
	//go:embed sql/operator_shape.sql
	shapeSQL string
	//go:embed sql/operator_indexes.sql
	indexesSQL string
)

var _ operator.Inspector = (*Store)(nil)

// Session opens a session and tells of it.
func (s *Store) Session(ctx context.Context) (operator.Session, error) {
	var o operator.Session
	// The first time is for the connection, the second for the clock.
	if _, err := s.exchange(ctx, sessionSQL); err != nil {
		return o, s.explain(ctx, err)
	}
	sent := time.Now()
	rows, err := s.exchange(ctx, sessionSQL)
	if err != nil {
		return o, s.explain(ctx, err)
	}
	o.RoundTrip = time.Since(sent)
	var r textReader
	row := rows[0]
	o.Role, o.Superuser, o.Database, o.Version, o.ReadOnly = row[0], row[1] == "true", row[2], row[3], row[4] == "true"
	here := operator.Instant(sent.Add(o.RoundTrip / 2).UnixMicro())
	o.Ahead = r.instant(row[5]).Since(here)
	if r.err != nil {
		return o, r.err
	}
	return o, s.explain(ctx, s.transport(ctx, &o))
}

// transport tells how the session gets to the server.
func (s *Store) transport(ctx context.Context, o *operator.Session) error {
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer pooled.Release()
	conn := pooled.Conn().PgConn().Conn()
	switch a := conn.RemoteAddr().(type) {
	case *net.UnixAddr:
		o.Local = true
	case *net.TCPAddr:
		o.Local = a.IP.IsLoopback()
	}
	if secure, ok := conn.(*tls.Conn); ok {
		o.TLS = tls.VersionName(secure.ConnectionState().Version)
		o.Verified = dsn.Verifies(pooled.Conn().Config().TLSConfig)
	}
	return nil
}

// Inspect looks at the table as a doctor does: whatever is wrong with it is an
// answer and not an error.
func (s *Store) Inspect(ctx context.Context, roles []string) (operator.Inspection, error) {
	control := ControlTable(s.table)
	o := operator.Inspection{Table: s.table.String(), ControlTable: control.String()}
	rows, err := s.exchange(ctx, shapeSQL, s.table.String(), control.String())
	if err != nil {
		return o, s.explain(ctx, err)
	}
	if o.Exists = len(rows) > 0; !o.Exists {
		return o, nil
	}
	o.Ordinary, o.HasControl = rows[0][2] == "r", rows[0][3] == "true"
	there := map[string]string{}
	for _, row := range rows {
		there[row[0]] = row[1]
	}
	for _, c := range columns {
		typ, ok := there[c.name]
		switch {
		case !ok && c.ours:
			o.Missing = append(o.Missing, c.name)
		case !ok:
			o.Problems = append(o.Problems, "it lacks the column "+c.name)
		case !slices.Contains(c.types, typ):
			o.Problems = append(o.Problems, wrongType(s.table, c, typ))
		}
	}
	if o.Rights, err = s.rights(ctx, roles); err != nil {
		return o, s.explain(ctx, err)
	}
	if len(o.Problems)+len(o.Missing) > 0 {
		return o, nil // an index on a column that is not there cannot be asked about
	}
	o.Indexes, err = s.indexStates(ctx)
	if code(err) == "42501" || code(err) == "25006" {
		o.IndexesUnknown = "the role may not make the temporary table that they are compared with"
		err = nil
	}
	return o, s.explain(ctx, err)
}

func (s *Store) rights(ctx context.Context, roles []string) (rights []operator.Rights, err error) {
	rows, err := s.exchange(ctx, rightsSQL, s.table.String(), ControlTable(s.table).String(), roles)
	for _, row := range rows {
		is := func(column int) bool { return row[column] == "true" }
		rights = append(rights, operator.Rights{
			Role: row[0], Superuser: is(1), Owner: is(2), Schema: is(3),
			Select: is(4), Update: is(5), Insert: is(6), Delete: is(7), Truncate: is(8),
			ReadsControl: is(9), WritesControl: is(10),
		})
	}
	return rights, err
}

// indexStates compares the indexes that migrate makes with those that are there.
func (s *Store) indexStates(ctx context.Context) ([]operator.IndexState, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	m := migration{conn: conn.Conn(), table: s.table, control: ControlTable(s.table), say: func(string) {}}
	wanted, err := m.definitions(ctx)
	if err != nil {
		return nil, err
	}
	there, err := m.texts(ctx, indexesSQL, s.table.String())
	if err != nil {
		return nil, err
	}
	var states []operator.IndexState
	for i, want := range wanted {
		state := operator.IndexState{Name: fmt.Sprintf("%s%s", shorten(s.table.Name, indexes[i].suffix), indexes[i].suffix)}
		for _, row := range there {
			if row[0] != want || state.Valid {
				continue
			}
			state.Name, state.There, state.Valid = row[2], true, row[1] == "true"
		}
		states = append(states, state)
	}
	return states, nil
}
