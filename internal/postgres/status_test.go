package postgres

import (
	"fmt"
	"testing"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/operator"
)

func statusCountsWhatIsWhere(t *testing.T, f *fixture) {
	f.put(1, "occurred_at", "now() - interval '10 minutes'")
	f.put(2, "occurred_at", "now() + interval '1 hour'") // never tried: due
	f.put(3, "next_attempt_at", ahead)
	f.put(4, "lost_leases", "2", "occurred_at", "now() - interval '5 minutes'")
	f.put(5, "delivery_status", "'delivering'", "next_attempt_at", ahead)
	f.put(6, "delivery_status", "'delivering'", "next_attempt_at", ago)
	f.put(7, "delivery_status", "'delivering'")
	for n := 10; n < 13; n++ {
		f.put(n, "delivery_status", "'failed'", "last_error_code", "'connectionError'")
	}
	f.put(13, "delivery_status", "'failed'")
	f.put(14, "delivery_status", "'failed'", "last_error_code", "'malformedPayload'")
	f.put(20, "delivery_status", "'succeeded'")
	f.put(21, "delivery_status", "'paused'")
	f.put(22, "delivery_status", "''")

	got, err := f.store.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.OldestDueAgeSeconds < 600 || got.OldestDueAgeSeconds > 660 {
		t.Errorf("the oldest is due for %v s, want 600", got.OldestDueAgeSeconds)
	}
	got.OldestDueAgeSeconds = 0
	want := operator.Overview{
		Table:    displayed(f.store.table),
		Statuses: map[string]int64{"pending": 4, "delivering": 3, "failed": 5, "succeeded": 1, "paused": 1, "": 1},
		Due:      2, Later: 1, Suspects: 1, Leased: 1, Expired: 1, Parked: 1,
		FailedBy:    []operator.FailedBy{{Code: "connectionError", Count: 3, AtLeast: false}, {Code: "", Count: 1, AtLeast: false}, {Code: "malformedPayload", Count: 1, AtLeast: false}},
		CountedUpTo: 10_000, AtLeast: []string{},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	f.exec("insert into outbox_events_control (paused) values (true)")
	if got, err := f.store.Status(t.Context()); err != nil || !got.Paused {
		t.Errorf("paused: %v, %v", got.Paused, err)
	}
}

// Counting ends at a cap, and says so: a person sees "at least", never a number
// that is wrong, and a status costs the same whatever waits.
func TestStatusCountsUpToACap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	insert := func(n int, columns, values string) {
		t.Helper()
		f.exec("insert into outbox_events (event_id, event_type, occurred_at, payload_json"+columns+`)
			select gen_random_uuid(), 'order.placed', now() - interval '1 hour', '{}'`+values+" from generate_series(1, $1) n", n)
	}
	look := func() operator.Overview {
		t.Helper()
		st, err := f.store.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	pages := func() int {
		t.Helper()
		shape, err := f.store.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f.explain(shape.replacer().Replace(statusSQL), 100).buffers
	}
	insert(10_000, "", "")
	insert(9_000, ", next_attempt_at", ", now() + interval '1 day'")
	insert(10_001, ", delivery_status, last_error_code", ", 'failed', 'connectionError'")
	insert(3, ", delivery_status, last_error_code", ", 'failed', 'malformedPayload'")
	insert(20, ", delivery_status, next_attempt_at", ", 'delivering', now() + interval '1 day'")

	got := look()
	if got.Due != 10_000 || got.Later != 9_000 || got.Statuses["pending"] != 19_000 || got.Statuses["failed"] != 10_003 || fmt.Sprint(got.AtLeast) != "[failed]" {
		t.Errorf("%+v", got)
	}
	if want := []operator.FailedBy{{Code: "connectionError", Count: 10_000, AtLeast: true}, {Code: "malformedPayload", Count: 3, AtLeast: false}}; fmt.Sprint(got.FailedBy) != fmt.Sprint(want) {
		t.Errorf("failed by code: %v, want %v", got.FailedBy, want)
	}
	f.exec("vacuum analyze outbox_events")
	before := pages()

	insert(40_000, "", "")
	insert(20_000, ", delivery_status", ", 'succeeded'")
	insert(20_000, ", delivery_status, last_error_code", ", 'failed', 'unknownError'")
	if got := look(); got.Due != 10_000 || fmt.Sprint(got.AtLeast) != "[due pending failed]" || got.Statuses["succeeded"] != 20_000 {
		t.Errorf("%+v", got)
	}
	f.exec("vacuum analyze outbox_events")
	// One code more: some hundred rows, each in a page of its own at worst.
	if after := pages(); after > before+200 {
		t.Errorf("a status reads %d pages, and %d with 80,000 more rows", before, after)
	}
}

func TestTablesAreShownAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for want, table := range map[string]config.Table{
		"outbox_events": {Name: "outbox_events"}, "sales.outbox": {Schema: "sales", Name: "outbox"},
		`"Sales"."outbox"`: {Schema: "Sales", Name: "outbox"}, `"my events"`: {Name: "my events"},
	} {
		if got := displayed(table); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// However many codes somebody makes up, a status stays a page.
func TestStatusShowsTwentyCodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for n := range 25 {
		f.put(n, "delivery_status", "'failed'", "last_error_code", fmt.Sprintf("'code%02d'", n))
		got, err := f.store.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		codes, cut := min(n+1, 20), n+1 > 20
		if len(got.FailedBy) != codes || (fmt.Sprint(got.AtLeast) == "[failed]") != cut {
			t.Errorf("%d codes: %d are shown, at least: %v", n+1, len(got.FailedBy), got.AtLeast)
		}
	}
}
