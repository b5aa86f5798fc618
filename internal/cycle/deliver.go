package cycle

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// lingerPause is the time between two looks at the table of an invocation that
// lingers: the interval of the Python thread.
const lingerPause = 5 * time.Second

// cycles looks at the table once, and again while the invocation lingers.
func (r *run) cycles(ctx context.Context) error {
	until := time.Now().Add(r.Settings.Linger)
	for first := true; ; first = false {
		why, err := r.look(ctx, first)
		r.tally.stop(why)
		if first && err == nil && why == TimeUp && !r.posted.Load() && !errors.Is(ctx.Err(), context.Canceled) {
			if err := r.tooLittleTime(); err != nil {
				return err
			}
			return &TimeError{"claiming took longer than the lease leaves for it; raise N8N_DELIVERY_LEASE_SECONDS"}
		}
		if err != nil || (why != Drained && why != CycleLimit) || !r.linger(ctx, until) {
			return err
		}
	}
}

// linger waits for the next look. False: there is none.
func (r *run) linger(ctx context.Context, until time.Time) bool {
	next := time.Now().Add(lingerPause)
	if next.After(until) || r.budget.left(next) <= r.budget.needed() {
		return false
	}
	select {
	case <-time.After(lingerPause):
		return true
	case <-ctx.Done():
		return false
	}
}

// look claims and delivers what is due now, and says why it ended.
func (r *run) look(ctx context.Context, reclaim bool) (Stopped, error) {
	step, end := r.Observer.Step(ctx, "deliver")
	f := newFeed(step, r, reclaim)
	why, err := r.deliverAll(step, f)
	if err == nil && r.late.Load() {
		why = TimeUp
	}
	if err == nil && why == Drained && f.batch.SuspectsDue {
		why, err = r.deliverSuspects(step)
	}
	end(err)
	return why, err
}

// deliverAll sends the events of the feed, several at once, and returns when
// each has an outcome that the recorder knows of, or was released.
func (r *run) deliverAll(ctx context.Context, f *feed) (Stopped, error) {
	type work struct {
		e *outbox.Event
		b *Batch
	}
	// A goroutine goes on with the next event, since a new one would first have to
	// grow its stack. There are as many as were in flight at once.
	idle := make(chan work)
	var inFlight sync.WaitGroup
	defer inFlight.Wait()
	defer close(idle)
	for {
		e, batch, why, err := f.pop()
		if e == nil {
			return why, err
		}
		if e.Unusable != "" {
			r.conclude(ctx, e, batch, attempt{verdict: outbox.Unusable(e.Unusable)})
			continue
		}
		if why := r.awaitTurn(ctx, batch); why != "" {
			r.release(append([]outbox.Event{*e}, f.rest()...))
			return why, nil
		}
		select {
		case idle <- work{e, batch}:
		default:
			inFlight.Go(func() {
				r.deliver(ctx, e, batch)
				for w := range idle {
					r.deliver(ctx, w.e, w.b)
				}
			})
		}
	}
}

// deliverSuspects sends suspects one at a time, each recorded before the next is
// claimed: what kills its worker then takes nothing else with it.
func (r *run) deliverSuspects(ctx context.Context) (Stopped, error) {
	c := r.claim()
	c.Suspects, c.Limit, c.Uncounted = true, 1, true
	for range r.Settings.ClaimLimit {
		if r.recorder.flush(); ctx.Err() != nil || r.budget.left(time.Now()) <= r.budget.needed() {
			return TimeUp, nil
		}
		batch, err := r.take(ctx, c)
		switch {
		case err != nil:
			return "", err
		case batch.Paused:
			return Paused, nil
		case len(batch.Events) == 0:
			return Drained, nil
		}
		c.Before = batch.Now
		e := &batch.Events[0]
		if e.Unusable != "" {
			r.conclude(ctx, e, &batch, attempt{verdict: outbox.Unusable(e.Unusable)})
			continue
		}
		if why := r.awaitTurn(ctx, &batch); why != "" {
			r.release(batch.Events)
			return why, nil
		}
		r.deliver(ctx, e, &batch)
	}
	return CycleLimit, nil
}

// awaitTurn waits until a POST for an event of the batch may start, and takes a
// place in flight. If none may start any more it says why.
func (r *run) awaitTurn(ctx context.Context, b *Batch) Stopped {
	var timer *time.Timer
	for {
		now := time.Now()
		lastStart := r.lastStart(b)
		if ctx.Err() != nil || !now.Before(lastStart) {
			return TimeUp
		}
		turn, wait := r.Pacer.take(now)
		switch turn {
		case start:
			return ""
		case down:
			return EndpointDown
		}
		left := lastStart.Sub(now)
		if wait >= left { // n8n asked for more patience than there is time
			return EndpointDown
		}
		if wait <= 0 {
			wait = left
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-r.Pacer.changed:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// lastStart is the moment before which a POST for an event of the batch may start.
func (r *run) lastStart(b *Batch) time.Time { return r.budget.lastStart(b.Sent, r.Settings.Lease) }

// attempt is what happened when an event was tried.
type attempt struct {
	unsent  bool // the time ran out before the POST; the rest is empty
	verdict outbox.Verdict
	started time.Time     // zero if nothing was sent
	took    time.Duration // of the POST that was answered last
}

// deliver makes one attempt, hands its outcome to the recorder, and only then
// gives its place in flight to the next: a recorder that is stuck stops the
// POSTs.
func (r *run) deliver(ctx context.Context, e *outbox.Event, b *Batch) {
	a := r.try(ctx, e, b)
	if a.unsent {
		r.late.Store(true)
		r.Pacer.leave()
		r.release([]outbox.Event{*e})
		return
	}
	r.conclude(ctx, e, b, a)
	r.Pacer.done(a.verdict.Signal, a.started, a.took, a.verdict.RetryAfter)
}

// try sends the event. A panic in it is the failure of this event alone.
func (r *run) try(ctx context.Context, e *outbox.Event, b *Batch) (a attempt) {
	defer func() {
		if p := recover(); p != nil {
			what := "the attempt broke off in the program itself"
			if err, ok := p.(runtime.Error); ok { // its text holds no data of ours
				what += ": " + err.Error()
			}
			a.verdict, a.took = outbox.Unknown(what), time.Since(a.started)
		}
	}()
	// What is in flight is finished even if the invocation is told to end.
	ctx = context.WithoutCancel(ctx)
	post := func(token string) outbox.Answer {
		a.started = time.Now()
		answer := r.Webhook.Post(ctx, token, e.Body)
		a.took = time.Since(a.started)
		return answer
	}
	lastStart := r.lastStart(b)
	token, ok := r.token.get(lastStart)
	if !ok || !time.Now().Before(lastStart) {
		return attempt{unsent: true}
	}
	r.posted.Store(true)
	answer := post(token)
	if refused := answer.HTTPStatus == 401 || answer.HTTPStatus == 403; refused && time.Now().Before(lastStart) {
		// The token may have been rotated: with a new one the same attempt goes on.
		if fresh, changed := r.token.renew(ctx, token, lastStart); changed && time.Now().Before(lastStart) {
			answer = post(fresh)
		}
	}
	a.verdict = outbox.Judge(e.ID, answer)
	return a
}

// conclude decides the outcome, hands it to the recorder and tells of it.
func (r *run) conclude(ctx context.Context, e *outbox.Event, b *Batch, a attempt) {
	o := outbox.Decide(e, a.verdict, r.Settings.Policy)
	r.recorder.put(o)
	told := Attempt{
		EventID: e.ID, EventType: e.Type, Number: e.Attempts + 1,
		Status: o.Status, Code: o.Code, Error: a.verdict.Summary, HTTPStatus: a.verdict.HTTPStatus, RunID: o.RunID,
		Started: a.started, Duration: a.took,
	}
	if o.Status == outbox.Succeeded {
		told.CommitToAck = b.age(e.Occurred, time.Now())
	}
	r.Observer.Attempted(ctx, told)
}

// age is the time since an event occurred, by the database clock. 0 for a time
// in the future and for an infinite one.
func (b *Batch) age(occurred outbox.Micros, now time.Time) time.Duration {
	since := b.Clock + outbox.Micros(now.Sub(b.Sent).Microseconds())
	// Beyond 292 years a Duration overflows; an event of that age is a wrong date.
	const century = outbox.Micros(100 * 365 * 24 * time.Hour / time.Microsecond)
	if occurred > since || occurred < since-century {
		return 0
	}
	return time.Duration(since-occurred) * time.Microsecond
}

// release gives events back that were claimed and not tried.
func (r *run) release(events []outbox.Event) {
	if len(events) > 0 {
		r.recorder.release(events)
	}
}
