package postgres

import (
	"strconv"
	"testing"
	"time"
)

// Rows that take long to delete, such as those with payloads of many megabytes,
// go in smaller batches instead of never.
func TestPruneOfRowsThatAreSlow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for n := range 20 {
		f.put(n, "delivery_status", "'succeeded'", "occurred_at", "now() - interval '40 days'")
	}
	f.exec("create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.05); return old; end $$")
	f.exec("create trigger slow before delete on outbox_events for each row execute function slow()")
	f.store.limits.record = 800 * time.Millisecond // sixteen rows, at most
	w, err := f.store.PruneStart(t.Context(), 30)
	if err != nil {
		t.Fatal(err)
	}
	var steps []int
	for !w.Done {
		var n int
		if w, n, err = f.store.PruneStep(t.Context(), w, 100, false, false); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, n)
	}
	if left := f.value("select count(*) from outbox_events"); left != "0" || steps[0] != 10 || len(steps) < 2 {
		t.Errorf("steps %v, left %s, then at most %s", steps, left, strconv.Itoa(w.Most))
	}
}
