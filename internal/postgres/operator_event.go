package postgres

import (
	"context"
	_ "embed"
	"encoding/json"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

var (
	//go:embed sql/operator_event.sql
	eventSQL string
	//go:embed sql/operator_payload.sql
	payloadSQL string
	//go:embed sql/operator_find.sql
	findSQL string
)

// earlierCap bounds how many due events are counted that go out before one.
const earlierCap = 10_000

// documentSQL and noDocument are the payload for the statements that look into
// it, and what stands for it where Postgres cannot.
const (
	documentSQL   = "payload_json::jsonb"
	noDocumentSQL = "null::jsonb"
)

// Event returns one event with what is known of its payload.
func (s *Store) Event(ctx context.Context, id string) (operator.Detail, error) {
	names := func(document string) []string { return []string{"{row}", eventRow, "{document}", document} }
	rows, err := s.askTable(ctx, eventSQL, names(documentSQL), id, earlierCap)
	if isData(err) {
		rows, err = s.askTable(ctx, eventSQL, names(noDocumentSQL), id, earlierCap)
	}
	if err != nil {
		return operator.Detail{}, err
	}
	if len(rows) == 0 {
		return operator.Detail{}, &operator.NotFoundError{ID: id}
	}
	var d operator.Detail
	if d.Event, _, d.Now, err = readEvent(rows[0]); err != nil {
		return d, err
	}
	more := rows[0][eventColumns:]
	var r textReader
	d.PayloadBytes, d.PayloadKind, d.Claimed = int64(r.integer(more[0])), more[1], more[3] == "true"
	if more[2] != "" {
		if err := json.Unmarshal([]byte(more[2]), &d.PayloadKeys); err != nil {
			return d, &DatabaseError{Text: "the keys of the payload cannot be read", Err: err}
		}
	}
	d.Before, d.Paused = r.integer(more[4]), more[5] == "true"
	return d, r.err
}

// Payload returns the payload of an event without the claim token. One that
// Postgres cannot read comes as it is.
func (s *Store) Payload(ctx context.Context, id string) (string, error) {
	// A json column keeps the text as it was written, unless a token is in it.
	const without = "case when jsonb_typeof(payload_json::jsonb) = 'object' and payload_json::jsonb ? '" + outbox.TokenKey + "' " +
		"then (payload_json::jsonb - '" + outbox.TokenKey + "')::text else payload_json::text end"
	rows, err := s.askTable(ctx, payloadSQL, []string{"{document}", without}, id)
	if isData(err) {
		rows, err = s.askTable(ctx, payloadSQL, []string{"{document}", "payload_json"}, id)
	}
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", &operator.NotFoundError{ID: id}
	}
	return rows[0][0], nil
}

// Find returns the events of these ids that are there.
func (s *Store) Find(ctx context.Context, ids []string) ([]operator.Event, error) {
	rows, err := s.askTable(ctx, findSQL, []string{"{row}", eventRow}, ids)
	if err != nil {
		return nil, err
	}
	events := make([]operator.Event, len(rows))
	for i, row := range rows {
		if events[i], _, _, err = readEvent(row); err != nil {
			return nil, err
		}
	}
	return events, nil
}
