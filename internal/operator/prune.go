package operator

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Prune deletes old events, in small batches with pauses, in the order in which
// they lie in the table. What is old is told by occurred_at: the table does not
// know when an event was done.
type Prune struct {
	OlderThanDays int      `json:"older_than_days"` // at least MinPruneDays
	Failed        bool     `json:"failed"`          // the failed ones as well
	Limit         int      `json:"limit"`           // events at most; 0: all
	Batch         int      `json:"batch"`           // events a statement
	Pause         Duration `json:"pause"`           // between two statements
	DryRun        bool     `json:"dry_run"`         // counts, which reads the whole table
	Yes           bool     `json:"yes"`
}

const (
	// MinPruneDays: somebody may still ask about the events of last week, and a
	// replay of the service's own may still name them.
	MinPruneDays = 7
	maxPruneDays = 36500
	// defaultBatch of deleted rows is some ten milliseconds of work.
	defaultBatch = 1000
	maxBatch     = 10_000
	// defaultPause leaves the database at least as much time as a batch takes.
	defaultPause = 50 * time.Millisecond
	// pruneMargin is how long before its deadline a prune ends by itself: a step
	// is bounded by five seconds.
	pruneMargin = 8 * time.Second
)

// Action is prune.
func (*Prune) Action() string { return "prune" }

func (p *Prune) check() error {
	switch {
	case p.OlderThanDays == 0:
		return usage("say how old: older_than_days (--older-than-days), at least %d", MinPruneDays)
	case p.OlderThanDays < MinPruneDays || p.OlderThanDays > maxPruneDays:
		return usage("older_than_days must be a whole number from %d to %d", MinPruneDays, maxPruneDays)
	case p.Limit < 0:
		return usage("limit must not be negative; 0 means all")
	case time.Duration(p.Pause) > time.Minute:
		return usage("pause must be at most 1m")
	}
	return between("batch", p.Batch, 1, maxBatch)
}

// Walk is a place in the table on the way through it.
type Walk struct {
	Before   Instant // rows that occurred before it are old
	Position string  // of the store; empty: at the start
	End      string  // of the store
	Most     int     // rows a step could delete within its time; 0: as many as asked
	Part     float64 // of the table that lies behind, 0 to 1
	Done     bool
}

// Stopped says why a prune ended.
type Stopped string

const (
	// Complete: the whole table was walked through.
	Complete Stopped = "complete"
	// AtLimit: Limit events were deleted, and there may be more.
	AtLimit Stopped = "limit"
	// OutOfTime: the invocation ends soon; the next prune goes on.
	OutOfTime Stopped = "timeUp"
)

// Pruned is what a prune did.
type Pruned struct {
	DryRun     bool    `json:"dry_run"`
	Deleted    int     `json:"deleted"` // in a dry run: would be
	Before     Instant `json:"before"`  // those that occurred before it
	Failed     bool    `json:"failed"`  // failed ones as well
	Batches    int     `json:"batches"` // that deleted something
	DurationMS int64   `json:"duration_ms"`
	Stopped    Stopped `json:"stopped"`
}

func (p *Prune) do(ctx context.Context, o *Operator) (any, error) {
	began := time.Now()
	walk, err := o.Store.PruneStart(ctx, p.OlderThanDays)
	if err != nil {
		return nil, err
	}
	r := Pruned{DryRun: p.DryRun, Before: walk.Before, Failed: p.Failed, Stopped: Complete}
	what := fmt.Sprintf("delete every %s event that occurred before %s, %d days ago", p.statuses(), walk.Before, p.OlderThanDays)
	if p.Limit > 0 {
		what += fmt.Sprintf(", at most %d", p.Limit)
	}
	var entry *Entry
	if !p.DryRun {
		events := p.Limit
		if events == 0 {
			events = maxChange // nobody knows before the walk: many
		}
		if err := o.confirm(ctx, p.Yes, events, Question{Text: what}); err != nil {
			return nil, err
		}
		if entry, err = o.change(ctx, p.Action(), what); err != nil {
			return nil, err
		}
		o.begin(ctx, entry)
	}
	err = p.walk(ctx, o, walk, &r)
	r.DurationMS = time.Since(began).Milliseconds()
	if entry != nil {
		entry.Changed, entry.Err = r.Deleted, err
		o.tell(ctx, entry)
	}
	if err != nil {
		return r, &PartialError{r.Deleted, err}
	}
	return r, nil
}

func (p *Prune) statuses() string {
	if p.Failed {
		return "succeeded and failed"
	}
	return "succeeded"
}

// walk goes through the table.
func (p *Prune) walk(ctx context.Context, o *Operator, walk Walk, r *Pruned) error {
	for !walk.Done {
		limit := p.Batch
		if p.Limit > 0 {
			limit = min(limit, p.Limit-r.Deleted)
		}
		if limit == 0 {
			r.Stopped = AtLimit
			return nil
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < pruneMargin {
			r.Stopped = OutOfTime
			return nil
		}
		began := time.Now()
		next, n, err := o.Store.PruneStep(ctx, walk, limit, p.Failed, p.DryRun)
		if err != nil {
			return err
		}
		walk = next
		r.Deleted += n
		if n > 0 {
			r.Batches++
		}
		o.progress(Progress{Action: p.Action(), Done: r.Deleted, Part: walk.Part})
		if walk.Done {
			return nil
		}
		// As long as the step took, so that others have the disk half of the time.
		pause := time.Since(began)
		if n > 0 && !p.DryRun {
			pause = max(pause, time.Duration(p.Pause))
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

var errInterrupted = errors.New("told to end")

// rest waits, unless ctx ends before.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errInterrupted
	}
}
