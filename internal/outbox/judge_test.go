package outbox_test

import (
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// What is written to last_error, and what of it goes to the log.
func TestJudgeSaysWhatHappened(t *testing.T) {
	t.Parallel()
	quote := func() string { return "its answer" }
	for _, c := range []struct {
		name          string
		answer        outbox.Answer
		text, summary string // no summary: the text
	}{
		{"NoAnswer", outbox.Answer{Fault: "connection refused"}, "no answer from n8n.example: connection refused", ""},
		{"Status", outbox.Answer{HTTPStatus: 502}, "HTTP 502 Bad Gateway from n8n.example: answered with an error", ""},
		{"StatusWithAPage", outbox.Answer{HTTPStatus: 502, Excerpt: quote}, "HTTP 502 Bad Gateway from n8n.example: answered with an error: its answer", "HTTP 502 Bad Gateway from n8n.example: answered with an error"},
		{"StatusOfAVendor", outbox.Answer{HTTPStatus: 530}, "HTTP 530 from n8n.example: answered with an error", ""},
		{"StatusThatBrokeOff", outbox.Answer{HTTPStatus: 500, Fault: "the answer broke off"}, "HTTP 500 Internal Server Error from n8n.example: answered with an error", ""},
		{"Redirect", outbox.Answer{HTTPStatus: 302, RedirectTo: "https://login.example", Excerpt: quote}, "HTTP 302 Found from n8n.example: redirects to https://login.example", ""},
		{"RedirectToNowhere", outbox.Answer{HTTPStatus: 304, Excerpt: quote}, "HTTP 304 Not Modified from n8n.example: a redirect that names no host", ""},
		{"BrokeOff", outbox.Answer{HTTPStatus: 200, Body: []byte(good), Fault: "the answer broke off: timeout"}, "HTTP 200 OK from n8n.example: the answer broke off: timeout", ""},
		{"NoAcknowledgement", outbox.Answer{HTTPStatus: 200, Body: []byte("<html>"), Excerpt: quote}, "HTTP 200 OK from n8n.example: the answer is not JSON: its answer", "HTTP 200 OK from n8n.example: the answer is not JSON"},
		{"NothingToQuote", outbox.Answer{HTTPStatus: 204, Excerpt: func() string { return "" }}, "HTTP 204 No Content from n8n.example: the answer is empty: the workflow ended before Respond to Webhook", ""},
		{"Acknowledged", outbox.Answer{HTTPStatus: 299, Body: []byte(good), Excerpt: func() string { panic("asked for") }}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.answer.Host = "n8n.example"
			if c.summary == "" {
				c.summary = c.text
			}
			v := outbox.Judge(ours, c.answer)
			if v.Text != c.text || v.Summary != c.summary || v.HTTPStatus != c.answer.HTTPStatus {
				t.Errorf("%+v\nwant %q\nand  %q", v, c.text, c.summary)
			}
		})
	}
}

// Faults of a 2xx and of the way to it: whose they are, and which are a guess.
func TestJudgeTellsAnUnknownPageFromACertainFault(t *testing.T) {
	t.Parallel()
	const guess = true
	for _, c := range []struct {
		name   string
		answer outbox.Answer
		signal outbox.Signal
		page   bool
	}{
		{"NoAnswer", outbox.Answer{Fault: "connection refused"}, outbox.EndpointFault, false},
		{"BrokeOff", outbox.Answer{HTTPStatus: 200, Body: []byte(good), Fault: "the answer broke off"}, outbox.EndpointFault, false},
		{"Acknowledged", outbox.Answer{HTTPStatus: 200, Body: []byte(good)}, outbox.Healthy, false},

		{"HTML", outbox.Answer{HTTPStatus: 200, Body: []byte("<html>")}, outbox.EndpointFault, guess},
		{"StartingUp", outbox.Answer{HTTPStatus: 200, Body: []byte("n8n is starting up. Please wait")}, outbox.EndpointFault, guess},
		{"Text", outbox.Answer{HTTPStatus: 200, Body: []byte("OK")}, outbox.EndpointFault, guess},
		{"Empty", outbox.Answer{HTTPStatus: 200}, outbox.EventFault, guess},
		{"NoContent", outbox.Answer{HTTPStatus: 204}, outbox.EventFault, guess},
		{"List", outbox.Answer{HTTPStatus: 200, Body: []byte("[]")}, outbox.EventFault, guess},
		{"Null", outbox.Answer{HTTPStatus: 200, Body: []byte("null")}, outbox.EventFault, guess},
		{"WithoutOK", outbox.Answer{HTTPStatus: 200, Body: []byte(`{"message":"Workflow was started"}`)}, outbox.EventFault, guess},
		{"OKOfAnotherType", outbox.Answer{HTTPStatus: 200, Body: []byte(`{"ok":"true"}`)}, outbox.EventFault, guess},
		{"TooLarge", outbox.Answer{HTTPStatus: 200, Body: []byte(good + strings.Repeat(" ", outbox.MaxAnswerBytes))}, outbox.EventFault, guess},

		{"Refused", outbox.Answer{HTTPStatus: 200, Body: []byte(`{"ok":false}`)}, outbox.EventFault, false},
		{"AnotherEvent", outbox.Answer{HTTPStatus: 200, Body: []byte(`{"ok":true}`)}, outbox.EventFault, false},
		{"NoExecution", outbox.Answer{HTTPStatus: 200, Body: []byte(ack("7"))}, outbox.EventFault, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if v := outbox.Judge(ours, c.answer); v.Signal != c.signal || v.UnknownPage != c.page {
				t.Errorf("signal %d, unknown page %v; want %d, %v", v.Signal, v.UnknownPage, c.signal, c.page)
			}
		})
	}
}

func TestJudgePassesRetryAfterOn(t *testing.T) {
	t.Parallel()
	for _, a := range []outbox.Answer{{HTTPStatus: 503}, {HTTPStatus: 200, Body: []byte(`{"ok":false}`)}, {Fault: "timeout"}} {
		a.RetryAfter = 2 * time.Minute
		if v := outbox.Judge(ours, a); v.RetryAfter != a.RetryAfter {
			t.Errorf("HTTP %d: %v", a.HTTPStatus, v.RetryAfter)
		}
	}
}

// Every text is one clean line, whatever host, fault, redirect and excerpt hold.
func TestVerdictsAreOneLine(t *testing.T) {
	t.Parallel()
	nasty := "a\x00b\r\nc\u2028d\u202ee\xff" + strings.Repeat("😀", 5000)
	quote := func() string { return nasty }
	for _, v := range []outbox.Verdict{
		outbox.Judge(ours, outbox.Answer{Host: nasty, Fault: nasty}),
		outbox.Judge(ours, outbox.Answer{Host: nasty, HTTPStatus: 302, RedirectTo: nasty}),
		outbox.Judge(ours, outbox.Answer{Host: nasty, HTTPStatus: 500, Excerpt: quote}),
		outbox.Judge(ours, outbox.Answer{Host: nasty, HTTPStatus: 200, Fault: nasty, Excerpt: quote}),
		outbox.Judge(ours, outbox.Answer{Host: nasty, HTTPStatus: 200, Body: []byte("<"), Excerpt: quote}),
		outbox.Unusable(nasty),
		outbox.Unknown(nasty),
	} {
		checkClean(t, v.Text, outbox.MaxErrorRunes)
		checkClean(t, v.Summary, outbox.MaxErrorRunes)
	}
}

func TestVerdictsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	if v := outbox.Unusable("lacks data"); v != (outbox.Verdict{Code: outbox.MalformedPayload, Text: "lacks data", Summary: "lacks data", Signal: outbox.EventFault}) {
		t.Errorf("unusable: %+v", v)
	}
	if v := outbox.Unknown("broke"); v != (outbox.Verdict{Code: outbox.UnknownError, Text: "broke", Summary: "broke", Signal: outbox.EventFault}) {
		t.Errorf("unknown: %+v", v)
	}
}

func BenchmarkJudge(b *testing.B) {
	for name, body := range map[string]string{"AsOurWorkflowResponds": good, "AnotherForm": " " + good} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			a := outbox.Answer{Host: "n8n.example", HTTPStatus: 200, Body: []byte(body)}
			for b.Loop() {
				if outbox.Judge(ours, a).Code != "" {
					b.Fatal("not acknowledged")
				}
			}
		})
	}
}
