package postgres_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
)

// BenchmarkClaimBesideAPrune measures what a claim takes alone, and while a
// million succeeded rows are deleted beside it:
//
//	go test -run '^$' -bench ClaimBesideAPrune -benchtime 1x ./internal/postgres
//
// PRUNE_ROWS sets another number of rows; TEST_DATABASE_URL a server that writes
// to its disk as a real one does, which the one of the tests does not.
func BenchmarkClaimBesideAPrune(b *testing.B) {
	rows := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("PRUNE_ROWS")); err == nil {
		rows = n
	}
	for range b.N {
		d := newDesk(b)
		d.exec(fmt.Sprintf(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, attempts, external_run_id)
			select gen_random_uuid(), 'order.placed', now() - interval '60 days' + n * interval '1 second', '%s', 'succeeded', 1, n::text from generate_series(1, %d) n`, deskPayload, rows))
		d.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
			select gen_random_uuid(), 'order.placed', now() - interval '1 hour', '` + deskPayload + `' from generate_series(1, 2000) n`)
		d.exec("vacuum analyze outbox_events")
		d.exec("checkpoint")

		measure(b, "alone", d.claimTimes(10*time.Second, nil))
		var pruned atomic.Bool
		var r operator.Pruned
		took := make(chan time.Duration, 1)
		go func() {
			began := time.Now()
			r = d.prune(operator.Prune{OlderThanDays: 30, Batch: 1000, Pause: operator.Duration(50 * time.Millisecond)})
			pruned.Store(true)
			took <- time.Since(began)
		}()
		measure(b, "beside", d.claimTimes(time.Hour, &pruned))
		b.ReportMetric((<-took).Seconds(), "prune-s")
		b.ReportMetric(float64(r.Deleted), "rows")
	}
}

// claimTimes claims and releases, and returns what each claim took; until the time
// is up, or done.
func (d *desk) claimTimes(limit time.Duration, done *atomic.Bool) (times []time.Duration) {
	s := d.open(d.url)
	end := time.Now().Add(limit)
	for time.Now().Before(end) && (done == nil || !done.Load()) {
		began := time.Now()
		batch, err := s.Take(d.t.Context(), cycle.Claim{Limit: 100, Bytes: 32 << 20, MaxBody: 15 << 20, Lease: time.Minute})
		times = append(times, time.Since(began))
		if err != nil || len(batch.Events) != 100 {
			d.t.Fatalf("claimed %d events: %v", len(batch.Events), err)
		}
		if _, err := s.Release(d.t.Context(), batch.Events); err != nil {
			d.t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return times
}

func measure(b *testing.B, name string, times []time.Duration) {
	slices.Sort(times)
	at := func(part float64) float64 {
		return float64(times[int(float64(len(times)-1)*part)].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), name+"-p50-ms")
	b.ReportMetric(at(0.99), name+"-p99-ms")
	b.ReportMetric(at(1), name+"-max-ms")
	b.ReportMetric(float64(len(times)), name+"-claims")
}
