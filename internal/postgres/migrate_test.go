package postgres

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/pgtest"
)

// serviceTable is the table as the service makes it, which knows nothing of us.
const serviceTable = `create table %s (
	event_id uuid primary key, event_type text not null, occurred_at timestamptz not null, payload_json jsonb not null,
	delivery_status text not null default 'pending', attempts integer not null default 0, next_attempt_at timestamptz,
	last_error text, last_error_code text, external_run_id text)`

// emptyFixture has a database without any table.
func emptyFixture(t testing.TB) *fixture {
	t.Helper()
	return fixtureAt(t, pgtest.New(t))
}

// named points the fixture at another table.
func (f *fixture) named(text string) *fixture {
	f.t.Helper()
	name, err := config.ParseTable(text)
	if err != nil {
		f.t.Fatalf("%s: %v", text, err)
	}
	f.name = name
	f.store = openStore(f.t, f.url, name, &Connector{})
	return f
}

// service makes the table as the service does.
func (f *fixture) service() *fixture {
	f.t.Helper()
	f.exec(fmt.Sprintf(serviceTable, f.name))
	return f
}

// migrate returns what was said, a line a step.
func (f *fixture) migrate() string {
	f.t.Helper()
	said, err := f.tryMigrate()
	if err != nil {
		f.t.Fatalf("Migrate: %v\n%s", err, said)
	}
	return said
}

func (f *fixture) tryMigrate() (string, error) {
	var lines []string
	err := f.store.Migrate(f.t.Context(), func(line string) { lines = append(lines, line) })
	return strings.Join(lines, "\n"), err
}

// works fails the test unless the table is whole: a second migration finds
// nothing to do, and an event goes through.
func (f *fixture) works() {
	f.t.Helper()
	if said := f.migrate(); said != "" {
		f.t.Errorf("once more: %s", said)
	}
	if got := f.value("select count(*) from pg_index where indrelid = to_regclass($1) and indisvalid and indpred is not null", f.name.String()); got != "5" {
		f.t.Errorf("%s partial indexes, want 5", got)
	}
	for _, n := range []int{9001, 9002} {
		f.put(n, "occurred_at", "'2000-01-01'") // before all others
	}
	mine := f.take(reclaiming(10), limit(2)).Events
	if numbers(mine) != "9001 9002" {
		f.t.Fatalf("claimed %s, want 9001 9002", numbers(mine))
	}
	if got := f.record(succeeded(mine[0])) + " " + f.release(mine[1]); got != "recorded recorded" {
		f.t.Error(got)
	}
	if _, err := f.store.Status(f.t.Context()); err != nil {
		f.t.Error(err)
	}
	f.exec("delete from "+f.name.String()+" where event_id in ($1, $2)", id(9001), id(9002))
}

func TestMigrateMakesTheTable(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t)
	if err := f.store.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "operator migrate") {
		t.Errorf("before: %v, want what to do", err)
	}
	said := f.migrate()
	for _, want := range []string{`making the table "outbox_events"`, `making the table "outbox_events_control"`, "building the index outbox_events_dispatch_due"} {
		if !strings.Contains(said, want) {
			t.Errorf("it did not say %q:\n%s", want, said)
		}
	}
	f.works()
}

func TestMigrateAddsToTheTableOfTheService(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t).service()
	f.put(1, "attempts", "3", "delivery_status", "'failed'")
	if err := f.store.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "lost_leases, lost_leases_at, attempts_base; run `operator migrate`") {
		t.Errorf("before: %v, want each column named, and what to do", err)
	}
	before := f.value("select pg_relation_filenode('outbox_events')")
	if said := f.migrate(); !strings.Contains(said, `adding to "outbox_events": lost_leases, lost_leases_at, attempts_base`) {
		t.Errorf("it said:\n%s", said)
	}
	f.check(1, "3 failed 0 0 0", "attempts", "delivery_status", "lost_leases", "lost_leases_at", "attempts_base")
	if f.value("select pg_relation_filenode('outbox_events')") != before {
		t.Error("the table was written anew")
	}
	f.put(2) // the service goes on as it did
	f.works()
}

func TestMigrateMendsWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("alter table outbox_events drop column lost_leases_at") // takes three indexes with it
	f.exec("drop index outbox_events_dispatch_lease")
	said := f.migrate()
	if strings.Count(said, "building the index") != 4 || !strings.Contains(said, "adding to \"outbox_events\": lost_leases_at") {
		t.Errorf("it said:\n%s", said)
	}
	f.works()
}

func TestMigrateOfAJSONColumn(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t)
	f.exec(strings.ReplaceAll(fmt.Sprintf(serviceTable, f.name), "jsonb", "json"))
	f.migrate()
	f.works()
	if got := f.value("select format_type(atttypid, null) from pg_attribute where attrelid = 'outbox_events'::regclass and attname = 'payload_json'"); got != "json" {
		t.Errorf("payload_json became %s", got)
	}
}

func TestMigrateOfOtherTypesThatFit(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t)
	f.exec(strings.NewReplacer("text", "varchar(200)", "integer", "bigint").Replace(fmt.Sprintf(serviceTable, f.name)))
	f.migrate()
	f.works()
}

func TestMigrateOfAnyName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 63)
	for _, name := range []string{
		"billing.outbox", `"Billing Team"."Out.Box"`, `"order"`, `"with ""quotes"" and 'more'"`, `"{table} $1 -- {json} ?"`,
		`"a USING btree (b) WHERE c"`, `"éèœ 例え 😀"`, long, `"` + strings.Repeat("é", 31) + `x"`, `"` + strings.Repeat("-", 63) + `"`,
		`"` + strings.Repeat("😀", 15) + `abc"`, `"\"`, `" "`, `"%s%d"`, "UPPER_case",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := emptyFixture(t).named(name)
			if f.name.Schema != "" {
				f.exec("create schema " + config.Quote(f.name.Schema))
			}
			f.service()
			f.migrate()
			f.works()
		})
	}
}

func TestMigrateOfTwoTablesWithTheSameLongStart(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t)
	for _, end := range []string{"1", "2"} {
		f.named(strings.Repeat("n", 62) + end).service()
		f.migrate()
		f.works()
	}
}

func TestMigrateAfterTheTableWas(t *testing.T) {
	t.Parallel()
	t.Run("DroppedAndMadeAnew", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.take()
		f.exec("drop table outbox_events")
		f.service()
		if _, err := f.store.Take(t.Context(), ask()); err == nil || !strings.Contains(err.Error(), "operator migrate") {
			t.Errorf("a warm store: %v, want what to do", err)
		}
		if said := f.migrate(); strings.Contains(said, "making") || strings.Count(said, "building") != 5 {
			t.Errorf("it said:\n%s", said)
		}
		f.works()
	})
	t.Run("RenamedAwayWithItsIndexes", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.exec("alter table outbox_events rename to outbox_events_2024")
		f.service()
		said := f.migrate()
		if !strings.Contains(said, "building the index outbox_events_dispatch_due2") {
			t.Errorf("the names are taken, and it said:\n%s", said)
		}
		f.works()
		f.named("outbox_events_2024")
		if said := f.migrate(); said != `making the table "outbox_events_2024_control"` { // its indexes are known by what they are
			t.Errorf("of the old table it said:\n%s", said)
		}
		f.works()
	})
	t.Run("RestoredWithOtherIndexNames", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.exec("alter index outbox_events_dispatch_due rename to something_else")
		f.exec("create index outbox_events_dispatch_due on outbox_events (attempts)")
		if said := f.migrate(); said != "" {
			t.Errorf("it said %s", said)
		}
	})
	t.Run("MovedToAnotherSchema", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.exec("create schema elsewhere; alter table outbox_events set schema elsewhere")
		f.named("elsewhere.outbox_events")
		if said := f.migrate(); !strings.Contains(said, `"elsewhere"."outbox_events_control"`) || strings.Contains(said, "building") {
			t.Errorf("it said:\n%s", said)
		}
		f.works()
	})
}

func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	for _, refused := range []struct {
		name, instead string // of the service's table
		want          string
	}{
		{"AnIDThatIsText", "alter table outbox_events alter event_id type text", `the column event_id of "outbox_events" has the type text; it must be uuid`},
		{"ATimeWithoutZone", "alter table outbox_events alter occurred_at type timestamp", "the column occurred_at of \"outbox_events\" has the type timestamp without time zone; it must be timestamp with time zone"},
		{"APayloadThatIsText", "alter table outbox_events alter payload_json type text", "payload_json"},
		{"AttemptsThatAreText", "alter table outbox_events alter attempts drop default, alter attempts type text", "attempts"},
		{"OurColumnWithAnotherType", "alter table outbox_events add lost_leases text", "lost_leases of \"outbox_events\" has the type text; it must be integer"},
		{"AMissingColumn", "alter table outbox_events drop payload_json, drop last_error", "lacks payload_json, last_error"},
		{"NoColumnAtAll", "drop table outbox_events; create table outbox_events ()", "lacks event_id, event_type"},
		{"APartitionedTable", "drop table outbox_events; create table outbox_events (event_id uuid) partition by hash (event_id)", "is partitioned"},
		{"AView", "alter table outbox_events rename to hidden; create view outbox_events as select * from hidden", "is no table but a view"},
	} {
		t.Run(refused.name, func(t *testing.T) {
			t.Parallel()
			f := emptyFixture(t).service()
			f.exec(refused.instead)
			const all = "select string_agg(attrelid::regclass || '.' || attname || ' ' || format_type(atttypid, null), ', ' order by attrelid, attnum) from pg_attribute where attnum > 0 and attrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)"
			before := f.value(all)
			if said, err := f.tryMigrate(); err == nil || !strings.Contains(err.Error(), refused.want) || said != "" {
				t.Errorf("%v, want %q\n%s", err, refused.want, said)
			}
			if after := f.value(all); after != before {
				t.Errorf("it changed %s\nto %s", before, after)
			}
		})
	}
	t.Run("ASchemaThatIsNotThere", func(t *testing.T) {
		t.Parallel()
		f := emptyFixture(t).named("nowhere.outbox")
		if _, err := f.tryMigrate(); err == nil || !strings.Contains(err.Error(), `schema "nowhere" does not exist`) {
			t.Error(err)
		}
	})
	t.Run("ARoleThatOwnsNothing", func(t *testing.T) {
		t.Parallel()
		f := emptyFixture(t).service()
		url := f.role("guest", "grant select, update on outbox_events to {role}")
		f.store = f.open(url)
		if _, err := f.tryMigrate(); err == nil || !strings.Contains(err.Error(), "lacks a right: must be owner of table outbox_events") {
			t.Error(err)
		}
	})
	t.Run("ARoleThatMayMakeNothing", func(t *testing.T) {
		t.Parallel()
		f := emptyFixture(t)
		f.exec("revoke create on schema public from public")
		f.store = f.open(f.role("guest"))
		if _, err := f.tryMigrate(); err == nil || !strings.Contains(err.Error(), "lacks a right: permission denied for schema public") {
			t.Error(err)
		}
	})
}

func TestMigrateLetsTheDispatcherReadAPause(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t).service()
	dispatcher := f.role("dispatcher", "grant select, update on outbox_events to {role}")
	f.role("reader", "grant select on outbox_events to {role}")
	f.migrate()
	works := func() {
		t.Helper()
		f.exec("truncate outbox_events")
		f.put(1)
		s := f.open(dispatcher)
		batch, err := s.Take(t.Context(), ask(reclaiming(10)))
		if err != nil {
			t.Fatal(err)
		}
		if fates, err := s.Record(t.Context(), []outbox.Outcome{succeeded(batch.Events[0])}); err != nil || words(fates) != "recorded" {
			t.Errorf("%s, %v", words(fates), err)
		}
	}
	works()
	who, err := url.Parse(dispatcher)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.value("select string_agg(grantee || ' ' || privilege_type, ', ') from information_schema.role_table_grants where table_name = 'outbox_events_control' and grantee <> 'postgres'"); got != who.User.Username()+" SELECT" {
		t.Errorf("rights on the control table: %s", got)
	}
	// A right that was lost, or a role that came later, is seen to by the next one.
	f.exec("revoke all on outbox_events_control from " + who.User.Username())
	if err := f.open(dispatcher).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `may not SELECT "outbox_events_control"`) {
		t.Errorf("without the right: %v", err)
	}
	if said := f.migrate(); said != "letting "+who.User.Username()+` read "outbox_events_control"` {
		t.Errorf("it said %s", said)
	}
	works()
	f.exec("grant update on outbox_events to public")
	f.migrate()
	f.works()
}
