package postgres

import (
	"regexp"
	"strings"
	"testing"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

func claimsByDueTimeThenID(t *testing.T, f *fixture) {
	f.put(5, "occurred_at", "now() - interval '1 minute'")
	f.put(4, "occurred_at", "now() - interval '1 day'", "next_attempt_at", "now() - interval '2 minutes'") // failed before: old, and due late
	f.put(3, "occurred_at", "'2025-01-01'")
	f.put(2, "occurred_at", "'2025-01-01'") // the same moment: by event_id
	f.put(1, "occurred_at", "now() - interval '1 hour'")

	if got, want := numbers(f.take().Events), "2 3 1 4 5"; got != want {
		t.Errorf("claimed %s, want %s", got, want)
	}
}

func claimsOnlyWhatIsDue(t *testing.T, f *fixture) {
	const now, ago, ahead = "clock_timestamp()", "now() - interval '1 minute'", "now() + interval '1 minute'"
	f.put(1)
	f.put(2, "next_attempt_at", ago, "attempts", "3")
	f.put(3, "next_attempt_at", now)
	others := [][]string{
		{"next_attempt_at", ahead},
		{"delivery_status", "'delivering'", "next_attempt_at", ahead}, // a live lease
		{"delivery_status", "'delivering'", "next_attempt_at", ago},   // for reclaim, which was not asked for
		{"delivery_status", "'delivering'"},                           // parked
		{"delivery_status", "'succeeded'"},
		{"delivery_status", "'failed'", "next_attempt_at", ago},
		{"delivery_status", "'paused'", "next_attempt_at", ago},
		{"delivery_status", "'Pending'"},
		{"delivery_status", "''"},
		{"next_attempt_at", "'infinity'"},
	}
	var before []string
	for i, columns := range others {
		f.put(10+i, columns...)
		before = append(before, f.image(10+i))
	}

	if got, want := numbers(f.take().Events), "1 2 3"; got != want {
		t.Errorf("claimed %s, want %s", got, want)
	}
	for i := range others {
		f.unchanged(10+i, before[i])
	}
}

func claimsRowsDatedInTheFuture(t *testing.T, f *fixture) {
	// Never tried, so due; a producer whose clock is ahead wrote them.
	f.put(3, "occurred_at", "now() + interval '2 hours'")
	f.put(2, "occurred_at", "now() + interval '1 hour'")
	f.put(1, "occurred_at", "now() + interval '3 hours'", "next_attempt_at", "now() + interval '1 hour'")
	f.put(4)

	if got, want := numbers(f.take(limit(2)).Events), "4 2"; got != want {
		t.Errorf("claimed %s, want what is due for longer, and then the earliest of the future: %s", got, want)
	}
	if got, want := numbers(f.take().Events), "3"; got != want {
		t.Errorf("claimed %s, want %s", got, want)
	}
}

func claimsAreLeases(t *testing.T, f *fixture) {
	f.put(1, "next_attempt_at", "'2025-01-02 03:04:05.000006Z'", "attempts", "7", "attempts_base", "4",
		"last_error", "'503'", "last_error_code", "'connectionError'", "external_run_id", "'r1'", "lost_leases", "1", "lost_leases_at", "7")
	before := f.clock()
	batch := f.take()
	e := batch.Events[0]

	f.check(1, "delivering true", "delivery_status", "next_attempt_at - interval '3 minutes' between "+before+" and clock_timestamp()")
	f.check(1, "7 4 503 connectionError r1 1 7", "attempts", "attempts_base", "last_error", "last_error_code", "external_run_id", "lost_leases", "lost_leases_at")
	if e.Attempts != 7 || e.Base != 4 {
		t.Errorf("attempts %d, base %d; want 7 and 4", e.Attempts, e.Base)
	}
	if want := "2025-01-02 03:04:05.000006+00"; e.Claim.Due != want {
		t.Errorf("it was due at %q, want %q", e.Claim.Due, want)
	}
	if got := f.value("select $1::timestamptz = next_attempt_at from outbox_events", e.Claim.Deadline); got != "true" {
		t.Errorf("the deadline %q is not the one in the row", e.Claim.Deadline)
	}
	if got := f.value("select $1::timestamptz between "+before+" and clock_timestamp()", batch.Now); got != "true" {
		t.Errorf("the time of the claim is %q", batch.Now)
	}
	if numbers(f.take().Events) != "" {
		t.Error("it was claimed twice")
	}
}

func claimTakesNothingThatBecameDueLater(t *testing.T, f *fixture) {
	f.put(1, "next_attempt_at", "now() - interval '2 minutes'")
	f.put(2, "next_attempt_at", "now() - interval '1 minute'")
	f.put(3, "occurred_at", "now() - interval '30 seconds'")
	moment := f.value("select now() - interval '1 minute'")

	if got, want := numbers(f.take(before(moment)).Events), "1 2"; got != want {
		t.Errorf("claimed %s, want what was due at that moment or earlier: %s", got, want)
	}
	if got := numbers(f.take(before(moment)).Events); got != "" {
		t.Errorf("claimed %s, want nothing", got)
	}
	// What an invocation claims first sets the moment for the rest of it.
	first := f.take()
	f.put(4, "next_attempt_at", "clock_timestamp()")
	if got := numbers(f.take(before(first.Now)).Events); got != "" {
		t.Errorf("claimed %s, which became due after the first claim", got)
	}
}

func claimTellsWhetherMoreIsDue(t *testing.T, f *fixture) {
	for n := range 3 {
		f.put(n)
	}
	for _, want := range []struct {
		limit   int
		events  string
		drained bool
	}{{2, "0 1", false}, {1, "2", false}, {1, "", true}} {
		batch := f.take(limit(want.limit))
		if got := numbers(batch.Events); got != want.events || batch.Drained != want.drained || batch.CutByBytes {
			t.Errorf("limit %d: %q, drained %v, cut %v; want %q, %v, false", want.limit, got, batch.Drained, batch.CutByBytes, want.events, want.drained)
		}
	}
}

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func claimPutsATokenIntoThePayload(t *testing.T, f *fixture) {
	f.put(1)
	f.put(2)
	f.put(3, "payload_json", `'{"_delivery_claim_token": {"left": "by the service"}, "data": 1}'`)
	tokens := map[string]bool{}
	for _, e := range f.take().Events {
		n := number(e.ID)
		if !uuid4.MatchString(e.Claim.Token) {
			t.Errorf("row %d: the token %q is no random UUID", n, e.Claim.Token)
		}
		tokens[e.Claim.Token] = true
		f.check(n, e.Claim.Token, "payload_json ->> '_delivery_claim_token'")
	}
	if len(tokens) != 3 {
		t.Errorf("%d tokens for 3 rows", len(tokens))
	}
	f.check(1, "true", "payload_json::jsonb - '_delivery_claim_token' = '"+payload+"'")
	f.check(3, `{"data": 1}`, "payload_json::jsonb - '_delivery_claim_token'")
}

func claimKeepsPayloadsDigitForDigit(t *testing.T, f *fixture) {
	const wild = `{"correlation_id": 9007199254740993, "aggregate": {"p": 0.10, "big": 1e400, "tiny": 1e-400, "minus": -0.0},
		"data": {"h": "<a>&</a>", "u": "é😀\u2028\u0001", "e": "", "n": null, "deep": [[[[{}]]]]}, "extra": 123456789012345678901234567890.5}`
	f.put(1, "payload_json", "'"+wild+"'")
	var pieces []string
	for _, key := range []string{"correlation_id", "aggregate", "data"} {
		pieces = append(pieces, `"`+key+`":`+f.show(1, "payload_json::jsonb -> '"+key+"'"))
	}
	e := f.one()
	if want := strings.Join(pieces, ",") + "}"; !strings.HasSuffix(string(e.Body), want) {
		t.Errorf("the body is\n%s\nwant it to end in\n%s", e.Body, want)
	}
	f.check(1, "true", "(payload_json::jsonb - '_delivery_claim_token')::text = '"+wild+"'::jsonb::text")
	if got := f.record(retried(e, 0)); got != "recorded" {
		t.Fatal(got)
	}
	f.check(1, "true", "payload_json::jsonb::text = '"+wild+"'::jsonb::text")
}

func claimsPayloadsThatAreNoObject(t *testing.T, f *fixture) {
	payloads := []string{"'[1, 2]'", "'null'", `'"_delivery_claim_token"'`, "'7'", "'true'", "null", "'[]'"}
	f.exec("alter table outbox_events alter payload_json drop not null")
	for n, p := range payloads {
		f.put(n, "payload_json", p)
	}
	f.put(len(payloads))
	batch := f.take()
	if len(batch.Events) != len(payloads)+1 {
		t.Fatalf("claimed %s, want all of them", numbers(batch.Events))
	}
	for n, p := range payloads {
		e := batch.Events[n]
		if e.Claim.Token != "" || e.Body != nil || !strings.Contains(e.Unusable, "not a JSON object") {
			t.Errorf("%s: token %q, body %q, unusable %q; want no token and no body", p, e.Claim.Token, e.Body, e.Unusable)
		}
		f.check(n, "delivering true", "delivery_status", "payload_json is not distinct from "+p)
	}
	if good := batch.Events[len(payloads)]; good.Claim.Token == "" || good.Body == nil {
		t.Error("the good one got no token, or no body")
	}
}

func claimNamesTheFirstMissingKey(t *testing.T, f *fixture) {
	for n, p := range []string{`{"aggregate": 1, "data": 1}`, `{"correlation_id": null, "data": 1}`, `{"correlation_id": 1, "aggregate": null}`, `{}`} {
		f.put(n, "payload_json", "'"+p+"'")
	}
	want := []string{"correlation_id", "aggregate", "data", "correlation_id"}
	for n, e := range f.take().Events {
		if e.Body != nil || !strings.Contains(e.Unusable, `"`+want[n]+`"`) {
			t.Errorf("row %d: %q, want it to name %s", n, e.Unusable, want[n])
		}
		if e.Claim.Token == "" {
			t.Errorf("row %d is an object and has no token", n)
		}
	}
}

func suspectsAreClaimedOnlyByThemselves(t *testing.T, f *fixture) {
	// Lost leases count only while attempts stay as they were.
	suspect := func(n, lost int, more ...string) {
		f.put(n, append([]string{"lost_leases", []string{"0", "1", "2", "3", "4"}[lost], "lost_leases_at", "6", "attempts", "6"}, more...)...)
	}
	f.put(1)
	suspect(2, 1)
	f.put(3, "lost_leases", "4", "lost_leases_at", "5", "attempts", "6") // a void count
	suspect(4, 3, "occurred_at", "'2025-01-01'")
	suspect(5, 2, "occurred_at", "now()")
	suspect(6, 2, "occurred_at", "'2025-01-01'")
	suspect(7, 2, "next_attempt_at", "now() + interval '1 minute'")

	batch := f.take()
	if got, want := numbers(batch.Events), "1 2 3"; got != want {
		t.Errorf("an ordinary claim took %s, want %s", got, want)
	}
	if !batch.SuspectsDue || !batch.Drained {
		t.Errorf("suspects due %v, drained %v; want both", batch.SuspectsDue, batch.Drained)
	}
	for _, want := range []string{"6", "5", "4", ""} { // fewest lost leases first
		batch := f.take(suspectsOnly, limit(1))
		if got := numbers(batch.Events); got != want {
			t.Errorf("claimed %q, want %q", got, want)
		}
		for _, e := range batch.Events {
			if !e.Claim.Suspect {
				t.Errorf("row %d is not marked as a suspect", number(e.ID))
			}
		}
		if due := want == "6" || want == "5"; batch.SuspectsDue != due {
			t.Errorf("after %q: suspects due is %v", want, batch.SuspectsDue)
		}
	}
}

func aPauseStopsTheClaimAlone(t *testing.T, f *fixture) {
	f.put(1)
	f.put(2, "delivery_status", "'delivering'", "next_attempt_at", "now() - interval '1 minute'")
	f.exec("insert into outbox_events_control (paused) values (true)")
	batch := f.take(reclaiming(10))
	if len(batch.Events) != 0 || !batch.Paused || batch.Reclaimed.Returned != 1 || batch.Backlog.Due != 2 {
		t.Errorf("%+v; want nothing claimed, one reclaimed, two due", batch)
	}
	f.exec("update outbox_events_control set paused = false")
	if batch = f.take(); batch.Paused || len(batch.Events) != 2 {
		t.Errorf("after the pause: %+v", batch)
	}
}

func claimTellsTheBacklog(t *testing.T, f *fixture) {
	f.put(1, "occurred_at", "now() - interval '10 minutes'")
	f.put(2, "occurred_at", "'-infinity'")
	f.put(3, "occurred_at", "now() + interval '1 hour'") // due, since it was never tried
	f.put(4, "next_attempt_at", "now() + interval '1 hour'")
	f.put(5, "delivery_status", "'delivering'")
	f.put(6, "delivery_status", "'failed'")
	f.put(7, "delivery_status", "'failed'")
	f.put(8, "delivery_status", "'paused'")
	f.put(9, "lost_leases", "2", "occurred_at", "now() - interval '20 minutes'") // a suspect is due as well

	got, err := f.store.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if age := got.OldestDueAge.Minutes(); age < 20 || age > 21 {
		t.Errorf("the oldest is due for %.1f minutes, want 20: -infinity has no age", age)
	}
	got.OldestDueAge = 0
	if want := (cycle.Backlog{Due: 4, Parked: 1, Failed: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := f.take().Backlog; got.Due != 1 {
		t.Errorf("%d due behind the claim, want the suspect", got.Due)
	}
}

func dueShowsAndTakesNothing(t *testing.T, f *fixture) {
	f.put(1, "occurred_at", "now() - interval '10 minutes'", "event_type", "'a'", "attempts", "3")
	f.put(2, "occurred_at", "now() + interval '1 hour'")
	f.put(3, "occurred_at", "now() - interval '1 day'", "lost_leases", "2", "lost_leases_at", "0")
	f.put(4, "next_attempt_at", "now() + interval '1 hour'")
	before := f.image(1)
	due, backlog, err := f.store.Due(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(due) != 3 || due[0].EventID != id(1) || due[1].EventID != id(2) || due[2].EventID != id(3) || !due[2].Suspect {
		t.Errorf("%+v; want 1, 2, and the suspect 3", due)
	}
	if d := due[0]; d.EventType != "a" || d.Attempts != 3 || d.AgeSeconds < 600 || d.AgeSeconds > 660 || d.Suspect {
		t.Errorf("%+v", d)
	}
	if backlog.Due != 3 {
		t.Errorf("%d due, want 3", backlog.Due)
	}
	f.unchanged(1, before)
	if due, _, _ := f.store.Due(t.Context(), 2); len(due) != 2 {
		t.Errorf("%d shown, want 2", len(due))
	}
}

func TestClaimReturnsAllThatDeliveryNeeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(1, "occurred_at", "'2025-01-02 03:04:05.12Z'", "event_type", `'say "hi"'`)
	e := f.one()
	want := `{"event_id":"` + id(1) + `","event_type":"say \"hi\"","occurred_at":"2025-01-02T03:04:05.120000+00:00",` +
		`"correlation_id":"c-1","aggregate":{"id": 7},"data":[1, 2.50]}`
	if string(e.Body) != want {
		t.Errorf("the body is\n%s\nwant\n%s", e.Body, want)
	}
	if e.Unusable != "" || e.Type != `say "hi"` || e.Claim.Due != "" {
		t.Errorf("%+v", e)
	}
	if strings.Contains(string(e.Body), outbox.TokenKey) {
		t.Error("the body holds the token")
	}
}
