package outbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"outbox-dispatcher/internal/outbox"
)

func payload(correlation, aggregate, data string) outbox.Payload {
	value := func(s string) []byte {
		if s == "" {
			return nil // the key is missing
		}
		return []byte(s)
	}
	return outbox.Payload{
		Object: true, Correlation: value(correlation), Aggregate: value(aggregate), Data: value(data),
		Size: int64(len(correlation) + len(aggregate) + len(data)),
	}
}

func micros(t *testing.T, at string) outbox.Micros {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Micros(parsed.UnixMicro())
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, eventType, at string
		payload             outbox.Payload
		want                string
	}{
		{
			"HasSixMembersInOrder", "vehicle.updated", "2025-01-02T03:04:05.12Z", payload(`"c-1"`, `{"id":"v-1","type":"vehicle"}`, `{"a":1}`),
			`{"event_id":"` + ours + `","event_type":"vehicle.updated","occurred_at":"2025-01-02T03:04:05.120000+00:00","correlation_id":"c-1","aggregate":{"id":"v-1","type":"vehicle"},"data":{"a":1}}`,
		},
		{
			"AcceptsAnyValue", "t", "2025-01-02T03:04:05Z", payload(`null`, `[]`, `"text"`),
			`{"event_id":"` + ours + `","event_type":"t","occurred_at":"2025-01-02T03:04:05+00:00","correlation_id":null,"aggregate":[],"data":"text"}`,
		},
		{
			"AcceptsTheLiterals", "t", "2025-01-02T03:04:05Z", payload(`true`, `false`, `-0.0`),
			`{"event_id":"` + ours + `","event_type":"t","occurred_at":"2025-01-02T03:04:05+00:00","correlation_id":true,"aggregate":false,"data":-0.0}`,
		},
		{
			"KeepsEveryDigit", "t", "2025-01-02T03:04:05Z", payload(`9007199254740993`, `[1.0,1.10,0.0,1e400,12345678901234567890.123456789]`, `{"z":123456789012345678901234567890,"a":5e-324}`),
			`{"event_id":"` + ours + `","event_type":"t","occurred_at":"2025-01-02T03:04:05+00:00","correlation_id":9007199254740993,` +
				`"aggregate":[1.0,1.10,0.0,1e400,12345678901234567890.123456789],"data":{"z":123456789012345678901234567890,"a":5e-324}}`,
		},
		{
			"KeepsEveryCharacter", "t", "2025-01-02T03:04:05Z", payload(`"<a>&</a>"`, "\"é😀\u2028\"", `"\u00e9\ud800\/"`),
			`{"event_id":"` + ours + `","event_type":"t","occurred_at":"2025-01-02T03:04:05+00:00","correlation_id":"<a>&</a>","aggregate":"é😀` + "\u2028" + `","data":"\u00e9\ud800\/"}`,
		},
		{
			"KeepsWhiteSpaceAndDoubledKeys", "t", "2025-01-02T03:04:05Z", payload(`{"a": 1, "a": 2}`, `[ ]`, `{}`),
			`{"event_id":"` + ours + `","event_type":"t","occurred_at":"2025-01-02T03:04:05+00:00","correlation_id":{"a": 1, "a": 2},"aggregate":[ ],"data":{}}`,
		},
		{
			"EscapesTheType", "a\"\\\n</b>é😀\x01", "2025-01-02T03:04:05Z", payload(`1`, `2`, `3`),
			`{"event_id":"` + ours + `","event_type":"a\"\\\n</b>é😀\u0001","occurred_at":"2025-01-02T03:04:05+00:00","correlation_id":1,"aggregate":2,"data":3}`,
		},
		{
			"AcceptsAnEmptyType", "", "2025-01-02T03:04:05Z", payload(`1`, `2`, `3`),
			`{"event_id":"` + ours + `","event_type":"","occurred_at":"2025-01-02T03:04:05+00:00","correlation_id":1,"aggregate":2,"data":3}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, unusable := outbox.Envelope(ours, c.eventType, micros(t, c.at), c.payload, 1<<20)
			if string(body) != c.want || unusable != "" {
				t.Errorf("got  %s %s\nwant %s", body, unusable, c.want)
			}
		})
	}
}

func TestEnvelopeSaysWhyNothingCanBeSent(t *testing.T) {
	t.Parallel()
	lacks := func(key string) string { return `payload_json lacks the key "` + key + `", so nothing was sent` }
	for _, c := range []struct {
		name    string
		payload outbox.Payload
		want    string
	}{
		{"NoObject", outbox.Payload{Correlation: []byte(`1`), Aggregate: []byte(`1`), Data: []byte(`1`)}, "payload_json is not a JSON object, so nothing was sent"},
		{"NoCorrelation", payload("", "1", "1"), lacks("correlation_id")},
		{"NoAggregate", payload("1", "", "1"), lacks("aggregate")},
		{"NoData", payload("1", "1", ""), lacks("data")},
		{"NoAggregateAndNoData", payload("1", "", ""), lacks("aggregate")},
		{"NoCorrelationAndNoData", payload("", "1", ""), lacks("correlation_id")},
		{"NoneOfThem", payload("", "", ""), lacks("correlation_id")},
		{"TooLargeToBeLoaded", outbox.Payload{Object: true, Size: 1001}, "the body would be 1001 bytes and N8N_MAX_BODY_BYTES allows 1000, so nothing was sent"},
		{"TooLargeAndIncomplete", outbox.Payload{Object: true, Correlation: []byte("1"), Size: 1 << 40}, "the body would be 1099511627776 bytes and N8N_MAX_BODY_BYTES allows 1000, so nothing was sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, unusable := outbox.Envelope(ours, "t", 0, c.payload, 1000)
			if body != nil || unusable != c.want {
				t.Errorf("body %q, %q; want %q", body, unusable, c.want)
			}
		})
	}
}

// The bound is on the whole body, to the byte.
func TestEnvelopeBoundsTheBody(t *testing.T) {
	t.Parallel()
	p := payload(`1`, `2`, `"`+strings.Repeat("x", 500)+`"`)
	body, _ := outbox.Envelope(ours, "t", 0, p, math.MaxInt64)
	size := int64(len(body))
	if body, unusable := outbox.Envelope(ours, "t", 0, p, size); int64(len(body)) != size || unusable != "" {
		t.Errorf("at the bound: %d bytes, %q", len(body), unusable)
	}
	want := fmt.Sprintf("the body would be %d bytes and N8N_MAX_BODY_BYTES allows %d, so nothing was sent", size, size-1)
	if body, unusable := outbox.Envelope(ours, "t", 0, p, size-1); body != nil || unusable != want {
		t.Errorf("one beyond: %d bytes, %q; want %q", len(body), unusable, want)
	}
	if body, unusable := outbox.Envelope(ours, strings.Repeat("t", 2000), 0, payload("1", "2", "3"), 1000); body != nil || unusable == "" {
		t.Errorf("a long type: %d bytes, %q", len(body), unusable)
	}
}

// members reads the members of an object in their order, each value as text.
func members(t *testing.T, body []byte) (keys []string, values map[string]json.RawMessage) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	if brace, err := decoder.Token(); err != nil || brace != json.Delim('{') {
		t.Fatalf("not an object: %v %v", brace, err)
	}
	values = map[string]json.RawMessage{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		values[key.(string)] = value
	}
	return keys, values
}

// Whatever a row holds, what is sent is those six members with its values byte
// for byte, or nothing.
func FuzzEnvelope(f *testing.F) {
	f.Add("vehicle.updated", int64(1735787045120000), []byte(`"c"`), []byte(`{"type":"x"}`), []byte(`{"n":[1.0,1e400,9007199254740993]}`), int64(1<<20))
	f.Add("<é>\u2028\"", int64(0), []byte(`null`), []byte(` [ ] `), []byte(`"\ud800<&>"`), int64(300))
	f.Add("", int64(math.MaxInt64), []byte(`-0`), []byte(`{"a":1,"a":2}`), []byte(``), int64(10))
	f.Add("t", int64(math.MinInt64+1), []byte(`1`), []byte(`2`), []byte(`3`), int64(1000))
	f.Fuzz(func(t *testing.T, eventType string, occurred int64, correlation, aggregate, data []byte, maxBytes int64) {
		for _, value := range [][]byte{correlation, aggregate, data} {
			if len(value) > 0 && !json.Valid(value) {
				t.Skip("Postgres stores no such payload")
			}
		}
		if !utf8.ValidString(eventType) {
			t.Skip("Postgres stores no such text")
		}
		p := payload(string(correlation), string(aggregate), string(data))
		body, unusable := outbox.Envelope(ours, eventType, outbox.Micros(occurred), p, maxBytes)
		if (body == nil) != (unusable != "") {
			t.Fatalf("body %q and %q", body, unusable)
		}
		if body == nil {
			whole, _ := outbox.Envelope(ours, eventType, outbox.Micros(occurred), p, math.MaxInt64)
			if p.Correlation != nil && p.Aggregate != nil && p.Data != nil && int64(len(whole)) <= maxBytes {
				t.Fatalf("a body of %d bytes was not sent: %s", len(whole), unusable)
			}
			return
		}
		if int64(len(body)) > maxBytes || !json.Valid(body) {
			t.Fatalf("%d bytes, at most %d; JSON: %v", len(body), maxBytes, json.Valid(body))
		}
		keys, values := members(t, body)
		if got := strings.Join(keys, " "); got != "event_id event_type occurred_at correlation_id aggregate data" {
			t.Fatalf("members %s", got)
		}
		for key, want := range map[string][]byte{"correlation_id": correlation, "aggregate": aggregate, "data": data} {
			if got := values[key]; string(got) != strings.Trim(string(want), " \t\r\n") {
				t.Errorf("%s: %q, want %q", key, got, want)
			}
		}
		var gotType, gotTime string
		if err := json.Unmarshal(values["event_type"], &gotType); err != nil || gotType != eventType {
			t.Errorf("event_type %q, want %q", gotType, eventType)
		}
		if err := json.Unmarshal(values["occurred_at"], &gotTime); err != nil || gotTime != outbox.Micros(occurred).Wire() {
			t.Errorf("occurred_at %q", gotTime)
		}
	})
}
