package cycle

import (
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

const (
	// downAfter faults of the endpoint in a row, with no success and no answer
	// to an event's own fault between them, it counts as down.
	downAfter = 3
	// slowPart of the timeout is how long an answer may take before it is a sign
	// of queueing. n8n works on so many events at a time and lets the others
	// wait; what waits too long times out, and is executed all the same.
	slowPart = 4
	// faultCut and slowCut are what is left of the window after a fault and
	// after a slow answer. A slow answer is milder: nothing was lost yet.
	faultCut = 0.5
	slowCut  = 0.7
)

// Pacer decides how many POSTs may be in flight. It works like the congestion
// window of TCP: the first POST of an invocation goes alone; on success the
// window is what it was at the end of the last invocation, and from there it
// doubles with each round of successes up to where it was last cut, and grows
// by one a round beyond. A fault of the endpoint halves it, a slow answer
// shrinks it, each once a round.
//
//	in flight
//	 limit ┤             ╭───────╮ slow            ╭──
//	       │           ╭─╯       ╰╮    ╭───────────╯
//	       │        ╭──╯          ╰────╯ fault
//	       │     ╭──╯
//	     1 ┼─────╯ first POST alone
//
// The zero value is not ready for use; make one with NewPacer. It is safe for
// concurrent use, but one invocation at a time.
type Pacer struct {
	// changed tells that a place may have come free. One reader.
	changed chan struct{}

	mu         sync.Mutex
	limit      float64       // DISPATCH_CONCURRENCY
	slow       time.Duration // an answer slower than this is a sign of queueing
	window     float64       // POSTs that may be in flight, at least 1
	calm       float64       // below it the window doubles, above it grows by one a round
	remembered float64       // window at the end of the last invocation; 0: none yet
	alone      bool          // the first POST of the invocation is not answered yet
	inFlight   int
	peak, last int       // most in flight in this round and in the one before
	round      time.Time // when this round began
	faults     int       // of the endpoint, in a row
	lastCut    time.Time // answers to POSTs from before it cut no more
	holdUntil  time.Time // what a Retry-After asked for
}

// NewPacer returns a pacer that knows nothing of the endpoint yet.
func NewPacer() *Pacer {
	return &Pacer{changed: make(chan struct{}, 1)}
}

// begin starts an invocation with at most limit POSTs in flight, each bounded by
// timeout.
func (p *Pacer) begin(limit int, timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.slow = float64(limit), timeout/slowPart
	p.window, p.alone, p.inFlight, p.faults = 1, true, 0, 0
	p.peak, p.last, p.round = 0, 0, time.Time{}
	p.calm = p.limit
	if p.remembered > 0 {
		p.calm = p.remembered
	}
	p.lastCut, p.holdUntil = time.Time{}, time.Time{}
}

// end remembers the window for the next invocation of this instance.
func (p *Pacer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alone || p.faults > 0 {
		p.remembered = p.window
	}
}

// turn is the answer to the question whether a POST may start.
type turn int

const (
	start turn = iota // it may, and a place is taken for it
	later             // ask again when something changed, or after the wait
	down              // no more in this invocation
)

// take asks for a place in flight. With later comes how long a Retry-After asks
// to wait; 0 means until something changes.
func (p *Pacer) take(now time.Time) (turn, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.faults >= downAfter:
		return down, 0
	case now.Before(p.holdUntil):
		return later, p.holdUntil.Sub(now)
	case p.inFlight >= int(p.window):
		return later, 0
	}
	p.inFlight++
	p.peak = max(p.peak, p.inFlight)
	return start, 0
}

// leave gives a place back whose POST was not sent.
func (p *Pacer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	p.tell()
}

// tell wakes who waits for a place.
func (p *Pacer) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// done gives a place back with what its answer said. started and took are those
// of the POST; now is started plus took, so that no clock is asked again.
func (p *Pacer) done(s outbox.Signal, started time.Time, took, retryAfter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	now := started.Add(took)
	if !started.Before(p.round) { // the first answer to a POST of this round begins the next
		p.round, p.last, p.peak = now, p.peak, p.inFlight
	}
	switch s {
	case outbox.Healthy:
		p.faults = 0
		if p.alone {
			p.alone = false
			p.window = min(max(p.window, p.remembered), p.limit)
		}
		switch {
		case took > p.slow:
			p.cut(slowCut, started, now)
		default:
			p.grow()
		}
	case outbox.EventFault:
		p.faults = 0
		if took > p.slow {
			p.cut(slowCut, started, now)
		}
	case outbox.EndpointFault:
		p.faults++
		p.cut(faultCut, started, now)
		if at := now.Add(retryAfter); retryAfter > 0 && at.After(p.holdUntil) {
			p.holdUntil = at
		}
	}
	p.tell()
}

// grow opens the window for one success: doubling it with a round of them below
// calm, and by one a round above. A window that is not used does not grow.
func (p *Pacer) grow() {
	used := float64(max(p.peak, p.last))
	switch {
	case p.window < min(p.calm, 2*used):
		p.window = min(p.window+1, p.limit)
	case p.window >= p.calm && used >= float64(int(p.window)):
		p.window = min(p.window+1/p.window, p.limit)
	}
}

// cut shrinks the window, once for all that was in flight at the time.
func (p *Pacer) cut(part float64, started, now time.Time) {
	if started.Before(p.lastCut) {
		return
	}
	p.window = max(p.window*part, 1)
	p.calm = p.window
	p.lastCut = now
}
