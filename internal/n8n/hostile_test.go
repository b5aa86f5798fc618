package n8n_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

const endless = 1 << 50

// allocated returns how much f allocated, the server's part included: more than
// what memory can have risen by.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An answer costs little memory and ends, however much comes. Not parallel, since it
// measures.
func TestPostBoundsWhatAnAnswerCosts(t *testing.T) {
	const mebibytes = 1 << 20
	bomb := string(n8ntest.Gzip(make([]byte, 3*mebibytes/2)))          // some 1.5 KB
	parts := (10 * mebibytes) / len(bomb)                              // 10 MB that decompress to 10 GB
	bigBomb := string(n8ntest.Gzip([]byte(strings.Repeat(bomb, 200)))) // compressed twice
	for _, c := range []struct {
		name   string
		answer n8ntest.Answer
		status int
		text   string
	}{
		{"EndlessBody", n8ntest.Answer{Body: strings.Repeat("x", 64<<10), Repeat: endless}, 200, "too large: more than 1048576 bytes"},
		{"EndlessSpacesAfterAnAcknowledgement", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\n\r\n" + n8ntest.Ack, Body: strings.Repeat(" ", 64<<10), Repeat: endless}, 200, "too large"},
		{"EndlessErrorPage", n8ntest.Answer{Status: 500, Body: strings.Repeat("x", 64<<10), Repeat: endless}, 500, "answered with an error"},
		{"SaidToBeHuge", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", Body: strings.Repeat("x", 64<<10), Repeat: endless}, 200, "too large"},
		{"GzipBomb", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", Body: bomb, Repeat: parts}, 200, "too large"},
		{"GzipBombInAnError", n8ntest.Answer{Raw: "HTTP/1.1 500 Oh\r\nContent-Encoding: gzip\r\n\r\n", Body: bomb, Repeat: parts}, 500, "answered with an error"},
		{"GzipBombInAGzipBomb", n8ntest.Answer{Body: bigBomb, Header: map[string]string{"Content-Encoding": "gzip, gzip"}}, 200, "too large"},
		{"DeflateBomb", n8ntest.Answer{Body: string(n8ntest.Deflate(make([]byte, 3*mebibytes/2))), Header: map[string]string{"Content-Encoding": "deflate"}}, 200, "too large"},
		{"GzipThatNeverBegins", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff", Body: strings.Repeat("name", 16<<10), Repeat: endless}, 200, "the compressed answer is invalid"},
		{"EndlessHeaders", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\n", Body: "X-Pad: " + strings.Repeat("x", 1000) + "\r\n", Repeat: endless}, 0, "no answer"},
		{"EndlessHeader", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nX-Pad: ", Body: strings.Repeat("x", 1000), Repeat: endless}, 0, "no answer"},
		{"EndlessStatusLine", n8ntest.Answer{Raw: "HTTP/1.1 200 ", Body: strings.Repeat("x", 1000), Repeat: endless}, 0, "no answer"},
		{"EndlessEarlyHints", n8ntest.Answer{Raw: "HTTP/1.1 103 Early Hints\r\n\r\n", Body: "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", Repeat: endless}, 0, "no answer"},
		{"EndlessChunkExtension", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", Body: strings.Repeat("x", 1000), Repeat: endless}, 200, "broke off"},
		{"EndlessTrailer", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", Body: "X-Pad: x\r\n", Repeat: endless}, 200, "broke off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := n8ntest.New(t)
			s.Script(id(1), c.answer)
			w := newWebhook(t, s.URL())
			var a outbox.Answer
			began := time.Now()
			cost := allocated(func() { a = w.Post(t.Context(), token, envelope(1)) })
			if cost > 20*mebibytes {
				t.Errorf("%d MiB were allocated", cost/mebibytes)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			v := outbox.Judge(id(1), a)
			if a.HTTPStatus != c.status || !strings.Contains(v.Text, c.text) || v.Code == "" {
				t.Errorf("HTTP %d, %q: %s; want %d, %q", a.HTTPStatus, v.Code, v.Text, c.status, c.text)
			}
			if strings.Contains(v.Text, "timeout") {
				t.Errorf("ended by its timeout only: %s", v.Text)
			}
			acknowledged(t, w.Post(t.Context(), token, envelope(2)), 2) // the others go out
		})
	}
}

// As many headers as a chain of proxies can add, and then some.
func TestPostReadsThousandsOfHeaders(t *testing.T) {
	t.Parallel()
	var headers strings.Builder
	headers.WriteString("HTTP/1.1 200 OK\r\n")
	for n := range 3000 {
		fmt.Fprintf(&headers, "X-Header-%d: value-%d\r\n", n, n)
	}
	for n := range 200 {
		fmt.Fprintf(&headers, "Set-Cookie: c%d=%s\r\n", n, strings.Repeat("v", 200))
	}
	s := n8ntest.New(t)
	s.ScriptAll(n8ntest.Answer{Raw: headers.String() + "\r\n" + n8ntest.Ack})
	acknowledged(t, newWebhook(t, s.URL()).Post(t.Context(), token, envelope(1)), 1)
}

// Answers of class 1xx announce another one. 101 does not: what follows is not HTTP and
// has no end.
func TestPostReadsPastInformation(t *testing.T) {
	t.Parallel()
	ok := "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + n8ntest.Ack
	for name, c := range map[string]struct {
		answer n8ntest.Answer
		status int
	}{
		"Continue":          {n8ntest.Answer{Raw: "HTTP/1.1 100 Continue\r\n\r\n" + ok}, 200},
		"Processing":        {n8ntest.Answer{Raw: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20) + ok}, 200},
		"EarlyHints":        {n8ntest.Answer{Raw: "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok}, 200},
		"Unknown":           {n8ntest.Answer{Raw: "HTTP/1.1 199 What\r\n\r\n" + ok}, 200},
		"ContinueThen404":   {n8ntest.Answer{Raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 404},
		"ContinueAlone":     {n8ntest.Answer{Raw: "HTTP/1.1 100 Continue\r\n\r\n"}, 0},
		"SwitchingAlone":    {n8ntest.Answer{Raw: "HTTP/1.1 101 Switching Protocols\r\n\r\n", Close: n8ntest.Never}, 101},
		"SwitchingToSocket": {n8ntest.Answer{Raw: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", Close: n8ntest.Never}, 101},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := n8ntest.New(t)
			s.Script(id(1), c.answer)
			w := newWebhook(t, s.URL(), timeout(5*time.Second))
			began := time.Now()
			a := w.Post(t.Context(), token, envelope(1))
			if c.status == 200 {
				acknowledged(t, a, 1)
			} else if v := outbox.Judge(id(1), a); a.HTTPStatus != c.status || v.Code != outbox.ConnectionError || v.Text == "" {
				t.Errorf("HTTP %d, %+v", a.HTTPStatus, v)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("took %v", took)
			}
			acknowledged(t, w.Post(t.Context(), token, envelope(2)), 2)
		})
	}
}
