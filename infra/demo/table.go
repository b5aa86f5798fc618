package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// table is the outbox table of a run.
type table struct {
	url      string // DATABASE_URL of the function
	settings config.Database
	pool     *pgxpool.Pool     // for what the dispatcher itself never does
	store    *postgres.Store   // for migrate and status
	server   *throwaway.Server // nil: a database that was given
	ours     bool              // it may be migrated and filled with samples
	samples  map[string]sample // by id; empty unless ours
	show     []string          // ids of the rows to show, in their order
}

// startThrowaway starts a Postgres that ends with us.
func startThrowaway(ctx context.Context, s *screen) (*table, error) {
	s.say("starting a throw-away Postgres")
	server, err := throwaway.Start(ctx, throwaway.Options{Log: s.say})
	if err != nil {
		return nil, err
	}
	t := &table{server: server, ours: true}
	if err := t.open(server.URL("postgres"), ""); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return t, nil
}

// openGiven opens the database of DATABASE_URL and looks whether its table may
// be filled with samples. The error tells if it must not even be delivered from.
func openGiven(ctx context.Context, s *screen, g given) (*table, error) {
	t := &table{}
	if err := t.open(g.databaseURL, g.table); err != nil {
		return nil, err
	}
	err := t.lookWhose(ctx)
	switch {
	case err != nil || t.ours:
	case g.webhookURL == "":
		err = fmt.Errorf("the table %s in the database of DATABASE_URL holds events that are no samples of this demo; "+
			"the stand-in n8n would acknowledge what nobody received: set N8N_WEBHOOK_URL to have them delivered, "+
			"OUTBOX_TABLE to another name to see the samples, or unset DATABASE_URL", t.settings.Table)
	default:
		err = t.store.Ready(ctx) // it is not for us to migrate it
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	c := t.pool.Config().ConnConfig
	s.say(fmt.Sprintf("using the table %s of the database %s on %s:%d, by DATABASE_URL", t.settings.Table, c.Database, c.Host, c.Port))
	return t, nil
}

func (t *table) open(url, name string) (err error) {
	t.url = url
	t.settings, err = config.LoadDatabase(lookup(map[string]string{"DATABASE_URL": url, "OUTBOX_TABLE": name}))
	if err != nil {
		return err
	}
	if t.pool, err = (&postgres.Connector{}).Pool(t.settings); err != nil {
		return err
	}
	if t.store, err = postgres.Open(t.settings, &postgres.Connector{}); err != nil {
		t.pool.Close()
	}
	return err
}

func (t *table) close() error {
	t.store.Close()
	t.pool.Close()
	if t.server != nil {
		return t.server.Close()
	}
	return nil
}

// lookWhose finds out whether the table is missing, or holds no events but
// samples.
func (t *table) lookWhose(ctx context.Context) error {
	err := t.pool.QueryRow(ctx, "select to_regclass($1) is null", t.settings.Table.String()).Scan(&t.ours)
	if err == nil && !t.ours {
		err = t.pool.QueryRow(ctx, fmt.Sprintf("select not exists (select from %s where event_id::text <> all($1))", t.settings.Table), sampleIDs()).Scan(&t.ours)
	}
	if err == nil {
		return nil
	}
	// The store has a clear sentence for whatever is wrong.
	if known := t.store.Ready(ctx); known != nil {
		return known
	}
	return fmt.Errorf("look at the table %s: %w", t.settings.Table, err)
}

// prepare migrates the table and puts the samples in, if it is ours, and chooses
// the rows to show.
func (t *table) prepare(ctx context.Context, s *screen) error {
	if !t.ours {
		s.say("it holds events of yours: no samples are put in, and what is due is delivered")
		return t.chooseWaiting(ctx)
	}
	steps := 0
	if err := t.store.Migrate(ctx, func(string) { steps++ }); err != nil {
		return err
	}
	s.say(fmt.Sprintf("migrated the table %s in %d steps, as `go run ./functions/operator migrate` does", t.settings.Table, steps))
	if err := t.insertSamples(ctx); err != nil {
		return fmt.Errorf("put the samples in: %w", err)
	}
	s.say(fmt.Sprintf("put %d sample events into it", len(t.show)))
	return nil
}

// insertSamples puts the samples in as they are at the start of every run.
func (t *table) insertSamples(ctx context.Context) error {
	t.samples = map[string]sample{}
	batch := &pgx.Batch{} // one transaction
	batch.Queue(fmt.Sprintf("delete from %s where event_id::text = any($1)", t.settings.Table), sampleIDs())
	for _, s := range samples() {
		t.samples[s.id], t.show = s, append(t.show, s.id)
		var due *float64
		if s.due != nil {
			seconds := s.due.Seconds()
			due = &seconds
		}
		batch.Queue(fmt.Sprintf(`insert into %s (event_id, event_type, occurred_at, payload_json, delivery_status, attempts,
				next_attempt_at, last_error, last_error_code, external_run_id, lost_leases, lost_leases_at)
			values ($1::uuid, $2, clock_timestamp() - $3::float8 * interval '1 second', $4::jsonb, $5, $6::int,
				clock_timestamp() + $7::float8 * interval '1 second', nullif($8, ''), nullif($9, ''), nullif($10, ''), $11::int, $6::int)`,
			t.settings.Table),
			s.id, s.eventType, s.age.Seconds(), s.payload, string(s.status), s.attempts,
			due, s.lastError, string(s.code), s.runID, s.lostLeases)
	}
	return t.pool.SendBatch(ctx, batch).Close()
}

// chooseWaiting shows the rows of somebody else's table that are first in line.
func (t *table) chooseWaiting(ctx context.Context) error {
	const enough = 30 // what a terminal shows
	rows, err := t.pool.Query(ctx, fmt.Sprintf(`select event_id::text from %s where delivery_status in ('pending', 'delivering')
		order by coalesce(next_attempt_at, occurred_at), event_id limit %d`, t.settings.Table, enough))
	if err == nil {
		t.show, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return fmt.Errorf("look at the table %s: %w", t.settings.Table, err)
	}
	return nil
}

// row is what the screen shows of an event.
type row struct {
	Type     string
	Status   string
	Attempts int
	Code     string
	Error    string
	Next     *float64 // seconds until next_attempt_at; nil: null
}

// read returns the rows to show, by id.
func (t *table) read(ctx context.Context) (map[string]row, error) {
	rows, err := t.pool.Query(ctx, fmt.Sprintf(`select event_id::text, event_type, delivery_status, attempts, coalesce(last_error_code, ''),
			coalesce(last_error, ''), extract(epoch from next_attempt_at - clock_timestamp())::float8
		from %s where event_id::text = any($1)`, t.settings.Table), t.show)
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	found := map[string]row{}
	var id string
	var r row
	_, err = pgx.ForEachRow(rows, []any{&id, &r.Type, &r.Status, &r.Attempts, &r.Code, &r.Error, &r.Next}, func() error {
		found[id] = r
		r.Next = nil // the next row gets a number of its own
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	return found, nil
}

func sampleIDs() (ids []string) {
	for _, s := range samples() {
		ids = append(ids, s.id)
	}
	return ids
}
