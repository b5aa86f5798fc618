package cycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

const (
	// groupAge is how long an outcome waits for others to be written with it.
	// What is in it when the process dies is sent once more, so it is short.
	groupAge = 5 * time.Millisecond
	// groupSize bounds one statement.
	groupSize = 500
	// The pause before outcomes are tried again doubles between these two.
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second
)

// errHeld stands for the database's word when rows stayed locked by somebody
// else until the time was up.
var errHeld = errors.New("their rows are locked by another session")

// recorder writes outcomes in groups as they come. An outcome that cannot be
// written now is tried again until the time is up: the POST has happened, and
// only the record keeps it from happening again.
type recorder struct {
	ctx   context.Context // ends when the time for recording is up
	store Store
	tally *tally
	in    chan entry
	done  chan struct{} // closed when the loop has ended

	mu         sync.Mutex
	unrecorded int
	lastErr    error // of the database; nil once it answers again
}

// entry is an outcome, or somebody who waits until all before it are written.
type entry struct {
	outcome outbox.Outcome
	flushed chan struct{} // nil for an outcome
}

func startRecorder(ctx context.Context, s Store, o Observer, t *tally) *recorder {
	ctx, end := o.Step(ctx, "record")
	rec := &recorder{
		ctx: ctx, store: s, tally: t,
		// Full only if the database is behind: then deliveries wait for it.
		in:   make(chan entry, groupSize),
		done: make(chan struct{}),
	}
	go func() {
		defer close(rec.done)
		rec.loop()
		end(rec.err())
	}()
	return rec
}

// put hands an outcome over. It waits while the database is behind.
func (rec *recorder) put(o outbox.Outcome) { rec.in <- entry{outcome: o} }

// flush returns when every outcome handed over before is written or given up.
func (rec *recorder) flush() {
	flushed := make(chan struct{})
	rec.in <- entry{flushed: flushed}
	<-flushed
}

// release gives events back untried.
func (rec *recorder) release(events []outbox.Event) {
	settle(rec.ctx, events, func(events []outbox.Event) []outbox.Event {
		return write(rec, events, rec.store.Release, func(outbox.Event) { rec.tally.released() }, nil)
	})
}

// close waits until every outcome is written or given up, and returns an error
// if any was given up. Nothing is handed over after it.
func (rec *recorder) close() error {
	close(rec.in)
	<-rec.done
	return rec.err()
}

func (rec *recorder) err() error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.unrecorded == 0 {
		return nil
	}
	return &UnrecordedError{Count: rec.unrecorded, Err: rec.lastErr}
}

func (rec *recorder) loop() {
	var waiting []outbox.Outcome // could not be written yet
	pause := shortestPause
	for open := true; open; {
		var flushed chan struct{}
		waiting, flushed, open = rec.gather(waiting, pause)
		if waiting = rec.write(waiting); len(waiting) == 0 {
			pause = shortestPause
		} else {
			pause = min(pause*2, longestPause)
		}
		if flushed != nil || !open {
			settle(rec.ctx, waiting, rec.write)
			waiting = nil
		}
		if flushed != nil {
			close(flushed)
		}
	}
}

// gather adds to the outcomes that wait what comes within groupAge, or within
// the pause if nothing comes. It ends early when somebody waits for the group or
// when nothing more can come.
func (rec *recorder) gather(waiting []outbox.Outcome, pause time.Duration) (group []outbox.Outcome, flushed chan struct{}, open bool) {
	group = waiting
	in, full := rec.in, len(waiting)+groupSize
	var ready <-chan time.Time
	var timeUp <-chan struct{}
	if len(waiting) > 0 {
		ready, timeUp = time.After(pause), rec.ctx.Done()
		if rec.away() { // take no more on
			in = nil
		}
	}
	for fresh := false; len(group) < full; {
		select {
		case e, ok := <-in:
			switch {
			case !ok:
				return group, nil, false
			case e.flushed != nil:
				return group, e.flushed, true
			}
			group = append(group, e.outcome)
			if !fresh {
				fresh, ready = true, time.After(groupAge)
			}
		case <-ready:
			return group, nil, true
		case <-timeUp:
			return group, nil, true
		}
	}
	return group, nil, true
}

// away reports whether the database did not answer the last time.
func (rec *recorder) away() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.lastErr != nil
}

func (rec *recorder) write(group []outbox.Outcome) (again []outbox.Outcome) {
	return write(rec, group, rec.store.Record, func(o outbox.Outcome) { rec.tally.recorded(o.Status) }, outbox.Reduce)
}

// settle writes at once, and again after pauses, until nothing is left.
func settle[T any](ctx context.Context, left []T, write func([]T) []T) {
	for pause := shortestPause; len(left) > 0; pause = min(pause*2, longestPause) {
		if left = write(left); len(left) > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done(): // write gives up on what is left
			}
		}
	}
}

// write writes a group once and returns what has to be tried again. When the
// time is up nothing is, and what could not be written counts as unrecorded.
func write[T any](rec *recorder, group []T, call func(context.Context, []T) ([]Fate, error), recorded func(T), replace func(T) (T, bool)) (again []T) {
	if len(group) == 0 {
		return nil
	}
	fates, err := call(rec.ctx, group)
	if err != nil {
		again = group
	}
	for i, fate := range fates {
		switch fate {
		case Recorded:
			recorded(group[i])
		case Held:
			again = append(again, group[i])
		case Refused:
			if replace != nil {
				if other, ok := replace(group[i]); ok {
					again = append(again, other)
					continue
				}
			}
			rec.tally.lost()
		case Lost:
			rec.tally.lost()
		}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if err != nil || rec.unrecorded == 0 {
		rec.lastErr = err
	}
	if rec.ctx.Err() == nil || len(again) == 0 {
		return again
	}
	if err == nil {
		rec.lastErr = errHeld
	}
	rec.unrecorded += len(again)
	rec.tally.unrecorded(len(again))
	return nil
}
