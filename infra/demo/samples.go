package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// sample is an event as it lies in the table before the first invocation.
type sample struct {
	id        string // the same in every run, so that a run knows the samples of an earlier one
	shows     string // what it is there for, for the table on the screen
	eventType string
	payload   string // payload_json
	age       time.Duration

	status     outbox.Status
	attempts   int
	due        *time.Duration // next_attempt_at, from now; nil: null
	code       outbox.Code
	lastError  string
	runID      string
	lostLeases int // in a row, while attempts had its value
}

// lastAttempt is the number of attempts after which one is left.
const lastAttempt = 4

// reply is what the stand-in n8n answers to an event; it reads it from the
// member "demo_reply" of data. An n8n of yours knows nothing of it.
type reply string

const (
	acknowledge reply = "acknowledge"
	refuse      reply = "refuse"        // ok: false
	webPage     reply = "web page"      // 200 and HTML
	crash       reply = "crash"         // 500
	otherID     reply = "another id"    // acknowledges another event
	silence     reply = "silence"       // nothing until the POST times out
	busyOnce    reply = "busy at first" // 503, and later an acknowledgement
)

// good events, as a fleet service would write them: type, kind and id of the
// aggregate, data.
var good = [][4]string{
	{"trip.completed", "vehicle", "VH-1042", `{"trip_id": "T-88121", "driver_id": "DR-207", "distance_km": 18.40, "duration_s": 2710}`},
	{"driver.assigned", "trip", "T-88122", `{"driver_id": "DR-311", "vehicle_id": "VH-1007", "by": "dispatcher"}`},
	{"invoice.issued", "order", "ORD-5531", `{"invoice_id": "INV-2026-0412", "total": "1249.90", "currency": "EUR", "lines": 3}`},
	{"geofence.left", "vehicle", "VH-1013", `{"fence": "depot-north", "position": {"lat": 52.520812, "lon": 13.409419}}`},
	{"trip.completed", "vehicle", "VH-1007", `{"trip_id": "T-88090", "driver_id": "DR-118", "distance_km": 204.75, "duration_s": 11040}`},
	{"fuel.recorded", "vehicle", "VH-1013", `{"litres": 61.2, "price_per_litre": 1.719, "station": "Tank & Rast \"Süd\""}`},
	{"vehicle.serviced", "vehicle", "VH-1099", `{"workshop": "Müller", "odometer_km": 120400, "items": ["oil", "brakes"]}`},
	{"driver.assigned", "trip", "T-88123", `{"driver_id": "DR-207", "vehicle_id": "VH-1042", "by": "plan"}`},
	{"invoice.issued", "order", "ORD-5532", `{"invoice_id": "INV-2026-0413", "total": "89.00", "currency": "EUR", "lines": 1}`},
	{"order.cancelled", "order", "ORD-5519", `{"reason": null, "refund": {"amount": "35.50", "currency": "EUR"}}`},
	{"geofence.entered", "vehicle", "VH-1042", `{"fence": "customer-4711", "position": {"lat": 48.137154, "lon": 11.576124}}`},
	{"trip.completed", "vehicle", "VH-1099", `{"trip_id": "T-88131", "driver_id": "DR-311", "distance_km": 3.05, "duration_s": 640}`},
}

// samples returns the good events and one of every other kind.
func samples() []sample {
	after := func(d time.Duration) *time.Duration { return &d }
	var all []sample
	for _, g := range good {
		all = append(all, sample{shows: "a good one", eventType: g[0], payload: payload(g[1], g[2], g[3], acknowledge)})
	}
	special := func(shows, eventType string, r reply, change func(*sample)) {
		s := sample{shows: shows, eventType: eventType, payload: payload("order", "ORD-6000", `{"total": "12.00"}`, r)}
		if change != nil {
			change(&s)
		}
		all = append(all, s)
	}
	special("busy at first, then taken", "order.placed", busyOnce, nil)
	special("refused by the workflow", "order.placed", refuse, nil)
	special("the workflow crashes", "invoice.issued", crash, nil)
	special("answered with a web page", "driver.assigned", webPage, nil)
	special("answered with another id", "trip.completed", otherID, nil)
	special("never answered", "fuel.recorded", silence, nil)
	special("payload is an array", "order.placed", acknowledge, func(s *sample) { s.payload = `["not", "an", "object"]` })
	special("payload has no aggregate", "order.placed", acknowledge, func(s *sample) {
		s.payload = `{"correlation_id": "c-9001", "data": {}}`
	})
	special("refused at its last attempt", "invoice.issued", refuse, func(s *sample) {
		s.attempts, s.due = lastAttempt, after(-3*time.Second)
		s.code, s.lastError = outbox.RemoteReportedFailure, "HTTP 200 OK: the workflow answered ok: false"
	})
	special("its worker died", "trip.completed", acknowledge, func(s *sample) {
		s.status, s.due = outbox.Delivering, after(-time.Minute)
		s.claimed()
	})
	special("its worker died twice", "trip.completed", acknowledge, func(s *sample) {
		s.status, s.due, s.lostLeases = outbox.Delivering, after(-time.Minute), 1
		s.claimed()
	})
	special("its worker died five times", "vehicle.serviced", acknowledge, func(s *sample) {
		s.status, s.due, s.lostLeases = outbox.Delivering, after(-time.Minute), 4
		s.claimed()
	})
	special("another worker is at it", "driver.assigned", acknowledge, func(s *sample) {
		s.status, s.due = outbox.Delivering, after(10*time.Minute)
		s.claimed()
	})
	special("parked by a person", "order.placed", acknowledge, func(s *sample) { s.status = outbox.Delivering })
	special("due in 5 s", "geofence.entered", acknowledge, func(s *sample) { s.due = after(5 * time.Second) })
	special("due in an hour", "vehicle.serviced", acknowledge, func(s *sample) { s.due = after(time.Hour) })
	special("delivered before", "order.placed", acknowledge, func(s *sample) {
		s.status, s.attempts, s.runID = outbox.Succeeded, 1, "998"
	})
	special("another program's status", "order.placed", acknowledge, func(s *sample) { s.status = "paused" })

	for i := range all {
		s := &all[i]
		s.id = sampleID(i)
		if s.status == "" {
			s.status = outbox.Pending
		}
		// Good and special ones alternate by their age, the oldest is a good one.
		if i < len(good) {
			s.age = time.Hour - time.Duration(4*i)*time.Minute
		} else {
			s.age = 58*time.Minute - time.Duration(3*(i-len(good)))*time.Minute
		}
	}
	return all
}

// claimed puts the claim token of a worker into the payload.
func (s *sample) claimed() {
	s.payload = fmt.Sprintf(`{"%s": "3f0c5a7e-0000-4000-8000-000000000000", %s`, outbox.TokenKey, s.payload[1:])
}

// payload is what the service writes: correlation_id, aggregate and data, with
// the reply in the data.
func payload(kind, id, data string, r reply) string {
	text, _ := json.Marshal(r) // a string always encodes
	return fmt.Sprintf(`{"correlation_id": "c-%s", "aggregate": {"type": %q, "id": %q}, "data": {"demo_reply": %s, %s}`,
		id, kind, id, text, data[1:])
}

// sampleID is a UUID made of the number of the sample.
func sampleID(i int) string {
	b := sha256.Sum256(fmt.Appendf(nil, "outbox-dispatcher demo, sample %d", i))
	b[6] = b[6]&0x0f | 0x80 // version 8: made by a rule of our own
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
