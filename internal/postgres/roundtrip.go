package postgres

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed sql/settings.sql
	settingsSQL string
	//go:embed sql/rest.sql
	restSQL string
)

// limits bound what the database may take for a round trip.
type limits struct {
	claim  time.Duration // reclaim, claim and backlog together
	record time.Duration // everything else; outcomes are tried again
	lock   time.Duration // wait for a lock on the whole table
}

// limitsByDefault: all of it takes milliseconds. Ten seconds are for payloads of
// many megabytes and a database that is busy.
var limitsByDefault = limits{claim: 10 * time.Second, record: 5 * time.Second, lock: 2 * time.Second}

// answerMargin is how much longer the client waits than the server may take, so
// that it is the server who gives up, and the answer says so.
const answerMargin = 2 * time.Second

// statement of a round trip.
type statement struct {
	sql  string
	args []any
	// row is called with the raw columns of each row. They are valid within it
	// alone; a null is nil.
	row func(columns [][]byte) error
	// done is called behind the last row. May be nil.
	done func()
}

// send runs statements as one transaction in one round trip, bounded as a whole
// by limit, or by what ctx leaves. It returns when they were sent.
func (s *Store) send(ctx context.Context, limit time.Duration, statements ...statement) (sent time.Time, err error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return sent, err
	}
	defer conn.Release()
	if end, ok := ctx.Deadline(); ok {
		limit = max(min(limit, time.Until(end)), time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, limit+answerMargin)
	defer cancel()
	b := &pgx.Batch{}
	for i, st := range statements {
		if i == 0 {
			b.Queue(settingsSQL, milliseconds(limit), milliseconds(s.limits.lock))
		} else {
			b.Queue(restSQL, milliseconds(limit))
		}
		b.Queue(st.sql, st.args...)
	}
	sent = time.Now()
	results := conn.SendBatch(ctx, b)
	defer func() {
		// The commit is answered here.
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	for _, st := range statements {
		if _, err := results.Exec(); err != nil { // the settings
			return sent, err
		}
		if err := read(results, st.row); err != nil {
			return sent, err
		}
		if st.done != nil {
			st.done()
		}
	}
	return sent, nil
}

// acquire takes a session. Where the role may have no more of them than those that
// are there, it waits for one of these.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 320*time.Millisecond) {
		conn, err := s.pool.Acquire(ctx)
		if code(err) != "53300" {
			return conn, err
		}
		if stat := s.pool.Stat(); stat.AcquiredConns()+stat.IdleConns() == 0 {
			return nil, err
		}
		select {
		case <-time.After(pause): // some round trips; a login costs Postgres more than these
		case <-ctx.Done():
			return nil, err
		}
	}
}

func read(results pgx.BatchResults, row func([][]byte) error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.RawValues()); err != nil {
			// Not the session's fault: the same would come again.
			return &DatabaseError{Text: "an answer cannot be read: " + err.Error()}
		}
	}
	return rows.Err()
}

// exchange runs one statement and returns its rows. If the session is of no more
// use it does so on a fresh one: each statement sent this way may run twice.
func (s *Store) exchange(ctx context.Context, sql string, args ...any) ([][]string, error) {
	for used := (chances{}); ; {
		var rows [][]string
		_, err := s.send(ctx, s.limits.record, statement{sql: sql, args: args, row: func(columns [][]byte) error {
			rows = append(rows, asTexts(columns))
			return nil
		}})
		if !s.again(err, &used) {
			return rows, err
		}
	}
}

// chances are the second tries of a call that are used up. There is one for each
// kind of fault, because one can hide the other: sessions that were ended because
// the password was changed are dead first, and then refused.
type chances struct{ session, login, shape bool }

// again reports whether a call that met err is worth another try: the session was
// dead, or the login may have been rotated.
func (s *Store) again(err error, used *chances) bool {
	switch {
	case isSession(err) && !used.session:
		used.session = true
	case isRefused(err) && !used.login && s.connector.renew():
		used.login = true
	default:
		return false
	}
	s.pool.Reset()
	return true
}

func asTexts(columns [][]byte) []string {
	row := make([]string, len(columns))
	for i, v := range columns {
		row[i] = string(v)
	}
	return row
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
