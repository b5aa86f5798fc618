package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/postgres"
)

// BenchmarkClaimBesideAPrune measures what a claim takes while a million succeeded
// rows are deleted beside it, and alone:
//
//	go test -run '^$' -bench ClaimBesideAPrune -benchtime 1x ./internal/postgres
//
// The two take turns of some seconds, so that whatever else the machine does
// weighs on both. PRUNE_ROWS sets another number of rows; TEST_DATABASE_URL a
// server that writes to its disk as a real one does, which that of the tests does
// not.
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

		gated := &gatedPruner{Store: d.store}
		done := make(chan operator.Pruned, 1)
		gated.gate.Lock()
		go func() {
			o := &operator.Operator{Store: gated, Audit: ignore}
			r, err := o.Do(b.Context(), &operator.Prune{OlderThanDays: 30, Batch: 1000, Pause: operator.Duration(50 * time.Millisecond), Yes: true})
			if err != nil {
				b.Error(err)
			}
			done <- r.(operator.Pruned)
		}()
		var alone, beside []time.Duration
		var pruning time.Duration
		for r := (operator.Pruned{}); r.Stopped == ""; {
			alone = append(alone, d.claimTimes(2*time.Second)...)
			gated.gate.Unlock()
			began := time.Now()
			beside = append(beside, d.claimTimes(4*time.Second)...)
			gated.gate.Lock()
			pruning += time.Since(began)
			select {
			case r = <-done:
				b.ReportMetric(float64(r.Deleted), "rows")
			default:
			}
		}
		measure(b, "alone", alone)
		measure(b, "beside", beside)
		b.ReportMetric(pruning.Seconds(), "prune-s")
	}
}

// gatedPruner takes a step only while its gate is open.
type gatedPruner struct {
	*postgres.Store
	gate sync.Mutex
}

func (g *gatedPruner) PruneStep(ctx context.Context, w operator.Walk, limit int, failed, dry bool) (operator.Walk, int, error) {
	g.gate.Lock()
	defer g.gate.Unlock()
	return g.Store.PruneStep(ctx, w, limit, failed, dry)
}

// claimTimes claims and releases for a while, and returns what each claim took.
func (d *desk) claimTimes(limit time.Duration) (times []time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		began := time.Now()
		batch, err := d.store.Take(d.t.Context(), cycle.Claim{Limit: 100, Bytes: 32 << 20, MaxBody: 15 << 20, Lease: time.Minute})
		times = append(times, time.Since(began))
		if err != nil || len(batch.Events) != 100 {
			d.t.Fatalf("claimed %d events: %v", len(batch.Events), err)
		}
		if _, err := d.store.Release(d.t.Context(), batch.Events); err != nil {
			d.t.Fatal(err)
		}
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
