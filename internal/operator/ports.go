package operator

import "context"

// Store is the table as people need it. Rows live by the clock of the database;
// no method waits for a row that somebody else has locked. Its errors are one
// sentence each: what is wrong and what to do.
type Store interface {
	Reader
	Changer
	Pruner
	// Role is the name with which the session logged in.
	Role(ctx context.Context) (string, error)
	// SetPause pauses the dispatcher or lets it run, and returns what was before.
	SetPause(ctx context.Context, p PauseState) (before PauseState, err error)
	// Migrate brings the table to what the dispatcher needs; say is told each
	// step.
	Migrate(ctx context.Context, say func(string)) error
}

// Reader looks and changes nothing. What it reads is bounded, and found by an
// index.
type Reader interface {
	// Overview counts what is where.
	Overview(ctx context.Context) (Overview, error)
	// List returns a page of events.
	List(ctx context.Context, q Query) (Page, error)
	// Event returns one event. Returns a *NotFoundError if it is not there.
	Event(ctx context.Context, id string) (Detail, error)
	// Payload returns the payload of an event as JSON text, without the claim
	// token. Returns a *NotFoundError if the event is not there.
	Payload(ctx context.Context, id string) (string, error)
	// Choose returns the events in these statuses or states that fit the filter,
	// those that occurred first first. No event is in two of them.
	Choose(ctx context.Context, statuses []string, f Filter, limit int) (Chosen, error)
	// Find returns the events of these ids that are there, whatever their status.
	Find(ctx context.Context, ids []string) ([]Event, error)
	// Expired counts leases that ran out, up to limit.
	Expired(ctx context.Context, limit int) (int, error)
}

// Changer changes rows, each only if it still is as it was chosen, and returns
// the ids of those that it changed.
type Changer interface {
	// Replay makes failed events pending. The nth is due delays[n] seconds from
	// now.
	Replay(ctx context.Context, events []Ref, delays []float64) ([]string, error)
	// Cancel makes pending events failed, with this code and text.
	Cancel(ctx context.Context, events []Ref, code, text string) ([]string, error)
	// Reclaim gives expired leases back, as each invocation of the dispatcher
	// does: at most limit, and failed instead where maxLost were lost in a row.
	Reclaim(ctx context.Context, limit, maxLost int) (Reclaimed, error)
	// TakeBack makes one delivering event pending, whoever holds it, and removes
	// the claim token. Unless force is set its lease must have run out. text goes
	// into last_error. False: it is not delivering any more, or somebody has it
	// locked.
	TakeBack(ctx context.Context, id string, force bool, text string) (bool, error)
}

// Pruner deletes old rows in the order in which they lie in the table.
type Pruner interface {
	// PruneStart begins a walk through the table.
	PruneStart(ctx context.Context, olderThanDays int) (Walk, error)
	// PruneStep takes the next step of a walk: it deletes, or only counts if dry
	// is set, at most limit rows, and reads a bounded part of the table. It
	// returns the walk behind the step.
	PruneStep(ctx context.Context, w Walk, limit int, failed, dry bool) (Walk, int, error)
}

// Ref is an event as it was chosen: a change of it is fenced by attempts.
type Ref struct {
	ID         string  `json:"event_id"`
	Type       string  `json:"event_type"`
	Attempts   int     `json:"attempts"`
	Code       string  `json:"last_error_code,omitempty"`
	OccurredAt Instant `json:"occurred_at"`
}

// Chosen are events to change.
type Chosen struct {
	Refs []Ref
	// Matched is how many fit in all; those beyond the limit are not in Refs.
	Matched int
	// Capped: more rows are in that status than were looked at, so that more may
	// fit.
	Capped bool
}

// NotFoundError says that there is no such event.
type NotFoundError struct{ ID string }

func (e *NotFoundError) Error() string {
	return "there is no event " + e.ID + " in the table; it may have been pruned, or OUTBOX_TABLE names another table"
}
