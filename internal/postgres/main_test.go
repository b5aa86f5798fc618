package postgres

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	// These tests wait for Postgres more than they compute, some of them for a
	// lock or a timeout: more at once than there are processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pgtest.Main(m)
}

// fixture is an outbox table in a database of its own.
type fixture struct {
	*pgx.Conn // of a superuser, straight to Postgres: it plays everybody else
	t         testing.TB
	url       string
	name      config.Table
	store     *Store
}

// migrated fills the template of most tests.
func migrated(ctx context.Context, url string) error {
	s, err := Open(config.Database{URL: url, Table: config.Table{Name: "outbox_events"}}, &Connector{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx, func(string) {})
}

// newFixture makes a migrated table. options are added to the connection string
// of the store.
func newFixture(t testing.TB, options ...string) *fixture {
	t.Helper()
	return fixtureAt(t, pgtest.NewFrom(t, migrated), options...)
}

// jsonFixture makes a table whose payloads are json instead of jsonb.
func jsonFixture(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	f.exec("alter table outbox_events alter payload_json type json using payload_json::json")
	return f
}

func fixtureAt(t testing.TB, url string, options ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, url: url, name: config.Table{Name: "outbox_events"}, Conn: pgtest.Conn(t, url)}
	f.store = f.open(url, options...)
	return f
}

// open returns another store for the table of the fixture.
func (f *fixture) open(url string, options ...string) *Store {
	f.t.Helper()
	return openStore(f.t, with(url, options...), f.name, &Connector{})
}

func openStore(t testing.TB, url string, table config.Table, c *Connector) *Store {
	t.Helper()
	s, err := Open(config.Database{URL: url, Table: table}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// with adds key=value options to a connection URL.
func with(text string, options ...string) string {
	for _, o := range options {
		separator := "?"
		if strings.Contains(text, "?") {
			separator = "&"
		}
		text += separator + o
	}
	return text
}

// exec runs a statement.
func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// value returns one value as text; "null" for null.
func (f *fixture) value(sql string, args ...any) string {
	f.t.Helper()
	var v string
	if err := f.QueryRow(f.t.Context(), "select coalesce(("+sql+")::text, 'null')", args...).Scan(&v); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// clock is the time of the database, as an SQL expression.
func (f *fixture) clock() string {
	f.t.Helper()
	return "timestamptz '" + f.value("select clock_timestamp()") + "'"
}

// id is the event_id of row n.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// number is n of an event_id.
func number(eventID string) int {
	n, err := strconv.Atoi(eventID[len(eventID)-12:])
	if err != nil || eventID != id(n) {
		return -1
	}
	return n
}

const payload = `{"correlation_id": "c-1", "aggregate": {"id": 7}, "data": [1, 2.50]}`

// put inserts row n: as a producer does an hour ago, but for the columns given,
// each with its value in SQL.
func (f *fixture) put(n int, columns ...string) {
	f.t.Helper()
	values := map[string]string{
		"event_id": "'" + id(n) + "'", "event_type": "'order.placed'",
		"occurred_at": "now() - interval '1 hour'", "payload_json": "'" + payload + "'",
	}
	for i := 0; i < len(columns); i += 2 {
		values[columns[i]] = columns[i+1]
	}
	var names, expressions []string
	for name, expression := range values {
		names, expressions = append(names, name), append(expressions, expression)
	}
	f.exec("insert into " + f.name.String() + " (" + strings.Join(names, ", ") + ") values (" + strings.Join(expressions, ", ") + ")")
}

// fill inserts rows 0 to n-1 as put does, in one statement.
func (f *fixture) fill(n int) {
	f.t.Helper()
	f.exec("insert into "+f.name.String()+` (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'order.placed', now() - interval '1 hour', '`+payload+`'
		from generate_series(0, $1 - 1) n`, n)
}

// show returns expressions over row n, as text with spaces between.
func (f *fixture) show(n int, expressions ...string) string {
	f.t.Helper()
	return f.value("select array_to_string(array[("+strings.Join(expressions, ")::text, (")+")::text], ' ', 'null') from "+f.name.String()+" where event_id = $1", id(n))
}

// check compares what show returns.
func (f *fixture) check(n int, want string, expressions ...string) {
	f.t.Helper()
	if got := f.show(n, expressions...); got != want {
		f.t.Errorf("row %d: %s is %q, want %q", n, strings.Join(expressions, ", "), got, want)
	}
}

// image is a whole row, to see that nothing of it changed.
func (f *fixture) image(n int) string {
	f.t.Helper()
	return f.value("select t::text from "+f.name.String()+" t where event_id = $1", id(n))
}

func (f *fixture) unchanged(n int, before string) {
	f.t.Helper()
	if got := f.image(n); got != before {
		f.t.Errorf("row %d is\n%s\nwant it as it was:\n%s", n, got, before)
	}
}

const lease = 3 * time.Minute

// ask is a claim as the dispatcher makes it, without a reclaim.
func ask(changes ...func(*cycle.Claim)) cycle.Claim {
	c := cycle.Claim{Limit: 500, Bytes: 32 << 20, MaxBody: 15 << 20, Lease: lease}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func limit(n int) func(*cycle.Claim)      { return func(c *cycle.Claim) { c.Limit = n } }
func maxBytes(n int64) func(*cycle.Claim) { return func(c *cycle.Claim) { c.Bytes = n } }
func suspectsOnly(c *cycle.Claim)         { c.Suspects = true }
func before(now string) func(*cycle.Claim) {
	return func(c *cycle.Claim) { c.Before = now }
}
func reclaiming(limit int) func(*cycle.Claim) {
	return func(c *cycle.Claim) { c.Reclaim = cycle.Reclaim{Limit: limit, MaxLostLeases: 5} }
}

// take claims, and fails the test if that fails.
func (f *fixture) take(changes ...func(*cycle.Claim)) cycle.Batch {
	f.t.Helper()
	batch, err := f.store.Take(f.t.Context(), ask(changes...))
	if err != nil {
		f.t.Fatalf("Take: %v", err)
	}
	return batch
}

// one claims, and returns the one event that must come.
func (f *fixture) one(changes ...func(*cycle.Claim)) outbox.Event {
	f.t.Helper()
	batch := f.take(changes...)
	if len(batch.Events) != 1 {
		f.t.Fatalf("claimed %q, want one event", numbers(batch.Events))
	}
	return batch.Events[0]
}

// numbers shows which rows were claimed, in their order.
func numbers(events []outbox.Event) string {
	var s []string
	for _, e := range events {
		s = append(s, strconv.Itoa(number(e.ID)))
	}
	return strings.Join(s, " ")
}

func succeeded(e outbox.Event) outbox.Outcome {
	return outbox.Outcome{EventID: e.ID, Attempts: e.Attempts, Base: e.Base, Claim: e.Claim, Status: outbox.Succeeded, RunID: "run-7"}
}

func retried(e outbox.Event, delay time.Duration) outbox.Outcome {
	return outbox.Outcome{EventID: e.ID, Attempts: e.Attempts, Base: e.Base, Claim: e.Claim, Status: outbox.Pending,
		Code: outbox.ConnectionError, Error: "503 from n8n.example", Delay: delay}
}

func failed(e outbox.Event) outbox.Outcome {
	return outbox.Outcome{EventID: e.ID, Attempts: e.Attempts, Base: e.Base, Claim: e.Claim, Status: outbox.Failed,
		Code: outbox.RemoteReportedFailure, Error: "the workflow answered ok: false"}
}

// record writes outcomes and returns their fates in words.
func (f *fixture) record(outcomes ...outbox.Outcome) string {
	f.t.Helper()
	fates, err := f.store.Record(f.t.Context(), outcomes)
	if err != nil {
		f.t.Fatalf("Record: %v", err)
	}
	return words(fates)
}

// release gives events back and returns their fates in words.
func (f *fixture) release(events ...outbox.Event) string {
	f.t.Helper()
	fates, err := f.store.Release(f.t.Context(), events)
	if err != nil {
		f.t.Fatalf("Release: %v", err)
	}
	return words(fates)
}

func words(fates []cycle.Fate) string {
	var s []string
	for _, fate := range fates {
		s = append(s, map[cycle.Fate]string{cycle.Recorded: "recorded", cycle.Lost: "lost", cycle.Held: "held", cycle.Refused: "refused"}[fate])
	}
	return strings.Join(s, " ")
}

// begin opens a transaction of somebody else, in a session of its own, runs
// statements in it and leaves it open.
func (f *fixture) begin(statements ...string) pgx.Tx {
	f.t.Helper()
	tx, err := pgtest.Conn(f.t, f.url).Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, sql := range statements {
		if _, err := tx.Exec(f.t.Context(), sql); err != nil {
			f.t.Fatalf("%s: %v", sql, err)
		}
	}
	return tx
}

func (f *fixture) commit(tx pgx.Tx) {
	f.t.Helper()
	if err := tx.Commit(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// eventually waits for what other sessions do in their own time.
func (f *fixture) eventually(what, sql string, args ...any) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); f.value(sql, args...) != "true"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("after 20 s still not: %s", what)
		}
	}
}

// role makes a role for the test and returns the URL with which it logs in.
func (f *fixture) role(name string, statements ...string) string {
	f.t.Helper()
	role := name + "_" + f.value("current_database()")
	f.exec("create role " + role + " login password 'pw'")
	f.t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), with(f.url, "default_transaction_read_only=off"))
		if err != nil {
			f.t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "drop owned by "+role+"; drop role "+role); err != nil {
			f.t.Error(err)
		}
	})
	for _, sql := range statements {
		f.exec(strings.ReplaceAll(sql, "{role}", role))
	}
	u, err := url.Parse(f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	u.User = url.UserPassword(role, "pw")
	return u.String()
}
