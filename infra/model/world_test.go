package model

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/pgtest"
)

// world is a table with workers on it. It serves one check after the other, each
// on an empty table.
type world struct {
	db      *table
	workers []*worker
}

// wrapper makes a store that is broken in some way of a good one.
type wrapper func(good cycle.Store, db *pgx.Conn) cycle.Store

// newWorld makes a table whose payloads are jsonb or json, and three workers: one
// with the right time, one ten minutes ahead and one ten minutes behind.
func newWorld(t *testing.T, payload string, broken wrapper) *world {
	t.Helper()
	url := pgtest.NewFrom(t, migrated)
	w := &world{db: newTable(t, url, payload)}
	for _, off := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		w.workers = append(w.workers, startWorker(t, off, url, broken))
	}
	return w
}

func settings(url string) config.Database {
	return config.Database{URL: url, Table: config.Table{Name: "outbox_events"}}
}

func migrated(ctx context.Context, url string) error {
	s, err := postgres.Open(settings(url), &postgres.Connector{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx, func(string) {})
}

// worker is an instance of the dispatcher: a store of its own, and a clock of its
// own. What it does runs in a synctest bubble, whose clock was put off once and
// then stands still, because a bubble that waits for the network does not move on.
type worker struct {
	off   time.Duration // of its clock
	calls chan func(cycle.Store)
	ended chan struct{}
}

func startWorker(t *testing.T, off time.Duration, url string, broken wrapper) *worker {
	w := &worker{off: off, calls: make(chan func(cycle.Store)), ended: make(chan struct{})}
	there := time.Now().Add(off)
	go func() {
		defer close(w.ended)
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(there))
			good, err := postgres.Open(settings(url), &postgres.Connector{})
			if err != nil {
				t.Error(err)
				return
			}
			defer good.Close()
			var store cycle.Store = good
			if broken != nil {
				conn, err := pgx.Connect(context.Background(), url)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close(context.Background())
				store = broken(good, conn)
			}
			for call := range w.calls {
				call(store)
			}
		})
	}()
	t.Cleanup(func() {
		close(w.calls)
		<-w.ended
	})
	return w
}

// do has the worker call its store, and waits for it.
func (w *worker) do(call func(ctx context.Context, s cycle.Store) error) error {
	done := make(chan error, 1)
	select {
	case w.calls <- func(s cycle.Store) { done <- call(context.Background(), s) }:
	case <-w.ended:
		return errors.New("the worker could not start")
	}
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		return errors.New("the store did not come back within a minute")
	}
}

// table is the outbox table as everybody but the workers sees it.
type table struct {
	conn  *pgx.Conn // producers, operators, strangers, and the clock
	locks *pgx.Conn // of somebody who holds rows locked
}

func newTable(t *testing.T, url, payload string) *table {
	t.Helper()
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	url += separator + "timezone=UTC&datestyle=ISO"
	d := &table{conn: pgtest.Conn(t, url), locks: pgtest.Conn(t, url)}
	if _, err := d.conn.Exec(t.Context(), `alter table outbox_events alter payload_json type `+payload+` using payload_json::`+payload); err != nil {
		t.Fatal(err)
	}
	return d
}

// row is a row as it is in the database.
type row struct {
	Status              string
	Attempts, Base      int
	Lost, LostAt        int
	Next                string // next_attempt_at; empty: null
	NextAt              int64  // the same in microseconds since 1970
	Code, Error, RunID  string
	Token, Payload, Typ string // the claim token; the payload without it; what JSON it is
}

const rowSQL = `select delivery_status, attempts, attempts_base, lost_leases, lost_leases_at,
	coalesce(next_attempt_at::text, ''), coalesce((extract(epoch from next_attempt_at) * 1000000)::bigint, 0),
	coalesce(last_error_code, ''), coalesce(last_error, ''), coalesce(external_run_id, ''),
	coalesce(payload_json::jsonb ->> '_delivery_claim_token', ''), ` + bareSQL + `, jsonb_typeof(payload_json::jsonb),
	(extract(epoch from clock_timestamp()) * 1000000)::bigint
	from outbox_events where event_id = any ($1::text[]::uuid[]) order by event_id`

// bareSQL is the payload without the token.
const bareSQL = `(case jsonb_typeof(payload_json::jsonb) when 'object' then payload_json::jsonb - '_delivery_claim_token' else payload_json::jsonb end)::text`

// look reads rows, in the order of their ids, and the clock of the database.
func (d *table) look(ids []string) (all []row, now int64, err error) {
	if len(ids) == 0 {
		err = d.conn.QueryRow(context.Background(), `select (extract(epoch from clock_timestamp()) * 1000000)::bigint`).Scan(&now)
		return nil, now, err
	}
	rows, err := d.conn.Query(context.Background(), rowSQL, ids)
	if err != nil {
		return nil, 0, err
	}
	all, err = pgx.CollectRows(rows, func(c pgx.CollectableRow) (r row, err error) {
		err = c.Scan(&r.Status, &r.Attempts, &r.Base, &r.Lost, &r.LostAt, &r.Next, &r.NextAt, &r.Code, &r.Error, &r.RunID, &r.Token, &r.Payload, &r.Typ, &now)
		return r, err
	})
	return all, now, err
}
