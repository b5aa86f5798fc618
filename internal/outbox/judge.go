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
	Body       []byte        // at most MaxAnswerBytes+1 bytes, decompressed
	Fault      string        // what went wrong on the way, in words; empty if the answer was read whole
	RedirectTo string        // scheme and host that a 3xx points to, without path and query; empty: none that can be shown
	Excerpt    func() string // a short piece of the body for people, without secrets and values of the event; nil: none. Called only where the answer is not an acknowledgement
	RetryAfter time.Duration // what a 429 or 503 asked for; 0 if nothing
}

// Signal is what an answer says about the endpoint, for the pace of the POSTs.
type Signal int

const (
	// Healthy: n8n acknowledged.
	Healthy Signal = iota
	// EventFault: n8n is there, and this event is what fails.
	EventFault
	// EndpointFault: any other event would have met the same.
	EndpointFault
)

// Verdict is what an answer means.
type Verdict struct {
	Code    Code   // empty: acknowledged
	Text    string // for last_error; empty if acknowledged
	Summary string // Text without the excerpt of the answer: for logs and traces, which more people read and which outlive the row
	RunID   string // n8n's execution id if acknowledged
	Signal  Signal // for the pace
	// UnknownPage marks a Signal that is a guess: a 2xx that no workflow of the
	// kind we ask for wrote, such as HTML, text, nothing at all, or JSON without
	// ok: true or false. See Judge.
	UnknownPage bool
	RetryAfter  time.Duration // lengthens the delay before the next attempt; 0 if not asked for
	HTTPStatus  int           // 0: nothing came back, or nothing was sent
}

// Judge decides what an answer means for the event, and whose fault a failure is:
//
//   - The endpoint's for certain: no answer, an answer that broke off, and the
//     statuses that Statuses gives to the endpoint. The text of a redirect names
//     the host it points to.
//   - The event's own for certain: the statuses that Statuses gives to the event,
//     and each 2xx in which a workflow reports ok: true or false and which still
//     does not acknowledge this event.
//   - Either, an UnknownPage: any other 2xx. A login page, a proxy's own page or n8n
//     starting up answers every event so, and so does one workflow that ends
//     without Respond to Webhook or responds with something else. The answer alone
//     cannot tell them apart; what else was acknowledged meanwhile can. Signal
//     then holds the more likely case: the endpoint for what is not JSON at all
//     (n8n itself answers 200 with a text while it starts up), the event for the
//     rest (an empty answer is a workflow that died before it responded).
//
// It never reads the Content-Type: n8n labels empty answers JSON and text HTML.
func Judge(eventID string, a Answer) Verdict {
	v := Verdict{Code: ConnectionError, Signal: EndpointFault, RetryAfter: a.RetryAfter, HTTPStatus: a.HTTPStatus}
	var reason string
	switch {
	case a.HTTPStatus == 0:
		v.Summary = Clean("no answer from " + a.Host + ": " + a.Fault)
		v.Text = v.Summary
		return v
	case a.HTTPStatus >= 300 && a.HTTPStatus <= 399:
		a.Excerpt = nil // its page repeats the whole Location
		reason = "a redirect that names no host"
		if a.RedirectTo != "" {
			reason = "redirects to " + a.RedirectTo
		}
	case a.HTTPStatus < 200 || a.HTTPStatus > 299:
		v.Signal, reason = statusSignal(a.HTTPStatus), "answered with an error"
	case a.Fault != "":
		reason = a.Fault
	default:
		v, reason = acknowledgement(eventID, a.Body)
		v.HTTPStatus = a.HTTPStatus
		if v.Code == "" {
			return v
		}
		v.RetryAfter = a.RetryAfter
	}
	status := fmt.Sprintf("HTTP %d", a.HTTPStatus)
	if name := http.StatusText(a.HTTPStatus); name != "" {
		status += " " + name
	}
	text := status + " from " + a.Host + ": " + reason
	v.Summary = Clean(text)
	if a.Excerpt != nil {
		if excerpt := a.Excerpt(); excerpt != "" {
			text += ": " + excerpt
		}
	}
	v.Text = Clean(text)
	return v
}

// Unusable is the verdict on an event for which nothing can be sent.
func Unusable(reason string) Verdict { return ownFault(MalformedPayload, reason) }

// Unknown is the verdict on an attempt that broke in a way of its own.
func Unknown(what string) Verdict { return ownFault(UnknownError, what) }

func ownFault(code Code, text string) Verdict {
	text = Clean(text)
	return Verdict{Code: code, Text: text, Summary: text, Signal: EventFault}
}
