package cycle

import (
	"sync"

	"outbox-dispatcher/internal/outbox"
)

// tally gathers the report while several goroutines work.
type tally struct {
	mu    sync.Mutex
	r     Report
	fresh bool // the backlog figures are those of now
}

func (t *tally) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.r
}

func (t *tally) change(f func(*Report)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.r)
}

func (t *tally) stop(why Stopped) { t.change(func(r *Report) { r.Stopped = why }) }

func (t *tally) dryRun(due []DueEvent) {
	t.change(func(r *Report) { r.DryRun = &DryRun{Due: due} })
}

// took counts a batch. Its backlog figures are those of the report only if
// nothing was claimed: what is delivered changes them.
func (t *tally) took(c Claim, b Batch) {
	if !c.Uncounted {
		t.backlog(b.Backlog)
	}
	t.change(func(r *Report) {
		r.Reclaimed += b.Reclaimed.Returned
		r.LeaseLostFailed += b.Reclaimed.Failed
		if len(b.Events) > 0 {
			r.Cycles++
			r.Claimed += len(b.Events)
			t.fresh = false
		}
	})
}

// recorded counts an outcome that reached its row.
func (t *tally) recorded(s outbox.Status) {
	t.change(func(r *Report) {
		switch s {
		case outbox.Succeeded:
			r.Succeeded++
		case outbox.Failed:
			r.Failed++
		default:
			r.Retried++
		}
	})
}

func (t *tally) released() { t.change(func(r *Report) { r.Released++ }) }

func (t *tally) lost() { t.change(func(r *Report) { r.Lost++ }) }

func (t *tally) unrecorded(n int) { t.change(func(r *Report) { r.Unrecorded += n }) }

func (t *tally) backlog(b Backlog) {
	t.change(func(r *Report) {
		r.BacklogDue, r.OldestDueAgeSeconds, r.Parked, r.FailedTotal = b.Due, b.OldestDueAge.Seconds(), b.Parked, b.Failed
		t.fresh = true
	})
}

func (t *tally) backlogIsFresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fresh
}
