package cycle

import (
	"context"
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// Claim asks for a batch of due rows.
type Claim struct {
	Reclaim  Reclaim
	Limit    int           // rows at most
	Bytes    int64         // payload bytes at most, but one row at least
	MaxBody  int64         // larger payloads are not loaded
	Lease    time.Duration // of the rows claimed
	Suspects bool          // claim suspects in place of all others
	// Before, if not empty, leaves out what became due after that moment: the
	// Now of the invocation's first batch.
	Before string
	// Uncounted leaves the counts of the backlog out, which cost as much as to claim
	// fifty rows. What is delivered after a claim changes them anyway.
	Uncounted bool
}

// Batch is what a claim returned.
type Batch struct {
	Reclaimed    Reclaimed
	Events       []outbox.Event // in claim order
	Now          string         // the database's time, in its own words, for Claim.Before
	Sent         time.Time      // when the claim was sent: what is left of the lease counts from here
	Clock        outbox.Micros  // the database's time when the claim was sent, or a little later
	Drained      bool           // fewer rows were due than the claim would have taken
	CutByBytes   bool           // Claim.Bytes ended the batch
	SuspectsDue  bool           // suspects wait for a claim of their own
	Paused       bool           // an operator paused the dispatcher; nothing was claimed
	Unchangeable []Unchangeable // rows that nobody can take
	Backlog      Backlog        // after the claim, unless it was Uncounted
}

// Unchangeable is a row that the database lets nobody change: a constraint that came
// later, or a trigger, forbids it. It stays as it is until a person mends that.
type Unchangeable struct {
	EventID string
	Reason  string // why, without a value of the row
}

// maxUnchangeable bounds how many of a batch are told.
const maxUnchangeable = 10

// feed hands out claimed events one by one and claims the next batch while the
// last one is still on its way, so that the connections to n8n never idle.
type feed struct {
	r       *run
	ctx     context.Context
	queue   []outbox.Event
	batch   *Batch        // the newest, which queue comes from; nil: none yet
	came    time.Time     // when it came
	took    time.Duration // how long its claim took
	next    chan taken    // the claim under way; nil if there is none
	left    int           // cycles that may still begin; -1: no bound
	before  string        // see Claim.Before
	unasked bool          // nothing was claimed yet
	reclaim bool          // the next claim is the invocation's first
}

type taken struct {
	batch Batch
	took  time.Duration
	err   error
}

func newFeed(ctx context.Context, r *run, reclaim bool) *feed {
	left := r.Settings.MaxCycles
	if left == 0 {
		left = -1
	}
	return &feed{r: r, ctx: ctx, left: left, unasked: true, reclaim: reclaim}
}

// pop returns the next event and the batch it came with. It waits for a claim
// if it has to; nil means that no event is left, and why.
func (f *feed) pop() (*outbox.Event, *Batch, Stopped, error) {
	for len(f.queue) == 0 {
		if f.next == nil {
			if why := f.exhausted(); why != "" {
				return nil, nil, why, nil
			}
			f.ask()
		}
		if why, err := f.receive(<-f.next); why != "" || err != nil {
			return nil, nil, why, err
		}
	}
	e := &f.queue[0]
	f.queue = f.queue[1:]
	if f.next == nil && f.runsOut() && f.exhausted() == "" {
		f.ask()
	}
	return e, f.batch, "", nil
}

// exhausted says why no further batch is claimed, or nothing.
func (f *feed) exhausted() Stopped {
	switch {
	case f.unasked:
		return ""
	case f.batch != nil && f.batch.Paused:
		return Paused
	case f.batch != nil && f.batch.Drained:
		return Drained
	case f.left == 0:
		return CycleLimit
	case f.ctx.Err() != nil || f.r.budget.left(time.Now()) <= f.r.budget.needed():
		return TimeUp
	}
	return ""
}

// runsOut reports whether the queue would be empty before the next batch is here,
// at the pace since this batch came. A claim may take three times as long as the
// last one did. So a fast n8n never waits for a claim, and for a slow one no event
// waits under a lease that runs. The pace is known when a quarter of the batch is
// gone. Batches cut by their bytes are large, and only one is held at a time.
func (f *feed) runsOut() bool {
	size := len(f.batch.Events)
	gone := size - len(f.queue)
	switch {
	case len(f.queue) == 0:
		return true
	case f.batch.CutByBytes || 4*gone < size:
		return false
	}
	return time.Since(f.came)*time.Duration(len(f.queue))/time.Duration(gone) <= 3*f.took
}

// ask sends the claim of the next batch.
func (f *feed) ask() {
	c := f.r.claim()
	c.Before, c.Uncounted = f.before, f.before != ""
	if f.reclaim {
		c.Reclaim = Reclaim{Limit: f.r.Settings.ReclaimLimit, MaxLostLeases: f.r.Settings.MaxLostLeases}
	}
	f.reclaim, f.unasked = false, false
	if f.left > 0 {
		f.left--
	}
	next := make(chan taken, 1)
	f.next = next
	go func() {
		asked := time.Now()
		batch, err := f.r.take(f.ctx, c)
		next <- taken{batch, time.Since(asked), err}
	}()
}

func (f *feed) receive(t taken) (Stopped, error) {
	f.next = nil
	if t.err != nil {
		return "", t.err
	}
	f.queue, f.batch, f.came, f.took = t.batch.Events, &t.batch, time.Now(), t.took
	if f.before == "" {
		f.before = t.batch.Now
	}
	if len(f.queue) == 0 {
		return f.exhausted(), nil
	}
	return "", nil
}

// rest returns every event that was claimed and not handed out. No further
// batch is claimed after it.
func (f *feed) rest() []outbox.Event {
	f.left = 0
	events := f.queue
	f.queue = nil
	if f.next != nil {
		if t := <-f.next; t.err == nil {
			events = append(events, t.batch.Events...)
		}
		f.next = nil
	}
	return events
}

// claim is the request for an ordinary batch.
func (r *run) claim() Claim {
	return Claim{Limit: r.Settings.ClaimLimit, Bytes: r.Settings.ClaimBytes, MaxBody: r.Settings.MaxBodyBytes, Lease: r.Settings.Lease}
}

// take claims a batch and counts it.
func (r *run) take(ctx context.Context, c Claim) (Batch, error) {
	step, end := r.Observer.Step(ctx, "claim")
	if c.Reclaim.Limit > 0 {
		_, reclaimed := r.Observer.Step(step, "reclaim")
		once := sync.OnceFunc(func() { reclaimed(nil) })
		defer once()
		c.Reclaim.Done = once
	}
	batch, err := r.Store.Take(step, c)
	end(err)
	for _, u := range batch.Unchangeable[:min(maxUnchangeable, len(batch.Unchangeable))] {
		r.Observer.Unchangeable(ctx, u)
	}
	if err != nil {
		return batch, err
	}
	r.tally.took(c, batch)
	return batch, nil
}
