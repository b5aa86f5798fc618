package postgres

import (
	"fmt"
	"strings"
	"testing"

	"outbox-dispatcher/internal/cycle"
)

// sized is a payload whose three values take n bytes together.
func sized(n int) string {
	return fmt.Sprintf(`'{"correlation_id": 1, "aggregate": 2, "data": "%s", "elsewhere": "not counted"}'`, strings.Repeat("x", n-4))
}

func claimStopsAtItsBytes(t *testing.T, f *fixture) {
	for n := range 6 {
		f.put(n, "payload_json", sized(1000), "occurred_at", fmt.Sprintf("timestamptz '2025-01-01' + interval '%d minutes'", n))
	}
	for _, want := range []struct {
		bytes  int64
		events string
		cut    bool
	}{
		{3000, "0 1 2", true}, // exactly as much as three
		{1999, "3", true},
		{1, "4", true}, // one row at least
		{1000, "5", false},
	} {
		batch := f.take(maxBytes(want.bytes))
		if got := numbers(batch.Events); got != want.events || batch.CutByBytes != want.cut || batch.Drained == want.cut {
			t.Errorf("%d bytes: %q, cut %v, drained %v; want %q, %v, %v", want.bytes, got, batch.CutByBytes, batch.Drained, want.events, want.cut, !want.cut)
		}
	}
}

func claimLeavesWhatItCutAsItWas(t *testing.T, f *fixture) {
	f.put(1, "payload_json", sized(2000))
	f.put(2, "payload_json", sized(2000))
	before := f.image(2)
	f.take(maxBytes(3000))
	f.unchanged(2, before)
}

func claimLoadsNoPayloadThatIsTooLarge(t *testing.T, f *fixture) {
	limitBody := func(c *cycle.Claim) { c.MaxBody = 5000 }
	f.put(1, "payload_json", sized(5001))
	f.put(2, "payload_json", sized(4000))
	f.put(3, "payload_json", sized(5000)) // fits, but for the envelope around it
	for _, e := range f.take(limitBody).Events {
		n := number(e.ID)
		if n == 2 {
			if e.Unusable != "" {
				t.Errorf("row 2: %s", e.Unusable)
			}
			continue
		}
		if e.Body != nil || !strings.Contains(e.Unusable, "5000") {
			t.Errorf("row %d: a body of %d bytes, %q; want none, and the limit named", n, len(e.Body), e.Unusable)
		}
		if n == 1 && !strings.Contains(e.Unusable, "5001") {
			t.Errorf("row 1: %q does not name the size", e.Unusable)
		}
		f.check(n, e.Claim.Token, "payload_json ->> '_delivery_claim_token'")
	}
}

func TestClaimSizesNumbersThatGrowAsText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// A few kilobytes in the row, twenty megabytes as text.
	f.put(1, "payload_json", `jsonb_build_object('correlation_id', 1, 'aggregate', 2, 'data',
		(select jsonb_agg(1e131071::numeric) from generate_series(1, 150)))`)
	f.put(2)
	if got := f.value("select pg_column_size(payload_json) < 10000 from outbox_events where event_id = $1", id(1)); got != "true" {
		t.Fatal("the row itself is large")
	}
	batch := f.take()
	if got := numbers(batch.Events); got != "1 2" {
		t.Fatalf("claimed %s, want both", got)
	}
	large := batch.Events[0]
	if large.Body != nil || !strings.Contains(large.Unusable, fmt.Sprint(150*131072+149*2+2+2)) {
		t.Errorf("a body of %d bytes, %q; want none and the size", len(large.Body), large.Unusable)
	}
	if large.Claim.Token == "" || batch.Events[1].Body == nil {
		t.Error("no token, or no body for the other")
	}
}

func TestClaimReadsNoFurtherThanItsBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// Each takes 1.3 MB as text. With a hundred times that, and 500 rows, all of
	// them would take minutes.
	f.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 't', now(), jsonb_build_object('correlation_id', 1, 'aggregate', 2, 'data', large)
		from generate_series(1, 100) n, (select jsonb_agg(1e131071::numeric) as large from generate_series(1, 10)) l`)
	f.exec("create function counted(jsonb, text) returns jsonb immutable language plpgsql as $$ begin perform nextval('readings'); return $1 -> $2; end $$; create sequence readings")
	shape, err := f.store.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(claimSQL, "document -> 'data'", "counted(document, 'data')")
	sql := shape.replacer("{which}", ordinary, "{order}", orderByDue, "{document}", readable).Replace(text)
	rows, err := f.store.exchange(t.Context(), sql, 500, 3<<20, 1<<20, 180.0, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 {
		t.Errorf("claimed %d, want the 2 that fit into 3 MB", len(rows))
	}
	// Measured are those two, the one that was too much, and the one behind it, as
	// a window function looks ahead. The batch is made of two.
	if got := f.value("select last_value from readings"); got != "6" {
		t.Errorf("%s payloads became text, want 6", got)
	}
}
