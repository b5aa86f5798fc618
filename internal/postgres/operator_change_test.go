package postgres_test

import (
	"strings"
	"testing"

	"outbox-dispatcher/internal/operator"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	const failedRow = "'failed'"

	t.Run("GivesAFreshBudgetAndKeepsTheHistory", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(1, "delivery_status", failedRow, "attempts", "100", "attempts_base", "40", "last_error", "'HTTP 503'", "last_error_code", "'connectionError'", "lost_leases", "5", "lost_leases_at", "100", "external_run_id", "'9'")
		d.put(2, "delivery_status", "'succeeded'", "attempts", "100") // just outside
		d.put(3, "delivery_status", "'parked by us'", "attempts", "100")
		d.unchanged(func() {
			ids, err := d.store.Replay(t.Context(), d.refs(1, 2, 3), []float64{0, 0, 0})
			if err != nil || numbers(ids) != "1" {
				t.Errorf("replayed %s, %v", numbers(ids), err)
			}
		}, 2, 3)
		got := d.of(1, "delivery_status", "attempts", "attempts_base", "last_error", "last_error_code", "lost_leases", "external_run_id", "payload_json::jsonb = '"+deskPayload+"'")
		if got != "pending 100 100 HTTP 503 connectionError 0 9 true" {
			t.Error(got)
		}
	})

	t.Run("SpacesThemOut", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		for n := 1; n <= 3; n++ {
			d.put(n, "delivery_status", failedRow)
		}
		refs := d.refs(1, 2, 3)
		delays := map[string]float64{eventID(1): 0, eventID(2): 0.2, eventID(3): 60}
		var in []float64
		for _, r := range refs {
			in = append(in, delays[r.ID])
		}
		if _, err := d.store.Replay(t.Context(), refs, in); err != nil {
			t.Fatal(err)
		}
		one := "(select next_attempt_at from outbox_events where event_id = '" + eventID(1) + "')"
		if got := d.of(2, "round(extract(epoch from next_attempt_at - "+one+"), 1)"); got != "0.2" {
			t.Error(got)
		}
		if got := d.of(3, "next_attempt_at > now() + interval '55 s'"); got != "true" {
			t.Error(got)
		}
	})

	t.Run("LeavesOneThatFailedOnceMore", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(1, "delivery_status", failedRow, "attempts", "3")
		refs := d.refs(1)
		d.exec("update outbox_events set attempts = 4")
		d.unchanged(func() {
			if ids, err := d.store.Replay(t.Context(), refs, []float64{0}); err != nil || len(ids) > 0 {
				t.Errorf("replayed %v, %v", ids, err)
			}
		}, 1)
	})

	t.Run("WaitsForNoLock", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(1, "delivery_status", failedRow)
		d.put(2, "delivery_status", failedRow)
		refs := d.refs(1, 2)
		d.locked(1)
		if ids, err := d.store.Replay(t.Context(), refs, []float64{0, 0}); err != nil || numbers(ids) != "2" {
			t.Errorf("replayed %v, %v", ids, err)
		}
	})

	t.Run("OfJSONPayloads", func(t *testing.T) {
		t.Parallel()
		d := jsonDesk(t)
		d.put(1, "delivery_status", failedRow, "payload_json", `'{"a": "\u0000"}'`) // which jsonb cannot hold
		if ids, err := d.store.Replay(t.Context(), d.refs(1), []float64{0}); err != nil || numbers(ids) != "1" {
			t.Errorf("replayed %v, %v", ids, err)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put(1, "attempts", "2", "next_attempt_at", "now() + interval '1 min'", "last_error", "'HTTP 503'", "last_error_code", "'connectionError'")
	d.put(2, "delivery_status", "'delivering'", "next_attempt_at", "now() + interval '1 min'") // just outside
	d.put(3, "delivery_status", "'paused'")
	d.put(4) // locked: a claim is about to take it
	d.put(5) // tried meanwhile
	refs := d.refs(1, 2, 3, 4, 5)
	d.exec("update outbox_events set attempts = 1 where event_id = '" + eventID(5) + "'")
	unlock := d.locked(4)
	d.unchanged(func() {
		ids, err := d.store.Cancel(t.Context(), refs, "cancelled", "Cancelled by bob: sent by hand")
		if err != nil || numbers(ids) != "1" {
			t.Errorf("cancelled %s, %v", numbers(ids), err)
		}
		unlock()
	}, 2, 3, 4, 5)
	if got := d.of(1, "delivery_status", "attempts", "next_attempt_at", "last_error_code", "last_error"); got != "failed 2 null cancelled Cancelled by bob: sent by hand" {
		t.Error(got)
	}
}

func TestReclaimByPeople(t *testing.T) {
	t.Parallel()

	t.Run("GivesBackWhatRanOut", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(1, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 s'", "attempts", "3")
		d.put(2, "delivery_status", "'delivering'", "next_attempt_at", "now() + interval '1 min'") // just outside
		d.put(3, "delivery_status", "'delivering'")                                                // parked
		d.put(4, "delivery_status", "'leased'", "next_attempt_at", "now() - interval '1 s'")
		d.put(5, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 s'", "attempts", "3", "lost_leases", "4", "lost_leases_at", "3")
		if n, err := d.store.Expired(t.Context(), 100); err != nil || n != 2 {
			t.Errorf("%d expired, %v", n, err)
		}
		if n, err := d.store.Expired(t.Context(), 1); err != nil || n != 1 {
			t.Errorf("%d expired where counting ends at 1, %v", n, err)
		}
		d.unchanged(func() {
			r, err := d.store.Reclaim(t.Context(), 100, 5)
			if err != nil || r.Pending != 1 || r.Failed != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		}, 2, 3, 4)
		if got := d.of(1, "delivery_status", "attempts", "lost_leases", "last_error_code"); got != "pending 3 1 staleLeaseRecovered" {
			t.Error(got)
		}
		if got := d.of(5, "delivery_status", "last_error_code"); got != "failed leaseLostRepeatedly" {
			t.Error(got)
		}
	})

	t.Run("MeetsAPayloadThatCannotBeRead", func(t *testing.T) {
		t.Parallel()
		d := jsonDesk(t)
		d.put(1, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 s'", "lost_leases", "4", "payload_json", `'{"a": "\u0000"}'`)
		if r, err := d.store.Reclaim(t.Context(), 100, 5); err != nil || r.Failed != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestTakeBack(t *testing.T) {
	t.Parallel()
	const token = `'{"correlation_id": 1, "aggregate": 2, "data": 3, "_delivery_claim_token": "t"}'`

	for _, c := range []struct {
		name, next, lost string
		force, done      bool
		want             string // delivery_status, lost_leases, lost_leases_at, last_error, whether there is a token
	}{
		{"Expired", "now() - interval '1 s'", "1", false, true, "pending 2 3 why false"},
		{"ExpiredForTheFirstTime", "now() - interval '1 s'", "0", true, true, "pending 1 3 why false"},
		{"Live", "now() + interval '1 min'", "1", false, false, "delivering 1 3 null true"},
		{"LiveByForce", "now() + interval '1 min'", "1", true, true, "pending 1 3 why false"},
		{"Parked", "null", "1", false, false, "delivering 1 3 null true"},
		{"ParkedByForce", "null", "1", true, true, "pending 1 3 why false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.put(1, "delivery_status", "'delivering'", "attempts", "3", "lost_leases", c.lost, "lost_leases_at", "3", "next_attempt_at", c.next, "payload_json", token)
			d.put(2, "delivery_status", "'delivering'", "next_attempt_at", c.next, "payload_json", token)
			d.unchanged(func() {
				done, err := d.store.TakeBack(t.Context(), eventID(1), c.force, "why")
				if err != nil || done != c.done {
					t.Errorf("done %v, %v", done, err)
				}
			}, 2)
			if got := d.of(1, "delivery_status", "lost_leases", "lost_leases_at", "last_error", "payload_json ? '_delivery_claim_token'"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}

	t.Run("OnlyWhatIsDelivering", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		for n, status := range []string{"pending", "succeeded", "failed", "paused"} {
			d.put(n, "delivery_status", "'"+status+"'", "next_attempt_at", "now() - interval '1 min'")
		}
		d.unchanged(func() {
			for n := range 4 {
				if done, err := d.store.TakeBack(t.Context(), eventID(n), true, "why"); done || err != nil {
					t.Errorf("event %d: %v, %v", n, done, err)
				}
			}
			if done, err := d.store.TakeBack(t.Context(), eventID(99), true, "why"); done || err != nil {
				t.Errorf("an event that is not there: %v, %v", done, err)
			}
		}, 0, 1, 2, 3)
	})

	t.Run("WaitsForNoLock", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.put(1, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 s'")
		d.locked(1)
		if done, err := d.store.TakeBack(t.Context(), eventID(1), true, "why"); done || err != nil {
			t.Errorf("%v, %v", done, err)
		}
	})

	t.Run("APayloadThatCannotBeRead", func(t *testing.T) {
		t.Parallel()
		d := jsonDesk(t)
		d.put(1, "delivery_status", "'delivering'", "payload_json", `'{"a": "\u0000"}'`)
		if done, err := d.store.TakeBack(t.Context(), eventID(1), true, "why"); !done || err != nil {
			t.Errorf("%v, %v", done, err)
		}
		if got := d.of(1, "delivery_status", "payload_json"); got != `pending {"a": "\u0000"}` {
			t.Error(got)
		}
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n := 1; n <= 4; n++ { // 4 is the oldest
		d.put(n, "delivery_status", "'failed'", "last_error_code", "'connectionError'", "attempts", "5", "occurred_at", "now() - interval '1 min' * "+eventID(n)[35:])
	}
	d.put(5, "delivery_status", "'failed'", "last_error_code", "'malformedPayload'")
	d.put(6, "delivery_status", "'failed'") // without a code
	d.put(7, "last_error_code", "'connectionError'")
	d.put(8, "last_error_code", "'connectionError'", "lost_leases", "3") // a suspect
	d.put(9, "delivery_status", "'paused'", "last_error_code", "'connectionError'")
	for _, c := range []struct {
		name, status string
		filter       operator.Filter
		limit        int
		want         string
		matched      int
	}{
		{"TheOldestFirst", "failed", operator.Filter{Code: "connectionError"}, 10, "4 3 2 1", 4},
		{"NoMoreThanAskedFor", "failed", operator.Filter{Code: "connectionError"}, 2, "4 3", 4},
		{"AllThatFailed", "failed", operator.Filter{}, 10, "5 6 4 3 2 1", 6},
		{"PendingWithSuspects", "pending", operator.Filter{Code: "connectionError"}, 10, "7 8", 2},
		{"SuspectsAlone", "suspect", operator.Filter{}, 10, "8", 1},
		{"DueAndSuspect", "due suspect", operator.Filter{}, 10, "7 8", 2},
		{"None", "failed", operator.Filter{Code: "connectionerror"}, 10, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := d.store.Choose(t.Context(), strings.Fields(c.status), c.filter, c.limit)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range got.Refs {
				ids = append(ids, r.ID)
			}
			if numbers(ids) != c.want || got.Matched != c.matched || got.Capped {
				t.Errorf("chose %s of %d, capped %v; want %s of %d", numbers(ids), got.Matched, got.Capped, c.want, c.matched)
			}
		})
	}
	got, err := d.store.Choose(t.Context(), []string{"failed"}, operator.Filter{Code: "connectionError"}, 1)
	if err != nil || got.Refs[0].Attempts != 5 || got.Refs[0].Type != "order.placed" || got.Refs[0].Code != "connectionError" || got.Refs[0].OccurredAt == 0 {
		t.Errorf("%+v, %v", got.Refs, err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put(1, "delivery_status", "'failed'")
	d.put(2, "delivery_status", "'somebody else''s'")
	d.put(3)
	found, err := d.store.Find(t.Context(), []string{eventID(1), eventID(2), eventID(99)})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range found {
		ids = append(ids, e.ID+" "+e.Status)
	}
	if len(ids) != 2 || !strings.Contains(strings.Join(ids, "|"), eventID(2)+" somebody else's") {
		t.Errorf("found %q", ids)
	}
}
