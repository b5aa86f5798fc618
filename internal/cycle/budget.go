package cycle

import (
	"context"
	"time"
)

const (
	// leaseWindow is the shortest time after a claim in which POSTs may start. A lease
	// of exactly timeout + 2 s would leave none, and release every event for ever; this
	// minimum overrides the margin.
	leaseWindow = 500 * time.Millisecond
	// returnMargin before the deadline the invocation has returned. Half a second is
	// promised; the rest is for the runtime.
	returnMargin = 600 * time.Millisecond
	// reportTime is kept for the backlog figures after the last record.
	reportTime = 200 * time.Millisecond
	// defaultTime is what an invocation has without a deadline.
	defaultTime = 60 * time.Second
)

// Needed is the time that a POST needs, of its lease and of the invocation.
func (s Settings) Needed() time.Duration { return s.HTTPTimeout + PostMargin }

// budget is the time of an invocation, by the monotonic clock.
type budget struct {
	end  time.Time     // when Run must have returned
	post time.Duration // timeout of one POST
}

func newBudget(ctx context.Context, started time.Time, post time.Duration) budget {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = started.Add(defaultTime)
	}
	// A deadline may carry wall-clock time alone; from here on only the monotonic clock
	// counts, so that a clock that jumps changes nothing.
	return budget{end: started.Add(deadline.Sub(started) - returnMargin), post: post}
}

// left is the time until the deadline.
func (b budget) left(now time.Time) time.Duration { return b.end.Sub(now) + returnMargin }

// needed is the time that one POST needs.
func (b budget) needed() time.Duration { return b.post + PostMargin }

// lastStart is the moment before which a POST may start: lease and invocation must both
// outlive it. leased is when the claim was sent.
func (b budget) lastStart(leased time.Time, lease time.Duration) time.Time {
	ofInvocation, ofLease := b.end.Add(returnMargin-b.needed()), leased.Add(b.startWindow(lease))
	if ofLease.Before(ofInvocation) {
		return ofLease
	}
	return ofInvocation
}

// startWindow is how long after its claim an event may be sent.
func (b budget) startWindow(lease time.Duration) time.Duration {
	return max(lease-b.needed(), min(leaseWindow, lease-b.post))
}

// forWork returns a context for what is done before the report. Whatever waits for the
// database ends with it, so that one that does not answer cannot hold the invocation
// until it is killed.
func (b budget) forWork(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, b.end.Add(-reportTime))
}

// forReport returns a context for the last query.
func (b budget) forReport(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.WithoutCancel(ctx), b.end)
}
