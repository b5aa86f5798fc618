package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

const (
	ago   = "now() - interval '1 minute'"
	ahead = "now() + interval '1 minute'"
)

// reclaim reclaims and claims nothing.
func (f *fixture) reclaim(limit int) cycle.Reclaimed {
	f.t.Helper()
	return f.take(reclaiming(limit), before("-infinity")).Reclaimed
}

// lease claims row n as another worker did, so long from now.
func (f *fixture) leased(n int, until string, columns ...string) {
	f.t.Helper()
	f.put(n, append([]string{
		"delivery_status", "'delivering'", "next_attempt_at", until,
		"payload_json", fmt.Sprintf(`'{"_delivery_claim_token": "token %d", "data": 1}'`, n),
	}, columns...)...)
}

func reclaimsOnlyWhatExpired(t *testing.T, f *fixture) {
	f.leased(1, ago, "attempts", "7", "attempts_base", "2", "external_run_id", "'r'", "last_error", "'old'", "last_error_code", "'connectionError'")
	others := [][]string{
		{"delivery_status", "'delivering'", "next_attempt_at", ahead},
		{"delivery_status", "'delivering'"}, // parked
		{"delivery_status", "'delivering'", "next_attempt_at", "'infinity'"},
		{"delivery_status", "'pending'", "next_attempt_at", ahead},
		{"delivery_status", "'succeeded'", "next_attempt_at", ago},
		{"delivery_status", "'failed'", "next_attempt_at", ago},
		{"delivery_status", "'paused'", "next_attempt_at", ago},
	}
	var before []string
	for i, columns := range others {
		f.put(10+i, columns...)
		before = append(before, f.image(10+i))
	}
	if got, want := f.reclaim(10), (cycle.Reclaimed{Returned: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	f.check(1, "pending null 7 2 r staleLeaseRecovered", "delivery_status", "next_attempt_at", "attempts", "attempts_base", "external_run_id", "last_error_code")
	f.check(1, "true token 1", "last_error like '%lease ran out%' and last_error like '%stay at 7.%'", "payload_json ->> '_delivery_claim_token'")
	for i := range others {
		f.unchanged(10+i, before[i])
	}
}

func reclaimCountsLeasesLostInARow(t *testing.T, f *fixture) {
	f.leased(1, ago, "attempts", "3")                                            // the first
	f.leased(2, ago, "attempts", "3", "lost_leases", "1", "lost_leases_at", "3") // the second in a row: a suspect
	f.leased(3, ago, "attempts", "3", "lost_leases", "4", "lost_leases_at", "2") // an outcome came between: a new count
	f.leased(4, ago, "attempts", "3", "lost_leases", "3", "lost_leases_at", "3") // one is left
	if got, want := f.reclaim(10), (cycle.Reclaimed{Returned: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for n, want := range map[int]string{1: "1 3", 2: "2 3", 3: "1 3", 4: "4 3"} {
		f.check(n, want+" 3 pending", "lost_leases", "lost_leases_at", "attempts", "delivery_status")
	}
	if got, want := numbers(f.take().Events), "1 3"; got != want {
		t.Errorf("then claimed %s, want all but the suspects: %s", got, want)
	}
}

func reclaimFailsWhatLostItsLastLease(t *testing.T, f *fixture) {
	f.leased(1, ago, "attempts", "2", "lost_leases", "4", "lost_leases_at", "2")
	f.leased(2, ago, "attempts", "2", "lost_leases", "6", "lost_leases_at", "2", "payload_json", `'["_delivery_claim_token"]'`)
	f.leased(3, ahead, "attempts", "2", "lost_leases", "4", "lost_leases_at", "2")
	if got, want := f.reclaim(10), (cycle.Reclaimed{Failed: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	f.check(1, "failed null 2 leaseLostRepeatedly 5", "delivery_status", "next_attempt_at", "attempts", "last_error_code", "lost_leases")
	f.check(1, `true {"data": 1}`, "last_error like '%5 times in a row%'", "payload_json::jsonb")
	f.check(2, `failed ["_delivery_claim_token"] 7`, "delivery_status", "payload_json", "lost_leases")
	f.check(3, "delivering", "delivery_status")
}

func reclaimKeepsToItsLimit(t *testing.T, f *fixture) {
	f.leased(1, "now() - interval '1 minute'")
	f.leased(2, "now() - interval '3 minutes'")
	f.leased(3, "now() - interval '2 minutes'")
	if got := f.reclaim(2); got.Returned != 2 {
		t.Errorf("%d returned, want 2", got.Returned)
	}
	f.check(1, "delivering", "delivery_status") // those that ran out first came first
	if got := f.reclaim(2); got.Returned != 1 {
		t.Errorf("%d returned, want the last", got.Returned)
	}
}

func anOutcomeIsNeverReclaimed(t *testing.T, f *fixture) {
	// A worker comes late and records while its lease is being reclaimed.
	f.leased(1, ago)
	late := f.begin("update outbox_events set delivery_status = 'succeeded', attempts = attempts + 1, next_attempt_at = null where event_id = '" + id(1) + "'")
	if got := f.reclaim(10); got != (cycle.Reclaimed{}) {
		t.Errorf("%+v, want nothing reclaimed", got)
	}
	f.commit(late)
	if got := f.reclaim(10); got != (cycle.Reclaimed{}) {
		t.Errorf("%+v, want nothing reclaimed", got)
	}
	f.check(1, "succeeded 1 0", "delivery_status", "attempts", "lost_leases")
}

func theReclaimStepEndsBeforeTheClaim(t *testing.T, f *fixture) {
	f.leased(1, ago)
	ended := 0
	batch := f.take(reclaiming(10), func(c *cycle.Claim) { c.Reclaim.Done = func() { ended++ } })
	if ended != 1 || numbers(batch.Events) != "1" {
		t.Errorf("ended %d times, claimed %q; want once, and the row reclaimed", ended, numbers(batch.Events))
	}
}

// Outcomes are written for rows whose lease has run out, while two others reclaim
// and a third session changes the same rows in the reverse order.
func TestReclaimAndRecordAtOnce(t *testing.T) {
	t.Parallel()
	const rows = 200
	f := newFixture(t)
	f.fill(rows)
	batch := f.take(func(c *cycle.Claim) { c.Lease = time.Millisecond })
	if len(batch.Events) != rows {
		t.Fatal(len(batch.Events))
	}
	var (
		wg       sync.WaitGroup
		returned [2]int
		fates    = map[string]cycle.Fate{}
	)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i := range returned {
		s := f.open(f.url)
		wg.Go(func() {
			for range 20 {
				got, err := s.Take(ctx, ask(reclaiming(7), before("-infinity")))
				if err != nil {
					t.Error(err)
				}
				returned[i] += got.Reclaimed.Returned
			}
		})
	}
	wg.Go(func() {
		left := batch.Events
		for len(left) > 0 {
			group := left[:min(20, len(left))]
			var outcomes []outbox.Outcome
			for _, e := range group {
				outcomes = append(outcomes, succeeded(e))
			}
			got, err := f.store.Record(ctx, outcomes)
			if err != nil {
				t.Error(err)
				return
			}
			left = left[len(group):]
			for i, fate := range got {
				fates[group[i].ID] = fate
				if fate == cycle.Held {
					left = append(left, group[i])
				}
			}
		}
	})
	other := f.begin()
	wg.Go(func() {
		for n := rows - 1; n >= 0; n-- {
			if _, err := other.Exec(ctx, "update outbox_events set event_type = 'touched' where event_id = $1", id(n)); err != nil {
				t.Error(err)
			}
			if n%10 == 0 {
				if _, err := other.Exec(ctx, "commit; begin"); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	var recorded int
	for n := range rows {
		if fates[id(n)] == cycle.Recorded {
			recorded++
			f.check(n, "succeeded 1", "delivery_status", "attempts")
		} else {
			f.check(n, "pending 0 1", "delivery_status", "attempts", "lost_leases")
		}
	}
	if got := returned[0] + returned[1]; got != rows-recorded {
		t.Errorf("%d recorded and %d reclaimed, want %d together", recorded, got, rows)
	}
	t.Logf("%d recorded, %d reclaimed", recorded, returned[0]+returned[1])
}
