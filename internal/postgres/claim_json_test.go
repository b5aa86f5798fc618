package postgres

import (
	"fmt"
	"strings"
	"testing"
)

// What json keeps and jsonb refuses, each with what Postgres calls it.
var unreadablePayloads = []string{
	`{"data": "\u0000"}`,       // 22P05
	`{"data": "\ud83d"}`,       // 22P02, a high surrogate alone
	`{"data": "\ude00\ud83d"}`, // 22P02, a pair in the wrong order
	`{"data": 1e400000}`,       // 22003
	`{"_delivery_claim_token": "left by somebody", "data": "\u0000"}`,                  //
	`{"correlation_id": 1, "aggregate": 1, "data": 1, "elsewhere": {"a": [1e999999]}}`, //
}

func aPayloadThatJSONBRefusesIsUnusableAlone(t *testing.T, f *fixture) {
	f.exec("alter table outbox_events alter payload_json type json using payload_json::json")
	for n, p := range unreadablePayloads {
		f.put(10*n, "payload_json", "'"+p+"'")
		f.put(10*n + 1)
	}
	batch := f.take(reclaiming(100))
	if len(batch.Events) != 2*len(unreadablePayloads) || !batch.Drained {
		t.Fatalf("claimed %s, drained %v; want all", numbers(batch.Events), batch.Drained)
	}
	for _, e := range batch.Events {
		n := number(e.ID)
		if n%10 == 1 {
			if e.Body == nil || e.Claim.Token == "" {
				t.Errorf("row %d is good, and has the token %q and %q", n, e.Claim.Token, e.Unusable)
			}
			continue
		}
		if e.Body != nil || e.Claim.Token != "" || e.Unusable == "" {
			t.Errorf("row %d: token %q, body %.50q; want neither", n, e.Claim.Token, e.Body)
		}
		f.check(n, "delivering true", "delivery_status", "payload_json::text = '"+unreadablePayloads[n/10]+"'")
	}
	if batch.Backlog.Due != 0 {
		t.Errorf("%d due behind it", batch.Backlog.Due)
	}
	// Their outcomes are written as everybody else's.
	for _, e := range batch.Events {
		if got := f.record(failed(e)); got != "recorded" {
			t.Errorf("row %d: %s", number(e.ID), got)
		}
	}
	for n, p := range unreadablePayloads {
		f.check(10*n, "failed 1 true", "delivery_status", "attempts", "payload_json::text = '"+p+"'")
	}
}

func jsonPayloadsAreNeverGluedTogether(t *testing.T, f *fixture) {
	f.exec("alter table outbox_events alter payload_json type json using payload_json::json")
	f.put(1, "payload_json", `'{"data": 1, "data": 2.50, "correlation_id": 3, "aggregate": null}'`)
	e := f.one()
	if want := `"correlation_id":3,"aggregate":null,"data":2.50}`; !strings.HasSuffix(string(e.Body), want) {
		t.Errorf("the body is %s, want the last of the doubled keys: %s", e.Body, want)
	}
	f.check(1, "object "+e.Claim.Token, "json_typeof(payload_json)", "payload_json ->> '_delivery_claim_token'")
	if got := f.record(succeeded(e)); got != "recorded" {
		t.Fatal(got)
	}
	f.check(1, "true", `payload_json::jsonb = '{"data": 2.50, "correlation_id": 3, "aggregate": null}'`)
}

func TestACrowdOfUnreadablePayloadsBlocksNobody(t *testing.T) {
	t.Parallel()
	const bad, good = 300, 20
	f := jsonFixture(t)
	f.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 't', now() - interval '1 hour' + n * interval '1 second',
			case when n % 16 = 7 then '`+payload+`' else '{"data": "\u0000"}' end::json
		from generate_series(1, $1) n`, bad+good)
	batch := f.take(reclaiming(500))
	var sendable int
	for _, e := range batch.Events {
		if e.Unusable == "" {
			sendable++
		}
	}
	if len(batch.Events) != bad+good || sendable != good || !batch.Drained {
		t.Errorf("claimed %d, %d of them sendable, drained %v; want %d and %d", len(batch.Events), sendable, batch.Drained, bad+good, good)
	}
	if got := f.value("select count(*) from outbox_events where delivery_status = 'delivering'"); got != fmt.Sprint(bad+good) {
		t.Errorf("%s rows are delivering", got)
	}
}

func TestCarefulClaimKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T) *fixture {
		f := jsonFixture(t)
		for n := range 8 {
			f.put(n, "payload_json", sized(1000), "occurred_at", fmt.Sprintf("now() - interval '%d minutes'", 10-n))
		}
		f.exec(`update outbox_events set payload_json = '{"data": "\u0000"}' where event_id = $1`, id(2))
		return f
	}
	t.Run("Rows", func(t *testing.T) {
		t.Parallel()
		f := fill(t)
		for _, want := range []int{4, 4, 0} {
			if batch := f.take(limit(4)); len(batch.Events) != want || batch.Drained == (want == 4) {
				t.Errorf("claimed %s, drained %v; want %d", numbers(batch.Events), batch.Drained, want)
			}
		}
	})
	t.Run("Bytes", func(t *testing.T) {
		t.Parallel()
		f := fill(t)
		batch := f.take(maxBytes(2500))
		if !batch.CutByBytes || batch.Drained || len(batch.Events) < 2 || len(batch.Events) > 3 {
			t.Errorf("claimed %s, cut %v; want two or three, cut", numbers(batch.Events), batch.CutByBytes)
		}
	})
	t.Run("Before", func(t *testing.T) {
		t.Parallel()
		f := fill(t)
		moment := f.value("select now() - interval '7.5 minutes'")
		if got := len(f.take(before(moment)).Events); got != 3 {
			t.Errorf("claimed %d, want the 3 that were due then", got)
		}
	})
	t.Run("Suspects", func(t *testing.T) {
		t.Parallel()
		f := fill(t)
		f.exec("update outbox_events set lost_leases = 2 where event_id = $1", id(2))
		if got, want := numbers(f.take(suspectsOnly, limit(1)).Events), "2"; got != want {
			t.Errorf("claimed %q, want the suspect %s although others are due", got, want)
		}
	})
	t.Run("Pause", func(t *testing.T) {
		t.Parallel()
		f := fill(t)
		f.exec("insert into outbox_events_control (paused) values (true)")
		if batch := f.take(reclaiming(10)); !batch.Paused || len(batch.Events) != 0 {
			t.Errorf("claimed %s, paused %v", numbers(batch.Events), batch.Paused)
		}
	})
}

func TestReclaimMeetsAnUnreadablePayload(t *testing.T) {
	t.Parallel()
	f := jsonFixture(t)
	const gone = "now() - interval '1 minute'"
	f.put(1, "delivery_status", "'delivering'", "next_attempt_at", gone, "lost_leases", "4", "payload_json", `'{"data": "\u0000"}'`)
	f.put(2, "delivery_status", "'delivering'", "next_attempt_at", gone, "lost_leases", "4", "payload_json", `'{"_delivery_claim_token": "t", "data": 1}'`)
	f.put(3, "delivery_status", "'delivering'", "next_attempt_at", gone, "payload_json", `'{"data": "\u0000"}'`)
	batch := f.take(reclaiming(10))
	if r := batch.Reclaimed; r.Failed != 2 || r.Returned != 1 || numbers(batch.Events) != "3" {
		t.Errorf("%+v, claimed %s; want two failed, and 3 claimed", r, numbers(batch.Events))
	}
	f.check(1, `failed {"data": "\u0000"}`, "delivery_status", "payload_json")
	f.check(2, `failed {"data": 1}`, "delivery_status", "payload_json::jsonb")
}

// A constraint that came later than the row, or a trigger, can keep it from ever
// being claimed.
func TestARowThatCannotBeClaimedBlocksNobody(t *testing.T) {
	t.Parallel()
	f := jsonFixture(t)
	f.fill(10)
	f.exec(`update outbox_events set payload_json = '{"data": "\u0000"}' where event_id = $1`, id(7))
	f.exec("update outbox_events set event_type = 'legacy' where event_id = $1", id(4))
	f.exec("alter table outbox_events add constraint no_legacy check (event_type <> 'legacy') not valid")
	if got, want := numbers(f.take(reclaiming(10)).Events), "0 1 2 3 5 6 8 9 7"; got != want {
		t.Errorf("claimed %s, want all others: %s", got, want)
	}
	_, err := f.store.Take(t.Context(), ask())
	checkSentence(t, err, "23514", "no_legacy")
	f.check(4, "pending", "delivery_status")
}
