package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
)

var (
	//go:embed sql/table.sql
	tableSQL string
	//go:embed sql/control.sql
	controlSQL string
)

// index of ours. Each holds only rows that are not done, so that its size and
// the cost of a claim do not grow with the table.
type index struct {
	suffix  string // of its name, behind the table's
	columns string
	where   string
}

var indexes = []index{
	// What claim takes, in claim order.
	{"_dispatch_due", "(" + orderByDue + ")", "delivery_status = 'pending' and " + ordinary},
	// Rows never tried; claim needs those that were dated in the future.
	{"_dispatch_undated", "(occurred_at, event_id)", "delivery_status = 'pending' and " + ordinary + " and next_attempt_at is null"},
	// Suspects, which claim takes one at a time. Nearly always empty.
	{"_dispatch_suspect", "(" + orderByLost + ")", "delivery_status = 'pending' and " + suspects},
	// What reclaim looks at, and the parked rows.
	{"_dispatch_lease", "(next_attempt_at)", "delivery_status = 'delivering'"},
	// What needs a person: counted by every report, listed by the operator.
	{"_dispatch_failed", "(last_error_code, event_id)", "delivery_status = 'failed'"},
}

const (
	// alterTimeout bounds the wait for a lock that ALTER TABLE needs: behind it
	// every other session queues, so it is short and tried again.
	alterTimeout = "1s"
	// alterTries with a growing pause between them last about a minute.
	alterTries = 20
	// migrateLock is the key of the advisory lock that lets one migration run at
	// a time: "outbox" in ASCII.
	migrateLock = 0x6f7574626f78
)

// Migrate brings the table to what the dispatcher needs: it makes the table
// where there is none, adds missing columns, drops invalid indexes of ours and
// builds missing ones, beside live traffic. It looks at the catalogue alone and
// not at what it did before, so it can be run at any time, and again. say is
// told what is done. It needs the owner of the table and a direct connection:
// an index cannot be built concurrently behind a transaction pooler.
func (s *Store) Migrate(ctx context.Context, say func(string)) error {
	return s.explain(ctx, s.migrate(ctx, say))
}

func (s *Store) migrate(ctx context.Context, say func(string)) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	m := migration{conn: conn.Conn(), table: s.table, control: ControlTable(s.table), say: say}
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	defer s.forget()

	// What the role has set for its queries is no bound for building an index.
	if err := m.exec(ctx, "set statement_timeout = 0; set lock_timeout = 0"); err != nil {
		return err
	}
	found, err := m.find(ctx)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		say("making the table " + s.table.String())
		if err := m.exec(ctx, strings.ReplaceAll(tableSQL, "{table}", s.table.String())); err != nil {
			return err
		}
	} else if err := m.columns(ctx, found); err != nil {
		return err
	}
	if err := m.controlTable(ctx); err != nil {
		return err
	}
	return m.indexes(ctx)
}

type migration struct {
	conn           *pgx.Conn
	table, control config.Table
	say            func(string)
}

func (m *migration) exec(ctx context.Context, sql string, args ...any) error {
	_, err := m.conn.Exec(ctx, sql, args...)
	return err
}

// texts runs a query that returns texts.
func (m *migration) texts(ctx context.Context, sql string, args ...any) ([][]string, error) {
	rows, err := m.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
		var texts []string
		for _, v := range row.RawValues() {
			texts = append(texts, string(v))
		}
		return texts, nil
	})
}

// lock lets one migration run at a time. It asks and sleeps, because a session
// that waits inside a statement keeps an index from being built concurrently.
func (m *migration) lock(ctx context.Context) (unlock func(), err error) {
	for told := false; ; told = true {
		rows, err := m.texts(ctx, "select pg_try_advisory_lock($1)::text", int64(migrateLock))
		if err != nil {
			return nil, err
		}
		if rows[0][0] == "true" {
			return func() {
				_ = m.exec(context.WithoutCancel(ctx), "select pg_advisory_unlock($1)", int64(migrateLock))
			}, nil
		}
		if !told {
			m.say("waiting for another migration to end")
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// find returns the columns of the table and their types; none: no table.
func (m *migration) find(ctx context.Context) (map[string]string, error) {
	rows, err := m.texts(ctx, columnsSQL, m.table.String(), m.control.String())
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, row := range rows {
		found[row[0]] = row[1]
		switch kind := row[7]; kind {
		case "r": // an ordinary table
		case "p":
			return nil, &DatabaseError{Text: fmt.Sprintf("the table %s is partitioned, and an index cannot be built beside live traffic on it; the dispatcher needs an ordinary table", m.table)}
		default:
			return nil, &DatabaseError{Text: fmt.Sprintf("%s is no table but a view or the like; the dispatcher needs the table itself", m.table)}
		}
	}
	return found, nil
}

// columns adds those of ours that are missing.
func (m *migration) columns(ctx context.Context, found map[string]string) error {
	var missing, add []string
	for _, c := range columns {
		typ, there := found[c.name]
		switch {
		case !there && c.ours:
			add = append(add, c.name)
		case !there:
			missing = append(missing, c.name)
		case !slices.Contains(c.types, typ):
			return &DatabaseError{Text: wrongType(m.table, c, typ)}
		}
	}
	if len(missing) > 0 {
		return &DatabaseError{Text: fmt.Sprintf("the table %s lacks %s, which belong to its service: it is not the outbox table, or not whole yet", m.table, strings.Join(missing, ", "))}
	}
	if len(add) == 0 {
		return nil
	}
	m.say("adding to " + m.table.String() + ": " + strings.Join(add, ", "))
	// A constant default is kept in the catalogue: no row is rewritten.
	var parts []string
	for _, name := range add {
		parts = append(parts, "add column if not exists "+name+" integer not null default 0")
	}
	return m.alter(ctx, "alter table "+m.table.String()+" "+strings.Join(parts, ", "))
}

// alter runs a statement that locks the whole table, and steps back if it does
// not get the lock at once.
func (m *migration) alter(ctx context.Context, sql string) error {
	if err := m.exec(ctx, "set lock_timeout = '"+alterTimeout+"'"); err != nil {
		return err
	}
	defer func() { _ = m.exec(context.WithoutCancel(ctx), "set lock_timeout = 0") }()
	for try := 1; ; try++ {
		err := m.exec(ctx, sql)
		if code(err) != "55P03" || try == alterTries {
			return err
		}
		m.say("the table is in use; trying again")
		if err := sleep(ctx, time.Duration(try)*200*time.Millisecond); err != nil {
			return err
		}
	}
}

// controlTable makes the table that holds a pause, and lets whoever may update
// the outbox read it.
func (m *migration) controlTable(ctx context.Context) error {
	rows, err := m.texts(ctx, "select (to_regclass($1) is null)::text", m.control.String())
	if err != nil {
		return err
	}
	if rows[0][0] == "true" {
		m.say("making the table " + m.control.String())
		if err := m.exec(ctx, strings.ReplaceAll(controlSQL, "{control}", m.control.String())); err != nil {
			return err
		}
	}
	roles, err := m.texts(ctx, `select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
		from pg_class c, aclexplode(c.relacl) a
		where c.oid = to_regclass($1) and a.privilege_type = 'UPDATE' and a.grantee <> c.relowner
		  and not exists (select from pg_class k, aclexplode(k.relacl) b
			where k.oid = to_regclass($2) and b.privilege_type = 'SELECT' and b.grantee in (a.grantee, 0))`, m.table.String(), m.control.String())
	if err != nil {
		return err
	}
	for _, role := range roles {
		m.say("letting " + role[0] + " read " + m.control.String())
		if err := m.exec(ctx, "grant select on "+m.control.String()+" to "+role[0]); err != nil {
			return err
		}
	}
	return nil
}

// indexes drops the invalid ones of ours and builds the missing ones. An index
// is ours by what it is and not by its name: a table may be renamed or restored,
// and then its names are taken or others.
func (m *migration) indexes(ctx context.Context) error {
	wanted, err := m.definitions(ctx)
	if err != nil {
		return err
	}
	there, err := m.texts(ctx, `select substring(pg_get_indexdef(i.indexrelid) from '.*( USING .*)$'), i.indisvalid::text,
			quote_ident(n.nspname) || '.' || quote_ident(c.relname)
		from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
		where i.indrelid = to_regclass($1)`, m.table.String())
	if err != nil {
		return err
	}
	for i, want := range wanted {
		valid := false
		for _, row := range there {
			switch {
			case row[0] != want:
			case row[1] == "true":
				valid = true
			default:
				m.say("dropping the invalid index " + row[2])
				if err := m.exec(ctx, "drop index concurrently if exists "+row[2]); err != nil {
					return err
				}
			}
		}
		if valid {
			continue
		}
		name, err := m.freeName(ctx, indexes[i].suffix)
		if err != nil {
			return err
		}
		m.say("building the index " + name)
		err = m.exec(ctx, fmt.Sprintf("create index concurrently %s on %s %s where %s", config.Quote(name), m.table, indexes[i].columns, indexes[i].where))
		if err != nil {
			return err
		}
	}
	return nil
}

// definitions returns how this server writes our indexes, in their order, so
// that they can be compared with what is there. It asks by building them on an
// empty copy of the table.
func (m *migration) definitions(ctx context.Context) ([]string, error) {
	tx, err := m.conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "create temporary table dispatch_probe (like "+m.table.String()+") on commit drop"); err != nil {
		return nil, err
	}
	var definitions []string
	for i, x := range indexes {
		name := fmt.Sprintf("dispatch_probe_%d", i)
		if _, err := tx.Exec(ctx, fmt.Sprintf("create index %s on pg_temp.dispatch_probe %s where %s", name, x.columns, x.where)); err != nil {
			return nil, err
		}
		rows, err := m.texts(ctx, "select substring(pg_get_indexdef(to_regclass($1)) from '.*( USING .*)$')", "pg_temp."+name)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, rows[0][0])
	}
	return definitions, nil
}

// freeName returns a name for an index that nothing in the schema has yet.
func (m *migration) freeName(ctx context.Context, suffix string) (string, error) {
	for n := 1; ; n++ {
		end := suffix
		if n > 1 {
			end += fmt.Sprint(n)
		}
		name := shorten(m.table.Name, end) + end
		rows, err := m.texts(ctx, `select count(*)::text from pg_class t join pg_class c on c.relnamespace = t.relnamespace
			where t.oid = to_regclass($1) and c.relname = $2`, m.table.String(), name)
		if err != nil || rows[0][0] == "0" {
			return name, err
		}
	}
}

func wrongType(t config.Table, c column, typ string) string {
	return fmt.Sprintf("the column %s of %s has the type %s; it must be %s", c.name, t, typ, strings.Join(c.types, " or "))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return errors.New("told to end")
	}
}
