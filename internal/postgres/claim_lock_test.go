package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func claimSkipsLockedRows(t *testing.T, f *fixture) {
	f.put(1)
	f.put(2)
	f.put(3, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 minute'")
	f.put(4, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 minute'")
	busy := f.begin("select from outbox_events where event_id in ('" + id(1) + "', '" + id(3) + "') for update")

	batch := f.take(reclaiming(10))
	if got, want := numbers(batch.Events), "2 4"; got != want || batch.Reclaimed.Returned != 1 {
		t.Errorf("claimed %s, reclaimed %d; want %s and 1", got, batch.Reclaimed.Returned, want)
	}
	f.commit(busy)
	if got, want := numbers(f.take(reclaiming(10)).Events), "1 3"; got != want {
		t.Errorf("claimed %s, want what is free again: %s", got, want)
	}
}

// Not in the modes that prepare a statement ahead: there it waits for the lock
// before its bounds are sent, and the client ends it.
func TestALockedTableIsAClearError(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		if !strings.HasPrefix(way.name, "Cache") {
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				aLockedTableIsAClearError(t, way.reach(t)(t))
			})
		}
	}
}

func aLockedTableIsAClearError(t *testing.T, f *fixture) {
	f.store.limits.lock = 50 * time.Millisecond
	if err := f.store.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"Take":   func() error { _, err := f.store.Take(t.Context(), ask()); return err },
		"Record": func() error { _, err := f.store.Record(t.Context(), nil); return err },
		"Due":    func() error { _, _, err := f.store.Due(t.Context(), 1); return err },
	}
	f.put(1)
	altering := f.begin("lock table outbox_events in access exclusive mode")
	for name, call := range calls {
		err := call()
		var known *DatabaseError
		if !errors.As(err, &known) || !strings.Contains(known.Text, `outbox_events" is locked as a whole`) {
			t.Errorf("%s: %v, want that the table is locked", name, err)
		}
	}
	f.commit(altering)
	if got := numbers(f.take().Events); got != "1" {
		t.Errorf("behind the lock: claimed %q", got)
	}
}

func TestLimitsByDefault(t *testing.T) {
	t.Parallel()
	// A lease is 180 s and a Lambda 120 s by default: a claim must not take a
	// large piece of either.
	if l := limitsByDefault; l.lock > 3*time.Second || l.lock >= l.record || l.claim > 15*time.Second {
		t.Errorf("%+v", l)
	}
}

// slow makes the table slow to change: each row takes that long.
func (f *fixture) slow(seconds float64) {
	f.t.Helper()
	f.exec(fmt.Sprintf(`create or replace function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(%g); return new; end $$`, seconds))
	f.exec("create or replace trigger slow before update on outbox_events for each row execute function slow()")
}

func aRoundTripIsBoundedAsAWhole(t *testing.T, f *fixture) {
	// Reclaim and claim each stay below the limit, together they do not.
	f.store.limits.claim = 500 * time.Millisecond
	f.put(1, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 minute'")
	f.slow(0.3)
	before := f.image(1)

	_, err := f.store.Take(t.Context(), ask(reclaiming(10)))
	var known *DatabaseError
	if !errors.As(err, &known) || !strings.Contains(known.Text, "time limit") {
		t.Errorf("%v, want that a statement ran into its time limit", err)
	}
	f.unchanged(1, before) // and it never commits
	f.eventually("no session of the store is busy", "select not exists (select from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid())")
	f.unchanged(1, before)
	f.exec("drop trigger slow on outbox_events")
	f.store.limits = limitsByDefault
	if got := numbers(f.take(reclaiming(10)).Events); got != "1" {
		t.Errorf("then: claimed %q, want 1", got)
	}
}

func TestABatchTooSlowForItsTimeGoesOutRowByRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(20)
	f.slow(0.2)
	f.store.limits.claim = time.Second // enough for one row, and not for six
	for _, want := range []string{"0", "1"} {
		batch := f.take()
		if got := numbers(batch.Events); got != want || batch.Drained || batch.CutByBytes {
			t.Errorf("claimed %s, drained %v; want %s, and more to come", got, batch.Drained, want)
		}
	}
	if got := f.value("select count(*) from outbox_events where delivery_status = 'delivering'"); got != "2" {
		t.Errorf("%s rows are delivering, want those that were returned", got)
	}
}
