package cycle_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// stage is a dispatcher between a real Postgres and a scripted n8n.
type stage struct {
	t   *testing.T
	url string // of the database
	db  *pgx.Conn
	n8n *n8ntest.Server
	*cycle.Dispatcher
	store *postgres.Store
}

const table = "outbox_events"

func migrated(ctx context.Context, url string) error {
	s, err := postgres.Open(config.Database{URL: url, Table: config.Table{Name: table}}, &postgres.Connector{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx, func(string) {})
}

// newStage makes a stage with settings that suit a test: a POST has 2 s, a lease
// 60 s, the delays between attempts are those of production.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, url: pgtest.NewFrom(t, migrated), n8n: n8ntest.New(t)}
	s.db = pgtest.Conn(t, s.url)
	s.Dispatcher, s.store = s.another()
	return s
}

// another returns one more dispatcher on the same table and n8n, as another
// instance of the Lambda is.
func (s *stage) another() (*cycle.Dispatcher, *postgres.Store) {
	s.t.Helper()
	store, err := postgres.Open(config.Database{URL: s.url, Table: config.Table{Name: table}}, &postgres.Connector{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(store.Close)
	d := &cycle.Dispatcher{
		Settings: cycle.Settings{
			Enabled: true, HTTPTimeout: 2 * time.Second, Lease: time.Minute, MaxBodyBytes: 15 << 20,
			Policy:     outbox.Policy{MaxAttempts: 5, BackoffCap: time.Minute},
			ClaimLimit: 500, ReclaimLimit: 500, ClaimBytes: 32 << 20,
			Concurrency: 10, MaxCycles: 1, MaxLostLeases: 5,
		},
		Store: store, Tokens: &tokens{now: "token-1"}, Observer: cycle.Discard{}, Pacer: cycle.NewPacer(),
	}
	s.aim(d, s.n8n.URL())
	return d, store
}

// aim points a dispatcher at a URL, with the timeout of its settings.
func (s *stage) aim(d *cycle.Dispatcher, to string) {
	u, err := url.Parse(to)
	if err != nil {
		s.t.Fatal(err)
	}
	d.Webhook = n8n.New(n8n.Options{URL: u, Timeout: d.Settings.HTTPTimeout, Connections: d.Settings.Concurrency})
}

// timeout sets the timeout of a POST.
func (s *stage) timeout(d time.Duration) {
	s.Settings.HTTPTimeout = d
	s.aim(s.Dispatcher, s.n8n.URL())
}

// tokens is a token that can be rotated.
type tokens struct {
	now, next string // next is what Refresh reads; empty: the same
	refreshed int
}

func (t *tokens) Token(context.Context) (string, error) { return t.now, nil }

func (t *tokens) Refresh(context.Context) (string, error) {
	t.refreshed++
	if t.next != "" {
		t.now = t.next
	}
	return t.now, nil
}

// id is the id of the nth event; its order is that of n.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

const payload = `{"correlation_id": "c", "aggregate": {"type": "vehicle"}, "data": {"n": 1}}`

// insert inserts due events n0 to n1, the first due the longest.
func (s *stage) insert(n0, n1 int) {
	s.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'vehicle.updated',
		       now() - interval '1 hour' + n * interval '1 second', $3::jsonb
		from generate_series($1::int, $2::int) n`, n0, n1, payload)
}

func (s *stage) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(context.Background(), sql, args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// ask returns the one value that a query yields.
func ask[T any](s *stage, sql string, args ...any) (v T) {
	s.t.Helper()
	if err := s.db.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// row is what a test looks at.
type row struct {
	Status   string
	Attempts int
	Code     string
	Error    string
	RunID    string
	In       *float64 // seconds until next_attempt_at; nil: null
	Token    bool     // the claim token is in the payload
}

func (s *stage) row(n int) (r row) {
	s.t.Helper()
	err := s.db.QueryRow(context.Background(), `select delivery_status, attempts, coalesce(last_error_code, ''), coalesce(last_error, ''),
		coalesce(external_run_id, ''), extract(epoch from next_attempt_at - clock_timestamp())::float8,
		coalesce(payload_json ? '_delivery_claim_token', false)
		from outbox_events where event_id = $1`, id(n)).Scan(&r.Status, &r.Attempts, &r.Code, &r.Error, &r.RunID, &r.In, &r.Token)
	if err != nil {
		s.t.Fatalf("event %d: %v", n, err)
	}
	return r
}

// run does one invocation with the time that a Lambda would have, and holds its
// report to the sum that every report keeps.
func (s *stage) run() cycle.Report {
	s.t.Helper()
	return s.runWith(s.Dispatcher, cycle.Request{}, 30*time.Second)
}

func (s *stage) runWith(d *cycle.Dispatcher, req cycle.Request, time_ time.Duration) cycle.Report {
	s.t.Helper()
	r, err := s.try(d, req, time_)
	if err != nil {
		s.t.Fatalf("the invocation failed: %v", err)
	}
	return r
}

func (s *stage) try(d *cycle.Dispatcher, req cycle.Request, left time.Duration) (cycle.Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	r, err := d.Run(ctx, req)
	if sum := r.Succeeded + r.Retried + r.Failed + r.Released + r.Lost + r.Unrecorded; sum != r.Claimed {
		s.t.Errorf("claimed %d and accounted for %d: %+v", r.Claimed, sum, r)
	}
	return r, err
}

// delay makes every event due now that waits for its next attempt.
func (s *stage) delayPassed() {
	s.exec(`update outbox_events set next_attempt_at = now() - interval '1 second' where delivery_status = 'pending' and next_attempt_at is not null`)
}

// leasesPassed makes every lease run out.
func (s *stage) leasesPassed() {
	s.exec(`update outbox_events set next_attempt_at = now() - interval '1 second' where delivery_status = 'delivering'`)
}
