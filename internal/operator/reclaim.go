package operator

import (
	"context"
	"fmt"

	"outbox-dispatcher/internal/outbox"
)

// Reclaim gives leases that ran out back at once, as the next invocation of the
// dispatcher would. One event, by its id, also while its lease is live, or where
// somebody parked it: only with Force, since its worker may just be sending it.
type Reclaim struct {
	ID    string `json:"id"`
	Force bool   `json:"force"`
	Limit int    `json:"limit"`
	Yes   bool   `json:"yes"`
}

// reclaimBatch is what one statement gives back, as in the dispatcher.
const reclaimBatch = 500

// Action is reclaim.
func (*Reclaim) Action() string { return "reclaim" }

func (r *Reclaim) check() error {
	if r.ID == "" {
		if r.Force {
			return usage("force is for one event: give its id")
		}
		return between("limit", r.Limit, 1, maxChange)
	}
	_, err := eventID(r.ID)
	return err
}

func (r *Reclaim) do(ctx context.Context, o *Operator) (any, error) {
	if r.ID != "" {
		return r.one(ctx, o)
	}
	expired, err := o.Store.Expired(ctx, r.Limit)
	if err != nil || expired == 0 {
		return Reclaimed{}, err
	}
	what := "reclaim " + count(expired, "expired lease")
	if err := o.confirm(ctx, r.Yes, expired, Question{Text: what}); err != nil {
		return Reclaimed{}, err
	}
	entry, err := o.change(ctx, r.Action(), what)
	if err != nil {
		return Reclaimed{}, err
	}
	var sum Reclaimed
	for sum.all() < r.Limit {
		batch := min(reclaimBatch, r.Limit-sum.all())
		var got Reclaimed
		if got, entry.Err = o.Store.Reclaim(ctx, batch, o.MaxLostLeases); entry.Err != nil {
			break
		}
		sum.Pending, sum.Failed = sum.Pending+got.Pending, sum.Failed+got.Failed
		entry.Changed = sum.all()
		o.progress(Progress{Action: r.Action(), Done: sum.all(), Of: expired, Part: min(float64(sum.all())/float64(expired), 1)})
		if got.all() < batch {
			break
		}
	}
	o.tell(ctx, entry)
	if entry.Err != nil {
		return sum, &PartialError{sum.all(), entry.Err}
	}
	return sum, nil
}

// one takes one event back.
func (r *Reclaim) one(ctx context.Context, o *Operator) (any, error) {
	id, err := eventID(r.ID)
	if err != nil {
		return nil, err
	}
	d, err := o.Store.Event(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case d.Status != string(outbox.Delivering):
		return Reclaimed{Skipped: []Skipped{{id, fmt.Sprintf("it is %s: nobody holds it", d.Status)}}}, nil
	case d.State == Parked && !r.Force:
		return nil, usage("%s is parked: somebody put it there without a deadline; with force (--force) it goes out", id)
	case d.State == Leased && !r.Force:
		return nil, usage("the lease of %s lives for another %s, and its worker may just be sending it; with force (--force) it goes out once more", id, Span(d.NextAttemptAt.Since(d.Now)))
	}
	entry, err := o.change(ctx, r.Action(), fmt.Sprintf("take event %s back, which is %s", id, d.State))
	if err != nil {
		return nil, err
	}
	text := "The lease ran out and was taken back by " + entry.by() + ". No attempt was counted."
	if d.State != Expired {
		text = fmt.Sprintf("It was %s and was taken back by force by %s. No attempt was counted.", d.State, entry.by())
	}
	done, err := o.Store.TakeBack(ctx, id, r.Force, outbox.Clean(text))
	if err == nil && !done {
		return Reclaimed{Skipped: []Skipped{{id, "it has just changed, or somebody has it locked; look at it and try again"}}}, nil
	}
	if entry.Err = err; err == nil {
		entry.add([]string{id})
	}
	o.tell(ctx, entry)
	return Reclaimed{Pending: entry.Changed}, err
}

// Reclaimed counts leases that were given back.
type Reclaimed struct {
	Pending int       `json:"pending"` // go out again
	Failed  int       `json:"failed"`  // suspects that lost their last lease
	Skipped []Skipped `json:"skipped,omitempty"`
}

// Incomplete reports whether the event that was named was not taken back.
func (r Reclaimed) Incomplete() bool { return len(r.Skipped) > 0 }

func (r Reclaimed) all() int { return r.Pending + r.Failed }
