package n8n_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

const (
	short = 250 * time.Millisecond
	// late is when a POST is overdue: what these servers do takes ten seconds and
	// more, and a busy machine some hundred milliseconds.
	late = 3 * time.Second
)

// inTime runs a POST of 250 ms and checks that it ends by then.
func inTime(t *testing.T, post func() outbox.Answer) outbox.Answer {
	t.Helper()
	began := time.Now()
	a := post()
	if took := time.Since(began); took < short-20*time.Millisecond || took > late {
		t.Errorf("a POST of %v took %v", short, took)
	}
	return a
}

// The timeout is for the whole POST, however slowly it goes on.
func TestPostEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	slowly := strings.Repeat("x", 500)
	for name, c := range map[string]struct {
		answer n8ntest.Answer
		status int
		want   string
	}{
		"NoAnswer":          {n8ntest.Answer{Close: n8ntest.Never}, 0, "timeout: no complete answer within N8N_HTTP_TIMEOUT_SECONDS"},
		"LateAnswer":        {n8ntest.Answer{Delay: time.Minute, Body: n8ntest.Ack}, 0, "timeout: no complete answer within"},
		"DrippingHeaders":   {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nX-Pad: " + slowly, Drip: 20 * time.Millisecond}, 0, "timeout: no complete answer within"},
		"DrippingBody":      {n8ntest.Answer{Body: n8ntest.Ack + slowly, Drip: 20 * time.Millisecond}, 200, "broke off: timeout: no complete answer within"},
		"BodyThatStops":     {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", Close: n8ntest.Never}, 200, "broke off: timeout: no complete answer within"},
		"BodyThatNeverCame": {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", Close: n8ntest.Never}, 200, "broke off: timeout: no complete answer within"},
		"ChunksWithoutEnd":  {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Body: "1\r\n \r\n", Repeat: 100, Drip: 20 * time.Millisecond}, 200, "broke off: timeout: no complete answer within"},
		"DrippingGzip":      {n8ntest.Answer{Body: n8ntest.Ack + slowly, Pack: n8ntest.Gzip, Header: map[string]string{"Content-Encoding": "gzip"}, Drip: 20 * time.Millisecond}, 200, "broke off: timeout: no complete answer within"},
		"OnlyContinue":      {n8ntest.Answer{Raw: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 50), Drip: 10 * time.Millisecond}, 0, "timeout: no complete answer within"},
		// The status is the answer. What is missing of the page changes nothing.
		"DrippingErrorPage": {n8ntest.Answer{Status: 500, Body: slowly, Drip: 20 * time.Millisecond}, 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := n8ntest.New(t)
			s.Script(id(1), c.answer)
			w := newWebhook(t, s.URL(), timeout(short))
			a := inTime(t, func() outbox.Answer { return w.Post(t.Context(), token, envelope(1)) })
			if a.HTTPStatus != c.status || !strings.Contains(a.Fault, c.want) || (a.Fault == "") != (c.want == "") {
				t.Errorf("HTTP %d, fault %q; want %d, %q", a.HTTPStatus, a.Fault, c.status, c.want)
			}
			if v := outbox.Judge(id(1), a); v.Code != outbox.ConnectionError {
				t.Errorf("judged %q", v.Code)
			}
			if s.PostsOf(id(1)) != 1 {
				t.Errorf("%d POSTs", s.PostsOf(id(1)))
			}
		})
	}
}

func TestPostEndsAtItsTimeoutWithoutAReader(t *testing.T) {
	t.Parallel()
	silent := n8ntest.NewTCP(t, func(conn net.Conn, _ int) { _, _ = io.Copy(io.Discard, conn) })
	deaf := n8ntest.NewTCP(t, func(net.Conn, int) { <-t.Context().Done() }) // reads nothing at all
	for name, c := range map[string]struct {
		url  string
		body []byte
		want string
	}{
		"AcceptsAndNeverAnswers": {"http://" + silent.Address(), envelope(1), "timeout: no complete answer within"},
		"NeverReads":             {"http://" + deaf.Address(), large(1, 16<<20), "timeout: no complete answer within"},
		"NoTLSHandshake":         {"https://" + silent.Address(), envelope(1), "timeout: no connection within N8N_HTTP_TIMEOUT_SECONDS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebhook(t, c.url, timeout(short))
			faulty(t, inTime(t, func() outbox.Answer { return w.Post(t.Context(), token, c.body) }), c.want)
		})
	}
}
