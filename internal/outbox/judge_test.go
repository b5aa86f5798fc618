package outbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

func TestJudgeTellsTheStatus(t *testing.T) {
	t.Parallel()
	for status := 100; status <= 999; status++ {
		v := outbox.Judge(ours, outbox.Answer{Host: "n8n.example", HTTPStatus: status, Body: []byte(good), Excerpt: func() string { return "its answer" }})
		if status >= 200 && status <= 299 {
			if v.Code != "" || v.RunID != "run-1" || v.Signal != outbox.Healthy {
				t.Errorf("HTTP %d with an acknowledgement: %+v", status, v)
			}
			continue
		}
		if v.Code != outbox.ConnectionError || v.RunID != "" || v.Signal == outbox.Healthy || v.HTTPStatus != status {
			t.Errorf("HTTP %d: %+v", status, v)
		}
		want := strings.TrimRight(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)), " ") + " from n8n.example: answered with an error: its answer"
		if v.Text != want {
			t.Errorf("HTTP %d: text %q, want %q", status, v.Text, want)
		}
	}
}

// Which faults are the endpoint's, and which the event's own.
func TestJudgeTellsWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) outbox.Answer {
		return outbox.Answer{Host: "h", HTTPStatus: status, Body: []byte(body)}
	}
	endpoint := map[string]outbox.Answer{
		"no answer":   {Host: "h", Fault: "connection refused"},
		"broken off":  {Host: "h", HTTPStatus: 200, Body: []byte(good), Fault: "the answer broke off"},
		"starting up": answer(200, "n8n is starting up. Please wait"),
		"token":       answer(403, "Authorization data is wrong!"),
	}
	for _, status := range []int{401, 403, 404, 429, 502, 503, 504, 520, 521, 522, 523, 524} {
		endpoint[fmt.Sprint("HTTP ", status)] = answer(status, "")
	}
	for name, a := range endpoint {
		if v := outbox.Judge(ours, a); v.Signal != outbox.EndpointFault {
			t.Errorf("%s: signal %d, want the endpoint's fault", name, v.Signal)
		}
	}
	own := map[string]outbox.Answer{
		"refused": answer(200, `{"ok":false}`), "empty": answer(200, ""), "a list": answer(200, "[]"),
		"another id": answer(200, `{"ok":true}`), "no execution": answer(200, ack("7")),
		"too large": answer(200, good+strings.Repeat(" ", outbox.MaxAnswerBytes)),
	}
	for _, status := range []int{300, 301, 302, 307, 400, 405, 409, 410, 413, 415, 422, 500, 501, 505, 599, 999} {
		own[fmt.Sprint("HTTP ", status)] = answer(status, "")
	}
	for name, a := range own {
		if v := outbox.Judge(ours, a); v.Signal != outbox.EventFault {
			t.Errorf("%s: signal %d, want the event's fault", name, v.Signal)
		}
	}
}

func TestJudgePassesOnWhatRetryAfterAskedFor(t *testing.T) {
	t.Parallel()
	v := outbox.Judge(ours, outbox.Answer{HTTPStatus: 503, RetryAfter: 2 * time.Minute})
	if v.RetryAfter != 2*time.Minute {
		t.Errorf("got %v", v.RetryAfter)
	}
}

// The text is one clean line, whatever host, fault and excerpt hold.
func TestJudgeTellsInOneLine(t *testing.T) {
	t.Parallel()
	nasty := "a\x00b\r\nc\u2028d\u202ee\xff" + strings.Repeat("😀", 5000)
	for _, a := range []outbox.Answer{
		{Host: nasty, Fault: nasty},
		{Host: nasty, HTTPStatus: 500, Excerpt: func() string { return nasty }},
		{Host: nasty, HTTPStatus: 200, Fault: nasty, Excerpt: func() string { return nasty }},
		{Host: nasty, HTTPStatus: 200, Body: []byte("<"), Excerpt: func() string { return nasty }},
	} {
		checkClean(t, outbox.Judge(ours, a).Text, outbox.MaxErrorRunes)
	}
	checkClean(t, outbox.Unusable(nasty).Text, outbox.MaxErrorRunes)
	checkClean(t, outbox.Unknown(nasty).Text, outbox.MaxErrorRunes)
}

func TestVerdictsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	if v := outbox.Unusable("lacks data"); v.Code != outbox.MalformedPayload || v.Text != "lacks data" || v.Signal != outbox.EventFault || v.HTTPStatus != 0 {
		t.Errorf("unusable: %+v", v)
	}
	if v := outbox.Unknown("broke"); v.Code != outbox.UnknownError || v.Text != "broke" || v.Signal != outbox.EventFault {
		t.Errorf("unknown: %+v", v)
	}
	v := outbox.Judge(ours, outbox.Answer{Host: "n8n.example", Fault: "connection refused"})
	if v.Code != outbox.ConnectionError || v.Text != "no answer from n8n.example: connection refused" {
		t.Errorf("no answer: %+v", v)
	}
}
