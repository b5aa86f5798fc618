package operator

import (
	"context"

	"outbox-dispatcher/internal/outbox"
)

// Pause keeps the dispatcher from claiming, from its next round trip on: no
// deploy is needed, and a cold start changes nothing. What it is just sending is
// finished and recorded.
type Pause struct {
	Reason string `json:"reason"`
}

// Resume ends a pause.
type Resume struct {
	Reason string `json:"reason"`
}

// PauseState is what the control table holds. The zero value: running, and
// nobody ever paused it.
type PauseState struct {
	Paused    bool     `json:"paused"`
	Reason    string   `json:"reason,omitempty"`
	ChangedBy string   `json:"changed_by,omitempty"`
	ChangedAt *Instant `json:"changed_at,omitempty"` // by the clock of the database; not read by SetPause
}

// Action is pause.
func (*Pause) Action() string { return "pause" }

// Action is resume.
func (*Resume) Action() string { return "resume" }

func (p *Pause) check() error  { return checkReason(p.Reason) }
func (r *Resume) check() error { return checkReason(r.Reason) }

func checkReason(s string) error {
	if !storable(s) {
		return usage("reason must be text in UTF-8 without NUL")
	}
	return nil
}

func (p *Pause) do(ctx context.Context, o *Operator) (any, error) {
	return setPause(ctx, o, p.Action(), true, p.Reason)
}

func (r *Resume) do(ctx context.Context, o *Operator) (any, error) {
	return setPause(ctx, o, r.Action(), false, r.Reason)
}

func setPause(ctx context.Context, o *Operator, action string, paused bool, reason string) (any, error) {
	reason = outbox.Clean(reason)
	what := action
	if reason != "" {
		what += ": " + reason
	}
	entry, err := o.change(ctx, action, what)
	if err != nil {
		return nil, err
	}
	entry.Counts = false
	now := PauseState{Paused: paused, Reason: reason, ChangedBy: outbox.CleanTo(entry.by(), 200)}
	before, err := o.Store.SetPause(ctx, now)
	entry.Err = err
	o.tell(ctx, entry)
	if err != nil {
		return nil, err
	}
	return PauseChange{Paused: paused, Reason: reason, Before: before}, nil
}

// PauseChange is what pause and resume did.
type PauseChange struct {
	Paused bool       `json:"paused"`
	Reason string     `json:"reason,omitempty"`
	Before PauseState `json:"before"`
}
