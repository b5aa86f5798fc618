package postgres

import (
	"fmt"
	"testing"
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
	want := Status{
		Table:    f.store.table.String(),
		Statuses: map[string]int64{"pending": 4, "delivering": 3, "failed": 5, "succeeded": 1, "paused": 1, "": 1},
		Due:      2, Later: 1, Suspects: 1, Leased: 1, Expired: 1, Parked: 1,
		FailedBy: []FailedBy{{"connectionError", 3}, {"", 1}, {"malformedPayload", 1}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	f.exec("insert into outbox_events_control (paused) values (true)")
	if got, err := f.store.Status(t.Context()); err != nil || !got.Paused {
		t.Errorf("paused: %v, %v", got.Paused, err)
	}
}
