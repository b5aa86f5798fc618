package operator

import (
	"context"
	"slices"
)

// Status asks what is where.
type Status struct{}

// Action is status.
func (*Status) Action() string { return "status" }

func (*Status) check() error { return nil }

func (*Status) do(ctx context.Context, o *Operator) (any, error) {
	s, err := o.Store.Overview(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Overview is the state of the table as a person sees it first. Counts stop at
// CountedUpTo, so that it costs the same whatever waits. In a large table the
// succeeded rows are an estimate, and the rows of others are counted with them.
type Overview struct {
	Table               string           `json:"table"`
	Statuses            map[string]int64 `json:"statuses"` // rows by delivery_status
	Estimated           bool             `json:"estimated"`
	Due                 int64            `json:"due"`      // pending, to be sent now
	Later               int64            `json:"later"`    // pending, waiting for their next attempt
	Suspects            int64            `json:"suspects"` // pending, lost several leases in a row
	Leased              int64            `json:"leased"`   // delivering, somebody works on them
	Expired             int64            `json:"expired"`  // delivering, the lease ran out
	Parked              int64            `json:"parked"`   // delivering without a deadline
	FailedBy            []FailedBy       `json:"failed_by_code"`
	CountedUpTo         int64            `json:"counted_up_to"`
	AtLeast             []string         `json:"at_least"` // the counts that stopped there, by their names above
	OldestDueAgeSeconds float64          `json:"oldest_due_age_seconds"`
	Paused              bool             `json:"paused"`
	Pause               *PauseState      `json:"pause,omitempty"` // who paused it and why; while it is paused
}

// More reports whether there may be more of a count, by its name in JSON, than it
// says.
func (o Overview) More(name string) bool { return slices.Contains(o.AtLeast, name) }

// FailedBy counts failed events of one code.
type FailedBy struct {
	Code  string `json:"code"`
	Count int64  `json:"count"`
	// AtLeast: counting stopped there.
	AtLeast bool `json:"at_least"`
}
