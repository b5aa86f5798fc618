package postgres

import (
	"testing"

	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/pgtest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// disturbances between two calls of a warm store, none of which is an error.
func aWarmStoreGoesOn(t *testing.T, f *fixture, disturb func()) {
	t.Helper()
	f.fill(4)
	events := f.take(limit(3)).Events
	calls := []struct {
		name string
		call func() string
		want string
	}{
		{"Record", func() string { return f.record(succeeded(events[0])) }, "recorded"},
		{"Release", func() string { return f.release(events[1]) }, "recorded"},
		{"Take", func() string { return numbers(f.take(reclaiming(10)).Events) }, "1 3"},
		{"Backlog", func() string { _, err := f.store.Backlog(t.Context()); return asText(err) }, ""},
		{"Due", func() string { _, _, err := f.store.Due(t.Context(), 1); return asText(err) }, ""},
		{"Status", func() string { _, err := f.store.Status(t.Context()); return asText(err) }, ""},
		{"RecordOfAGroup", func() string { return f.record(succeeded(events[2]), succeeded(events[0])) }, "recorded recorded"},
	}
	for _, c := range calls {
		disturb()
		if got := c.call(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	f.check(0, "succeeded 1 0", "delivery_status", "attempts", "lost_leases")
	f.check(2, "succeeded 1 0", "delivery_status", "attempts", "lost_leases")
}

func asText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func sessionsMayBeTerminated(t *testing.T, f *fixture) {
	aWarmStoreGoesOn(t, f, func() {
		f.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state = 'idle' and query ilike '%' || current_schema || '.%outbox%'")
	})
}

func columnsMayBeAdded(t *testing.T, f *fixture) {
	n := 0
	aWarmStoreGoesOn(t, f, func() {
		n++
		f.exec("alter table outbox_events add column extra_" + string(rune('a'+n)) + " text default 'x'")
	})
}

func thePayloadMayChangeItsType(t *testing.T, f *fixture) {
	types := []string{"json", "jsonb"}
	n := 0
	aWarmStoreGoesOn(t, f, func() {
		f.exec("alter table outbox_events alter payload_json type " + types[n%2] + " using payload_json::" + types[n%2])
		n++
	})
}

func TestTheServerMayRestart(t *testing.T) {
	t.Parallel()
	server := startServer(t, throwaway.Options{})
	if err := migrated(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	f := fixtureAt(t, server.URL("postgres"))
	aWarmStoreGoesOn(t, f, func() {
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.Conn = pgtest.Conn(t, f.url)
	})
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err := f.store.Take(t.Context(), ask())
	checkSentence(t, err, "refuses connections")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Record(t.Context(), []outbox.Outcome{{EventID: id(1)}}); err != nil {
		t.Error(err)
	}
}

// After a failover a session can be left on what is now a standby.
func TestASessionThatTurnedReadOnlyIsThrownAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(1)
	readOnly := func(how string) {
		f.exec("do $$ begin execute format('alter database %I set default_transaction_read_only = " + how + "', current_database()); end $$")
	}
	readOnly("on")
	if err := f.store.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	readOnly("off")
	e := f.one()

	readOnly("on")
	f.store.pool.Reset()
	if _, err := f.store.Backlog(t.Context()); err != nil {
		t.Fatal(err)
	}
	readOnly("off")
	if got := f.record(succeeded(e)); got != "recorded" {
		t.Error(got)
	}
}

func TestACommitWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(2)
	events := f.take().Events
	// The session dies behind the commit of the outcome and before its answer: a
	// deferred trigger is the last thing to run in a transaction, so here it runs
	// in one that does not commit, and the outcome has to be written once more.
	f.exec(`create function die() returns trigger language plpgsql as $$ begin
			if nextval('deaths') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if; return null; end $$;
		create sequence deaths; create constraint trigger die after update on outbox_events deferrable initially deferred for each row execute function die()`)
	if got := f.record(succeeded(events[0]), failed(events[1])); got != "recorded recorded" {
		t.Error(got)
	}
	f.check(0, "succeeded 1", "delivery_status", "attempts")
	f.check(1, "failed 1", "delivery_status", "attempts")
}
