// Package cycle is the use case: one invocation reclaims, claims, delivers and
// records, and then reports. One file a step:
//
//	reclaim.go   rows whose lease ran out go back to pending   ┐ one round trip
//	claim.go     due rows become ours, in batches              ┘ to the database
//	deliver.go   one POST an event, several at once
//	record.go    outcomes go to the database in groups
//
// and around them what bounds it (budget.go, bounds.go), paces it (pacing.go) and reports
// it (report.go).
//
// # Guarantees
//
// An event is sent at least once and its row is final only after n8n has
// acknowledged that very event, or after its attempts are used up. No event is
// under two live leases. A POST starts only if the lease outlives it. An outcome
// is written only while the row still carries our claim.
//
// # Failure handling
//
// A failed delivery is an outcome, not an error. Run returns an error only if the work
// could not be done: settings, secret, database. Whatever dies in between, the lease runs
// out and a later invocation reclaims the row.
package cycle

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outbox-dispatcher/internal/outbox"
)

// Settings bound an invocation.
type Settings struct {
	Enabled       bool
	HTTPTimeout   time.Duration // one whole POST
	Lease         time.Duration
	MaxBodyBytes  int64
	Policy        outbox.Policy
	ClaimLimit    int
	ReclaimLimit  int
	ClaimBytes    int64
	Concurrency   int // POSTs in flight at most
	MaxCycles     int // 0: until nothing is due or the time is up
	Linger        time.Duration
	MaxLostLeases int
}

// Dispatcher carries events from the table to n8n. Its fields are set once, and one
// invocation after the other uses it; only the pace is remembered between them.
type Dispatcher struct {
	Settings Settings
	Store    Store
	Webhook  Webhook
	Tokens   Tokens
	Observer Observer
	// Pacer remembers the pace that n8n could take. Required.
	Pacer *Pacer
}

// Request is what one invocation is asked to do, where that differs from the
// settings. The zero value differs in nothing.
type Request struct {
	MaxCycles   *int
	ClaimLimit  *int
	Concurrency *int
	DryRun      bool // claims nothing, shows what is due
}

// apply returns the settings with what the request asks for.
func (r Request) apply(s Settings) Settings {
	for _, o := range []struct {
		asked *int
		to    *int
	}{{r.MaxCycles, &s.MaxCycles}, {r.ClaimLimit, &s.ClaimLimit}, {r.Concurrency, &s.Concurrency}} {
		if o.asked != nil {
			*o.to = *o.asked
		}
	}
	return s
}

// TimeError says that there is no time for a single POST, be it from the start, after
// what the start took, or since the claim took longer than the lease allows. To claim and
// release every event, tick after tick, would be silence for ever.
type TimeError struct{ Text string }

func (e *TimeError) Error() string { return "settings: " + e.Text }

// UnrecordedError says that outcomes could not be written. Their rows are still
// leased; a later invocation reclaims them and sends the events once more.
type UnrecordedError struct {
	Count int
	Err   error // what the database said last
}

func (e *UnrecordedError) Error() string {
	return fmt.Sprintf("%d outcomes could not be recorded; their events will be sent once more when the lease runs out: %v", e.Count, e.Err)
}

func (e *UnrecordedError) Unwrap() error { return e.Err }

// Run does one invocation. It returns at least half a second before the
// deadline of ctx (60 s where it has none). When ctx ends early nothing new is
// started, what is in flight is finished and recorded, the rest is released.
// The report holds what was done even if err is not nil.
func (d *Dispatcher) Run(ctx context.Context, req Request) (report Report, err error) {
	started := time.Now()
	r := &run{Dispatcher: d, Settings: req.apply(d.Settings), started: started, budget: newBudget(ctx, started, d.Settings.HTTPTimeout)}
	defer func() {
		report = r.tally.report()
		report.Enabled = d.Settings.Enabled
		report.DurationMS = time.Since(started).Milliseconds()
		d.Observer.Reported(ctx, report, err)
	}()
	if !d.Settings.Enabled {
		r.tally.stop(Disabled)
		return report, nil
	}
	if req.DryRun {
		work, cancel := r.budget.forWork(ctx)
		defer cancel()
		due, backlog, err := d.Store.Due(work, r.Settings.ClaimLimit)
		r.tally.dryRun(due)
		r.tally.backlog(backlog)
		r.tally.stop(CycleLimit)
		if len(due) < r.Settings.ClaimLimit {
			r.tally.stop(Drained)
		}
		return report, err
	}
	if err := r.tooLittleTime(); err != nil {
		return report, err
	}
	return report, r.invoke(ctx)
}

// run is the state of one invocation.
type run struct {
	*Dispatcher
	Settings Settings // of the dispatcher, with what the request changed
	started  time.Time
	budget   budget
	token    *token
	recorder *recorder
	tally    tally
	posted   atomic.Bool // a POST was started
	late     atomic.Bool // an event was given back because the time ran out before its POST
}

// tooLittleTime returns a *TimeError if the invocation has no time for a POST any more.
func (r *run) tooLittleTime() error {
	now := time.Now()
	left, needed := r.budget.left(now), r.budget.needed()
	if left > needed {
		return nil
	}
	return &TimeError{fmt.Sprintf("after %.1f s this invocation has %.1f s left and one POST needs %.1f s: N8N_HTTP_TIMEOUT_SECONDS + %.0f; raise the timeout of the function or lower N8N_HTTP_TIMEOUT_SECONDS",
		now.Sub(r.started).Seconds(), left.Seconds(), needed.Seconds(), PostMargin.Seconds())}
}

func (r *run) invoke(ctx context.Context) error {
	work, cancel := r.budget.forWork(ctx)
	defer cancel()
	// The token and a session with the database, both before anything is claimed.
	g, both := errgroup.WithContext(work)
	g.Go(func() (err error) {
		r.token, err = fetchToken(both, r.Tokens, r.Observer)
		return err
	})
	g.Go(func() error { return r.Store.Ready(both) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := r.tooLittleTime(); err != nil {
		return err
	}

	r.Pacer.begin(r.Settings.Concurrency, r.Settings.HTTPTimeout)
	// Recording outlives ctx: what was sent has to be written.
	record, stop := r.budget.forWork(context.WithoutCancel(ctx))
	defer stop()
	r.recorder = startRecorder(record, r.Store, r.Observer, &r.tally)
	err := r.cycles(work)
	if unrecorded := r.recorder.close(); unrecorded != nil {
		err = unrecorded
	}
	r.Pacer.end()
	if err != nil {
		return err
	}
	return r.reportBacklog(ctx)
}

// reportBacklog counts what is left, unless the last claim has just done so or there is
// no time for it.
func (r *run) reportBacklog(ctx context.Context) error {
	if r.tally.backlogIsFresh() {
		return nil
	}
	ctx, cancel := r.budget.forReport(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil
	}
	b, err := r.Store.Backlog(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	r.tally.backlog(b)
	return nil
}
