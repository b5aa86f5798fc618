package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/pgtest"
)

// desk is an outbox table in a database of its own, and what people do with it.
type desk struct {
	*pgx.Conn // of a superuser: it plays everybody else
	t         testing.TB
	url       string
	table     config.Table
	store     *postgres.Store
}

func deskTemplate(ctx context.Context, url string) error {
	s, err := postgres.Open(config.Database{URL: url, Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx, func(string) {})
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{t: t, url: pgtest.NewFrom(t, deskTemplate), table: config.Table{Name: "outbox_events"}}
	d.Conn = pgtest.Conn(t, d.url)
	d.store = d.open(d.url)
	return d
}

// jsonDesk has a table whose payloads are json instead of jsonb, with a name that
// needs quotes.
func jsonDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{t: t, url: pgtest.New(t), table: config.Table{Schema: "Sales", Name: `odd "box"`}}
	d.Conn = pgtest.Conn(t, d.url)
	d.exec(`create schema "Sales"; create table ` + d.table.String() + ` (event_id uuid primary key, event_type text not null,
		occurred_at timestamptz not null, payload_json json not null, delivery_status text not null default 'pending',
		attempts integer not null default 0, next_attempt_at timestamptz, last_error text, last_error_code text, external_run_id text)`)
	d.store = d.open(d.url)
	if err := d.store.Migrate(t.Context(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) open(url string) *postgres.Store {
	d.t.Helper()
	s, err := postgres.Open(config.Database{URL: url, Table: d.table}, &postgres.Connector{})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(s.Close)
	return s
}

// with is the URL of the database with one more setting.
func (d *desk) with(setting string) string {
	if strings.Contains(d.url, "?") {
		return d.url + "&" + setting
	}
	return d.url + "?" + setting
}

func (d *desk) exec(sql string) {
	d.t.Helper()
	if _, err := d.PgConn().Exec(d.t.Context(), sql).ReadAll(); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

func eventID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

const deskPayload = `{"correlation_id": "c-1", "aggregate": {"type": "order", "id": 7}, "data": [1, 2.50]}`

// put inserts event n, an hour old and pending, but for the columns given, each
// with its value in SQL.
func (d *desk) put(n int, columns ...string) {
	d.t.Helper()
	values := map[string]string{
		"event_id": "'" + eventID(n) + "'", "event_type": "'order.placed'",
		"occurred_at": "now() - interval '1 hour'", "payload_json": "'" + deskPayload + "'",
	}
	for i := 0; i < len(columns); i += 2 {
		values[columns[i]] = columns[i+1]
	}
	var names, expressions []string
	for name, expression := range values {
		names, expressions = append(names, name), append(expressions, expression)
	}
	d.exec("insert into " + d.table.String() + " (" + strings.Join(names, ", ") + ") values (" + strings.Join(expressions, ", ") + ")")
}

// row returns event n whole, as text; empty if it is gone.
func (d *desk) row(n int) string {
	d.t.Helper()
	return d.value("select coalesce((select t::text from " + d.table.String() + " t where event_id = '" + eventID(n) + "'), '')")
}

// of returns expressions over event n, with spaces between.
func (d *desk) of(n int, expressions ...string) string {
	d.t.Helper()
	return d.value("select array_to_string(array[(" + strings.Join(expressions, ")::text, (") + ")::text], ' ', 'null') from " + d.table.String() + " where event_id = '" + eventID(n) + "'")
}

func (d *desk) value(sql string) (v string) {
	d.t.Helper()
	if err := d.QueryRow(d.t.Context(), sql).Scan(&v); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// locked has somebody else lock event n until the test ends, or unlock is called.
func (d *desk) locked(n int) (unlock func()) {
	d.t.Helper()
	tx, err := pgtest.Conn(d.t, d.url).Begin(d.t.Context())
	if err == nil {
		_, err = tx.Exec(d.t.Context(), "select from "+d.table.String()+" where event_id = $1 for update", eventID(n))
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return func() { _ = tx.Rollback(d.t.Context()) }
}

// unchanged checks that these events are as they were when f began.
func (d *desk) unchanged(f func(), events ...int) {
	d.t.Helper()
	before := make([]string, len(events))
	for i, n := range events {
		before[i] = d.row(n)
	}
	f()
	for i, n := range events {
		if got := d.row(n); got != before[i] {
			d.t.Errorf("event %d was not to be touched; it was\n%s\nand is\n%s", n, before[i], got)
		}
	}
}

// numbers shows which events these are.
func numbers(ids []string) string {
	var s []string
	for _, id := range ids {
		var n int
		if _, err := fmt.Sscanf(strings.TrimLeft(id[24:], "0"), "%d", &n); err != nil {
			return strings.Join(ids, " ")
		}
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, " ")
}

func sortedNumbers(ids []string) string {
	slices.Sort(ids)
	return numbers(ids)
}

// refs are events as they are now, to change them.
func (d *desk) refs(events ...int) []operator.Ref {
	d.t.Helper()
	var ids []string
	for _, n := range events {
		ids = append(ids, eventID(n))
	}
	found, err := d.store.Find(d.t.Context(), ids)
	if err != nil {
		d.t.Fatal(err)
	}
	var refs []operator.Ref
	for _, e := range found {
		refs = append(refs, operator.Ref{ID: e.ID, Type: e.Type, Attempts: e.Attempts})
	}
	return refs
}

func ignore(context.Context, operator.Entry) {}

// keep keeps what the audit is told.
func keep(told *[]operator.Entry) func(context.Context, operator.Entry) {
	return func(_ context.Context, e operator.Entry) { *told = append(*told, e) }
}

func contextWithTimeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// acknowledged are the outcomes of events that n8n took.
func acknowledged(events []outbox.Event) (outcomes []outbox.Outcome) {
	for _, e := range events {
		outcomes = append(outcomes, outbox.Outcome{EventID: e.ID, Attempts: e.Attempts, Base: e.Base, Claim: e.Claim, Status: outbox.Succeeded, RunID: "run"})
	}
	return outcomes
}

// settled waits until every other session of this database has ended, and its
// statistics can be read.
func (d *desk) settled() {
	d.t.Helper()
	for range 400 {
		if d.value("select (count(*) <= 1)::text from pg_stat_activity where datname = current_database() and backend_type = 'client backend'") == "true" {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.exec("select pg_stat_clear_snapshot()")
}
