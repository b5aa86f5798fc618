package postgres

import (
	"strconv"

	"outbox-dispatcher/internal/operator"
)

// eventRow is {row} of the statements: an event as texts, what it was sorted by,
// and the time. On one line, as all that is put into a statement: its header
// names the placeholders too, in comments.
const eventRow = "event_id::text, event_type::text, delivery_status::text, occurred_at::text, next_attempt_at::text, " +
	"attempts::text, attempts_base::text, (case when lost_leases_at = attempts then lost_leases else 0 end)::text, " +
	"last_error_code::text, last_error::text, external_run_id::text, sort_key::text, statement_timestamp()::text"

// eventColumns is how many columns eventRow has.
const eventColumns = 13

// readEvent reads eventRow.
func readEvent(row []string) (e operator.Event, key string, now operator.Instant, err error) {
	e = operator.Event{ID: row[0], Type: row[1], Status: row[2], Code: row[8], Error: row[9], RunID: row[10]}
	r := textReader{}
	e.OccurredAt = r.instant(row[3])
	e.NextAttemptAt = r.optional(row[4])
	e.Attempts, e.AttemptsBase, e.LostLeases = r.integer(row[5]), r.integer(row[6]), r.integer(row[7])
	now = r.instant(row[12])
	e.Complete(now)
	return e, row[11], now, r.err
}

// textReader reads values that the database wrote as text, and keeps the first fault.
type textReader struct{ err error }

func (r *textReader) instant(s string) operator.Instant {
	m, err := parseTime(s)
	if err != nil && r.err == nil {
		r.err = &DatabaseError{Text: err.Error()}
	}
	return operator.Instant(m)
}

// optional reads a time that may be null, which comes as an empty text.
func (r *textReader) optional(s string) *operator.Instant {
	if s == "" {
		return nil
	}
	i := r.instant(s)
	return &i
}

func (r *textReader) integer(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil && r.err == nil {
		r.err = &DatabaseError{Text: "a number from the database cannot be read"}
	}
	return n
}
