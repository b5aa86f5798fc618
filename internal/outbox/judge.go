package outbox

import (
	"fmt"
	"net/http"
	"time"
)

// Answer is what came back for one POST.
type Answer struct {
	Host       string        // of the webhook, for people; nothing else of the URL
	HTTPStatus int           // 0: nothing came back
	Body       []byte        // at most MaxAnswerBytes+1 bytes, unpacked
	Fault      string        // what went wrong on the way, in words; empty if the answer was read whole
	Excerpt    func() string // a short piece of the body for people, free of secrets; nil: none. Asked for only where the answer is no acknowledgement
	RetryAfter time.Duration // what a 429 or 503 asked for; 0 if nothing
}

// Signal is what an answer says of the endpoint, for the pace of the POSTs.
type Signal int

const (
	// Healthy: n8n acknowledged.
	Healthy Signal = iota
	// EventFault: n8n is there and this event is what fails.
	EventFault
	// EndpointFault: any other event would have met the same.
	EndpointFault
)

// Verdict is what an answer means.
type Verdict struct {
	Code       Code          // empty: acknowledged
	Text       string        // for last_error; empty if acknowledged
	RunID      string        // n8n's execution id if acknowledged
	Signal     Signal        // for the pace
	RetryAfter time.Duration // lengthens the delay before the next attempt; 0 if not asked for
	HTTPStatus int           // 0: nothing came back, or nothing was sent
}

// Judge tells what an answer means for the event. It never looks at the
// Content-Type: n8n labels empty answers JSON and plain ones HTML.
func Judge(eventID string, a Answer) Verdict {
	v := Verdict{Code: ConnectionError, Signal: EndpointFault, RetryAfter: a.RetryAfter, HTTPStatus: a.HTTPStatus}
	switch {
	case a.HTTPStatus == 0:
		v.Text = fmt.Sprintf("no answer from %s: %s", a.Host, a.Fault)
	case a.HTTPStatus < 200 || a.HTTPStatus > 299:
		v.Signal = statusSignal(a.HTTPStatus)
		v.Text = says(a, "answered with an error")
	case a.Fault != "":
		v.Text = says(a, a.Fault)
	case len(a.Body) > MaxAnswerBytes:
		v.Code, v.Signal = MalformedResponse, EventFault
		v.Text = says(a, fmt.Sprintf("the answer is too large: more than %d bytes", MaxAnswerBytes))
	default:
		runID, code, reason, jsonFault := acknowledgement(eventID, a.Body)
		if code == "" {
			return Verdict{RunID: runID, Signal: Healthy, HTTPStatus: a.HTTPStatus}
		}
		v.Code, v.Signal = code, EventFault
		if jsonFault { // n8n answers 200 with a text while it starts up
			v.Signal = EndpointFault
		}
		v.Text = says(a, reason)
	}
	v.Text = Clean(v.Text)
	return v
}

// says tells host, status, reason and the start of the answer in one line.
func says(a Answer, reason string) string {
	s := fmt.Sprintf("HTTP %d", a.HTTPStatus)
	if name := http.StatusText(a.HTTPStatus); name != "" {
		s += " " + name
	}
	s += " from " + a.Host + ": " + reason
	if a.Excerpt == nil {
		return s
	}
	if excerpt := a.Excerpt(); excerpt != "" {
		s += ": " + excerpt
	}
	return s
}

// statusSignal tells whether a status is the endpoint's fault. 404 is a webhook
// that is not registered, 401 and 403 a refused token, 520 to 524 an edge that
// does not reach n8n. A 500 comes from the workflow of this very event.
func statusSignal(status int) Signal {
	switch status {
	case 401, 403, 404, 429, 502, 503, 504, 520, 521, 522, 523, 524:
		return EndpointFault
	}
	return EventFault
}

// Unusable is the verdict on an event for which nothing can be sent.
func Unusable(reason string) Verdict {
	return Verdict{Code: MalformedPayload, Text: Clean(reason), Signal: EventFault}
}

// Unknown is the verdict on an attempt that broke in a way of its own.
func Unknown(what string) Verdict {
	return Verdict{Code: UnknownError, Text: Clean(what), Signal: EventFault}
}
