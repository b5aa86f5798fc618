package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Payload is what the claim reads of payload_json: three values as JSON text, each
// nil if its key is missing, and what explains their absence.
type Payload struct {
	Object      bool // payload_json is a JSON object that Postgres can read
	Correlation []byte
	Aggregate   []byte
	Data        []byte
	// Size is the length in bytes of the three values together. Above the
	// largest body they are not loaded and only Size is set.
	Size int64
}

// Envelope returns the body to POST for an event: six members in a fixed order, with
// the values of the payload digit for digit as stored. If nothing can be sent, body
// is nil and unusable says why: the first missing key, or the size. maxBytes is the
// largest body that is sent.
func Envelope(id, eventType string, occurred Micros, p Payload, maxBytes int64) (body []byte, unusable string) {
	if !p.Object {
		return nil, "payload_json is not a JSON object, so nothing was sent"
	}
	if p.Size > maxBytes {
		return nil, tooLarge(p.Size, maxBytes)
	}
	for _, member := range []struct {
		key   string
		value []byte
	}{{"correlation_id", p.Correlation}, {"aggregate", p.Aggregate}, {"data", p.Data}} {
		if member.value == nil {
			return nil, fmt.Sprintf("payload_json lacks the key %q, so nothing was sent", member.key)
		}
	}
	// 200 covers the member names, the id and the time.
	body = make([]byte, 0, 200+len(eventType)+len(p.Correlation)+len(p.Aggregate)+len(p.Data))
	body = append(body, `{"event_id":"`...)
	body = append(body, id...)
	body = append(body, `","event_type":`...)
	body = appendString(body, eventType)
	body = append(body, `,"occurred_at":"`...)
	body = append(body, occurred.Wire()...)
	body = append(body, `","correlation_id":`...)
	body = append(body, p.Correlation...)
	body = append(body, `,"aggregate":`...)
	body = append(body, p.Aggregate...)
	body = append(body, `,"data":`...)
	body = append(body, p.Data...)
	body = append(body, '}')
	if int64(len(body)) > maxBytes {
		return nil, tooLarge(int64(len(body)), maxBytes)
	}
	return body, ""
}

func tooLarge(size, maxBytes int64) string {
	return fmt.Sprintf("the body would be %d bytes and N8N_MAX_BODY_BYTES allows %d, so nothing was sent", size, maxBytes)
}

// appendString appends s as a JSON string, with <, > and & as they are.
func appendString(dst []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
