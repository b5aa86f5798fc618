package postgres

import (
	"fmt"
	"strings"
	"testing"

	"outbox-dispatcher/internal/outbox"
)

// What the service put around its table can refuse any change of one row: a
// constraint that came later, a trigger, with a code of its choice.
func TestARowThatCannotBeChangedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"23514", "22000", "44000", "54001", "P0001", "P0042"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.exec(fmt.Sprintf(`create function refuse() returns trigger language plpgsql as $$ begin
					if new.event_type = 'refused' then raise exception 'not this one' using errcode = '%s'; end if; return new; end $$;
				create trigger refuse before update on outbox_events for each row execute function refuse()`, code))
			refused := []string{"event_type", "'refused'"}
			f.fill(3)
			events := f.take().Events
			f.leased(11, "now() - interval '4 minutes'", refused...) // the first to be reclaimed
			f.leased(12, ago, "lost_leases", "4")
			f.leased(13, ago)
			f.put(21, refused...)
			f.put(22)
			before := []string{f.image(11), f.image(21)}
			batch := f.take(reclaiming(10))
			if r := batch.Reclaimed; r.Returned != 1 || r.Failed != 1 || numbers(batch.Events) != "13 22" {
				t.Errorf("%+v, claimed %s; want one returned, one failed, 13 and 22 claimed", r, numbers(batch.Events))
			}
			if r := batch.Unchangeable; len(r) != 2 || r[0].EventID != id(11) || r[1].EventID != id(21) || !strings.Contains(r[0].Reason, code) || !strings.Contains(r[1].Reason, code) || strings.Contains(fmt.Sprint(r), "not this one") {
				t.Errorf("unchangeable: %+v", r)
			}
			f.unchanged(11, before[0])
			f.unchanged(21, before[1])
			f.check(12, "failed false", "delivery_status", "payload_json ? '_delivery_claim_token'")

			f.exec("alter table outbox_events disable trigger refuse; update outbox_events set event_type = 'refused' where event_id = '" + id(1) + "'; alter table outbox_events enable trigger refuse")
			var outcomes []outbox.Outcome
			for _, e := range events {
				outcomes = append(outcomes, succeeded(e))
			}
			if got, want := f.record(outcomes...), "recorded refused recorded"; got != want {
				t.Errorf("recorded %s, want %s", got, want)
			}
		})
	}
}

// Postgres ends a session that idled for too long by its own count.
func TestASessionThatIdledForTooLongIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("do $$ begin execute format('alter database %I set idle_session_timeout = ''50ms''', current_database()); end $$")
	f.store = f.open(f.url)
	f.fill(2)
	gone := func() {
		f.eventually("the sessions of the store end", "select not exists (select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name = 'outbox-dispatcher')")
	}
	for _, want := range []string{"0", "1"} {
		if got := numbers(f.take(limit(1)).Events); got != want {
			t.Errorf("claimed %q, want %s", got, want)
		}
		gone()
	}
}
