package operator

import (
	"context"
	"fmt"
	"slices"

	"outbox-dispatcher/internal/outbox"
)

// Changed is what a change of many events did, or would do.
type Changed struct {
	DryRun bool `json:"dry_run"`
	// Matched is how many events fit. Where Capped is set, more than the store
	// looks through are in that status, so that more may fit.
	Matched int  `json:"matched"`
	Capped  bool `json:"capped,omitempty"`
	// Changed of them were changed; in a dry run, would be.
	Changed int `json:"changed"`
	// Passed over: they were chosen, and were no longer as they had been, or were
	// locked by somebody else, when their turn came.
	Passed int `json:"passed"`
	// Skipped are ids given that could not be changed, and why.
	Skipped []Skipped `json:"skipped,omitempty"`
	Sample  []Ref     `json:"sample,omitempty"` // of a dry run: the first few
}

// Incomplete reports whether events that were named were not changed.
func (c Changed) Incomplete() bool { return len(c.Skipped) > 0 }

// Skipped is an event that was named and not changed.
type Skipped struct {
	ID     string `json:"event_id"`
	Reason string `json:"reason"`
}

// PartialError says that a change ended before it was done.
type PartialError struct {
	Changed int // events changed until then
	Err     error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%v (changed before that: %s)", e.Err, count(e.Changed, "event"))
}

func (e *PartialError) Unwrap() error { return e.Err }

// changeBatch is how many events one statement changes: some milliseconds of
// work, so that nobody waits for its locks.
const changeBatch = 500

// many is a change of the events of a choice, in batches.
type many struct {
	action string
	from   outbox.Status // the status that they must have
	choice Choice
	limit  int
	dry    bool
	yes    bool
	// question says what would be done to n events, of so many that match.
	question func(n, matched int) string
	// apply changes some of them, of which offset were tried before.
	apply func(ctx context.Context, e *Entry, refs []Ref, offset int) ([]string, error)
}

// run chooses, asks, and changes.
func (m *many) run(ctx context.Context, o *Operator) (Changed, error) {
	chosen, skipped, err := m.choose(ctx, o)
	if err != nil {
		return Changed{}, err
	}
	r := Changed{DryRun: m.dry, Matched: chosen.Matched, Capped: chosen.Capped, Skipped: skipped}
	if m.dry {
		r.Changed, r.Sample = len(chosen.Refs), sample(chosen.Refs)
		return r, nil
	}
	if len(chosen.Refs) == 0 {
		return r, nil
	}
	what := m.question(len(chosen.Refs), chosen.Matched)
	if err := o.confirm(ctx, m.yes, len(chosen.Refs), Question{Text: what, Sample: sample(chosen.Refs)}); err != nil {
		return r, err
	}
	entry, err := o.change(ctx, m.action, what)
	if err != nil {
		return r, err
	}
	if len(chosen.Refs) > changeBatch {
		o.begin(ctx, entry)
	}
	tried, named := 0, m.choice.named()
	for refs := range slices.Chunk(chosen.Refs, changeBatch) {
		ids, err := m.apply(ctx, entry, refs, tried)
		if err != nil {
			entry.Err = err
			break
		}
		entry.add(ids)
		tried += len(refs)
		o.progress(Progress{Action: m.action, Done: entry.Changed, Of: len(chosen.Refs), Part: float64(tried) / float64(len(chosen.Refs))})
		if named {
			r.Skipped = append(r.Skipped, left(refs, ids)...)
		}
	}
	o.tell(ctx, entry)
	r.Changed, r.Passed = entry.Changed, tried-entry.Changed
	if entry.Err != nil {
		return r, &PartialError{entry.Changed, entry.Err}
	}
	return r, nil
}

// choose finds the events. Ids that are not there or in another status are
// skipped, and said why.
func (m *many) choose(ctx context.Context, o *Operator) (Chosen, []Skipped, error) {
	ids, err := m.choice.ids()
	if err != nil {
		return Chosen{}, nil, err
	}
	if len(ids) == 0 {
		c, err := o.Store.Choose(ctx, m.choice.statuses(string(m.from)), m.choice.Filter, m.limit)
		return c, nil, err
	}
	found, err := o.Store.Find(ctx, ids)
	if err != nil {
		return Chosen{}, nil, err
	}
	there := map[string]Event{}
	for _, e := range found {
		there[e.ID] = e
	}
	var c Chosen
	var skipped []Skipped
	for _, id := range ids {
		e, ok := there[id]
		switch {
		case !ok:
			skipped = append(skipped, Skipped{id, "it is not in the table"})
		case e.Status != string(m.from):
			skipped = append(skipped, Skipped{id, fmt.Sprintf("it is %s, and %s needs it to be %s", e.Status, m.action, m.from)})
		default:
			c.Refs = append(c.Refs, Ref{e.ID, e.Type, e.Attempts, e.Code, e.OccurredAt})
		}
	}
	c.Matched = len(c.Refs)
	return c, skipped, nil
}

// left are the events that were named and not among the changed ones.
func left(refs []Ref, changed []string) (skipped []Skipped) {
	for _, r := range refs {
		if !slices.Contains(changed, r.ID) {
			skipped = append(skipped, Skipped{r.ID, "it has just changed, or somebody has it locked; look at it and try again"})
		}
	}
	return skipped
}
