package operator

import "context"

// Doctor checks everything that has to work, in order. It changes nothing; with
// Post it sends one event of its own, since only that shows whether n8n takes the
// token.
type Doctor struct {
	// Post sends one event of the type dispatcher.doctor, which runs the workflow
	// once.
	Post bool `json:"post"`
	// Role is the dispatcher's, whose rights are looked at. Empty:
	// outbox_dispatcher where there is such a role, else that of the session.
	Role string `json:"role"`
}

// Action is doctor.
func (*Doctor) Action() string { return "doctor" }

func (d *Doctor) check() error {
	if !storable(d.Role) {
		return usage("role must be text in UTF-8 without NUL")
	}
	return nil
}

func (d *Doctor) do(ctx context.Context, o *Operator) (any, error) {
	if o.Doctor == nil {
		return nil, usage("there is no doctor here")
	}
	return o.Doctor(ctx, *d)
}

// Result of a check.
type Result string

const (
	// OK: it is as it has to be.
	OK Result = "ok"
	// Warning: it works, and something about it will trouble somebody.
	Warning Result = "warning"
	// Fault: it has to be mended.
	Fault Result = "fault"
	// Unknown: it was not tried, or cannot be told from here.
	Unknown Result = "unknown"
)

// Check is one thing that has to work.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Text   string `json:"text"`           // what was found
	Mend   string `json:"mend,omitempty"` // what to do about it
}

// Diagnosis is what doctor found.
type Diagnosis struct {
	OK     bool    `json:"ok"` // no check found a fault
	Faults int     `json:"faults"`
	Checks []Check `json:"checks"`
}

// Add appends checks and counts their faults.
func (d *Diagnosis) Add(checks ...Check) {
	for _, c := range checks {
		if c.Result == Fault {
			d.Faults++
		}
	}
	d.Checks = append(d.Checks, checks...)
	d.OK = d.Faults == 0
}
