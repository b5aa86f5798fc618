package operator

import (
	"strings"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// Instant is a time of the database, to the microsecond.
type Instant outbox.Micros

// MarshalText writes it as RFC 3339 does, in UTC; the two infinities by name.
func (i Instant) MarshalText() ([]byte, error) {
	switch outbox.Micros(i) {
	case outbox.Infinity:
		return []byte("infinity"), nil
	case outbox.NegInfinity:
		return []byte("-infinity"), nil
	}
	return []byte(outbox.Micros(i).Wire()), nil
}

// String writes it for people, to the second, as psql reads it too: 2026-11-30
// 20:00:45 UTC.
func (i Instant) String() string {
	text, _ := i.MarshalText() // never fails
	date, clock, ok := strings.Cut(string(text), "T")
	if !ok {
		return string(text) // infinity
	}
	return date + " " + clock[:len("20:00:45")] + " UTC"
}

// longest is a century: what is further away comes from a wrong date, and says
// as much.
const longest = 100 * 365 * 24 * time.Hour

// Since is the time from earlier to i, at most a century; negative if earlier is
// later.
func (i Instant) Since(earlier Instant) time.Duration {
	// In floating point, where the infinities do not overflow.
	micros := float64(i) - float64(earlier)
	limit := float64(longest.Microseconds())
	return time.Duration(min(max(micros, -limit), limit)) * time.Microsecond
}

// State is where an event stands: delivery_status and, where that says too
// little, when. Any other delivery_status is its own state.
type State string

const (
	// Due events are pending and go out with the next claim.
	Due State = "due"
	// Later events are pending and wait for their next attempt.
	Later State = "later"
	// Suspect events are pending and lost several leases in a row: they go out
	// alone, after everything else.
	Suspect State = "suspect"
	// Leased events are delivering: somebody works on them.
	Leased State = "leased"
	// Expired events are delivering and their lease ran out.
	Expired State = "expired"
	// Parked events are delivering without a deadline: nobody takes them back.
	Parked State = "parked"
)

// Event is a row of the table as people see it: all but its payload.
type Event struct {
	ID            string   `json:"event_id"`
	Type          string   `json:"event_type"`
	Status        string   `json:"delivery_status"`
	State         State    `json:"state"`
	OccurredAt    Instant  `json:"occurred_at"`
	NextAttemptAt *Instant `json:"next_attempt_at"` // pending: not before; delivering: end of the lease
	Attempts      int      `json:"attempts"`
	AttemptsBase  int      `json:"attempts_base"` // attempts made before the last replay
	LostLeases    int      `json:"lost_leases"`   // in a row, up to now
	Code          string   `json:"last_error_code,omitempty"`
	Error         string   `json:"last_error,omitempty"`
	RunID         string   `json:"external_run_id,omitempty"`
	AgeSeconds    float64  `json:"age_seconds"` // since occurred_at
}

// DueAt is when a pending event is to be sent: next_attempt_at, or occurred_at
// where it was never tried.
func (e *Event) DueAt() Instant {
	if e.NextAttemptAt != nil {
		return *e.NextAttemptAt
	}
	return e.OccurredAt
}

// Complete fills in what follows from the other fields, by the clock of the
// database.
func (e *Event) Complete(now Instant) {
	e.AgeSeconds = now.Since(e.OccurredAt).Seconds()
	e.State = State(e.Status)
	next := e.NextAttemptAt
	switch outbox.Status(e.Status) {
	case outbox.Pending:
		switch {
		case e.LostLeases >= outbox.SuspectLeases:
			e.State = Suspect
		case next == nil || *next <= now:
			e.State = Due
		default:
			e.State = Later
		}
	case outbox.Delivering:
		switch {
		case next == nil:
			e.State = Parked
		case *next <= now:
			e.State = Expired
		default:
			e.State = Leased
		}
	}
}
