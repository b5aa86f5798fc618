package operator

import (
	"context"
	"encoding/json"
	"fmt"
)

// Show asks for one event: everything but its payload, unless that is asked for.
type Show struct {
	ID      string `json:"id"`
	Payload bool   `json:"payload"`
}

// Action is show.
func (*Show) Action() string { return "show" }

func (s *Show) check() error {
	if s.ID == "" {
		return usage("say which event: its id")
	}
	_, err := eventID(s.ID)
	return err
}

func (s *Show) do(ctx context.Context, o *Operator) (any, error) {
	id, err := eventID(s.ID)
	if err != nil {
		return nil, err
	}
	d, err := o.Store.Event(ctx, id)
	if err != nil {
		return nil, err
	}
	d.History = history(d)
	d.Next = next(d, o.MaxAttempts)
	if !s.Payload {
		return d, nil
	}
	if o.MaxPayload > 0 && d.PayloadBytes > o.MaxPayload {
		return nil, usage("the payload has %d bytes and %d can be returned here; show it from the command line", d.PayloadBytes, o.MaxPayload)
	}
	text, err := o.Store.Payload(ctx, id)
	if err != nil {
		return nil, err
	}
	if d.Payload = json.RawMessage(text); !json.Valid(d.Payload) {
		d.Payload = json.RawMessage(quoteJSON(text))
	}
	return d, nil
}

// Detail is one event whole.
type Detail struct {
	Event
	PayloadBytes int64    `json:"payload_bytes"` // as text
	PayloadKeys  []string `json:"payload_keys"`  // of the object, without the claim token; nil: it is none
	PayloadKind  string   `json:"payload_kind"`  // object, array, string, number, boolean, null; unreadable
	Claimed      bool     `json:"claimed"`       // it holds a claim token
	Before       int      `json:"before"`        // due events that go out first; counted up to 10,000
	Paused       bool     `json:"paused"`
	Now          Instant  `json:"now"`

	History []string        `json:"history"` // what the row tells of the past, in words
	Next    string          `json:"next"`    // what happens next and when, in words
	Payload json.RawMessage `json:"payload,omitempty"`
}

// history tells the past of an event, as far as the row knows it.
func history(d Detail) []string {
	h := []string{fmt.Sprintf("occurred at %s, %s", d.OccurredAt, Ago(d.Now.Since(d.OccurredAt)))}
	if d.AttemptsBase > 0 {
		h = append(h, fmt.Sprintf("was replayed by an operator after %s", count(d.AttemptsBase, "attempt")))
	}
	switch made := d.Attempts - d.AttemptsBase; {
	case d.AttemptsBase > 0 && made == 0:
		h = append(h, "no attempt was recorded since then")
	case d.Attempts == 0:
		h = append(h, "no attempt was recorded yet")
	case d.AttemptsBase > 0:
		h = append(h, fmt.Sprintf("since then %s, in all %d", count(made, "attempt"), d.Attempts))
	default:
		h = append(h, count(d.Attempts, "attempt"))
	}
	if d.LostLeases > 0 {
		h = append(h, fmt.Sprintf("lost %s in a row without an outcome", count(d.LostLeases, "lease")))
	}
	if d.Error != "" {
		h = append(h, fmt.Sprintf("last error (%s): %s", orNone(d.Code), d.Error))
	}
	if d.RunID != "" {
		h = append(h, "n8n's execution was "+d.RunID)
	}
	return h
}

func orNone(s string) string {
	if s == "" {
		return "no code"
	}
	return s
}
