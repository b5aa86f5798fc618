package cycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// EventError says what is wrong with the event that an invocation was given.
type EventError struct{ Text string }

func (e *EventError) Error() string { return "event: " + e.Text }

// members of a hand-written event.
var members = []string{"max_cycles", "claim_limit", "concurrency", "dry_run"}

// ParseRequest reads the event of an invocation: one of a schedule (its source
// begins with "aws."; the other members are ignored), {} or nothing, or one written
// by hand, whose members have the bounds of the settings. An error is an *EventError
// that names the member.
func ParseRequest(event []byte) (Request, error) {
	var r Request
	event = bytes.TrimSpace(event)
	if len(event) == 0 || string(event) == "null" {
		return r, nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(event, &given); err != nil {
		return r, &EventError{"it must be a JSON object, such as {} or {\"max_cycles\": 0}"}
	}
	var source string
	if json.Unmarshal(given["source"], &source) == nil && strings.HasPrefix(source, "aws.") {
		return r, nil
	}
	for name := range given {
		if !slices.Contains(members, name) {
			return r, &EventError{fmt.Sprintf("unknown member %q; the members are %s", name, strings.Join(members, ", "))}
		}
	}
	for _, m := range []struct {
		name            string
		to              **int
		lowest, highest int
	}{
		{"max_cycles", &r.MaxCycles, 0, MaxCycles},
		{"claim_limit", &r.ClaimLimit, 1, MaxRows},
		{"concurrency", &r.Concurrency, 1, MaxConcurrency},
	} {
		raw, found := given[m.name]
		if !found {
			continue
		}
		var n *int
		if err := json.Unmarshal(raw, &n); err != nil || n == nil || *n < m.lowest || *n > m.highest {
			return r, &EventError{fmt.Sprintf("%s must be a whole number from %d to %d", m.name, m.lowest, m.highest)}
		}
		*m.to = n
	}
	if raw, found := given["dry_run"]; found {
		var dry *bool
		if err := json.Unmarshal(raw, &dry); err != nil || dry == nil {
			return r, &EventError{"dry_run must be true or false"}
		}
		r.DryRun = *dry
	}
	return r, nil
}
