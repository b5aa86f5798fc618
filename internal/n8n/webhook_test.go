package n8n_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/n8n/n8ntest"
	"outbox-dispatcher/internal/outbox"
)

const token = "s3cr3t-token"

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// envelope is a body that n8ntest finds the id of an event in.
func envelope(n int) []byte {
	return fmt.Appendf(nil, `{"event_id":"%s","event_type":"t","data":{"n":9007199254740993}}`, id(n))
}

// large is a body of about so many bytes.
func large(n, size int) []byte {
	return fmt.Appendf(nil, `{"event_id":"%s","data":"%s"}`, id(n), strings.Repeat("x", size))
}

// option changes the options of a webhook.
type option func(*n8n.Options)

func timeout(d time.Duration) option { return func(o *n8n.Options) { o.Timeout = d } }
func trust(c *tls.Config) option     { return func(o *n8n.Options) { o.TLS = c } }

func newWebhook(t testing.TB, target string, options ...option) *n8n.Webhook {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	o := n8n.Options{URL: u, Timeout: 10 * time.Second, Connections: 10}
	for _, set := range options {
		set(&o)
	}
	w := n8n.New(o)
	t.Cleanup(w.CloseIdle)
	return w
}

// acknowledged checks that an answer acknowledges event n.
func acknowledged(t *testing.T, a outbox.Answer, n int) {
	t.Helper()
	if v := outbox.Judge(id(n), a); v.Code != "" {
		t.Errorf("event %d was not acknowledged: %s", n, v.Text)
	}
}

// faulty checks that no answer came, or none that is whole, and why.
func faulty(t *testing.T, a outbox.Answer, want string) {
	t.Helper()
	if !strings.Contains(a.Fault, want) || a.Fault == "" {
		t.Errorf("HTTP %d with the fault %q, want %q in it", a.HTTPStatus, a.Fault, want)
	}
	if v := outbox.Judge(id(1), a); v.Code != outbox.ConnectionError {
		t.Errorf("judged %q", v.Code)
	}
}

// request reads one request from a bare connection, its body whole.
func request(r *bufio.Reader) (*http.Request, []byte, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(req.Body)
	return req, body, err
}

// okAnswer is a whole answer that acknowledges the event of a body.
func okAnswer(body []byte) string {
	ack := strings.ReplaceAll(n8ntest.Ack, "{{id}}", string(body[len(`{"event_id":"`):][:36]))
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(ack), ack)
}

func TestPostIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	s.RequireToken(token)
	a := newWebhook(t, s.URL()).Post(t.Context(), token, envelope(1))
	acknowledged(t, a, 1)
	if a.Host != s.Address() || a.HTTPStatus != 200 || a.RetryAfter != 0 {
		t.Errorf("answer %+v", a)
	}
}

// The bytes on the wire: these headers and no other.
func TestPostSendsExactlyThis(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := n8ntest.NewTCP(t, func(conn net.Conn, _ int) {
		var all bytes.Buffer
		_, body, err := request(bufio.NewReader(io.TeeReader(conn, &all)))
		if err != nil {
			t.Error(err)
			return
		}
		got <- all.String()
		_, _ = io.WriteString(conn, okAnswer(body))
	})
	body := append(envelope(1), "  é😀\xff \r\n"...)
	newWebhook(t, "http://"+s.Address()+"/webhook/a%2Fb%20c?x=1&y=%C3%BC#part").Post(t.Context(), token, body)
	want := "POST /webhook/a%2Fb%20c?x=1&y=%C3%BC HTTP/1.1\r\n" +
		"Host: " + s.Address() + "\r\n" +
		"User-Agent: outbox-dispatcher\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n", len(body)) +
		"Content-Type: application/json\r\n" +
		"X-Fleet-Ops-Trigger-Token: " + token + "\r\n\r\n" + string(body)
	if all := <-got; all != want {
		t.Errorf("sent %q\nwant %q", all, want)
	}
}

func TestPostSendsTheBodyByteForByte(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, body := range [][]byte{envelope(0), large(1, 100), large(2, 5000), large(3, 1<<20), append(envelope(4), 0, 0xff, '\r', '\n')} {
		a := w.Post(t.Context(), token, body)
		acknowledged(t, a, n)
		p := s.Posts()[n]
		if !bytes.Equal(p.Body, body) || p.Length != int64(len(body)) {
			t.Errorf("event %d: %d bytes arrived of %d, Content-Length %d", n, len(p.Body), len(body), p.Length)
		}
		if types := p.Header.Values("Content-Type"); !slices.Equal(types, []string{"application/json"}) {
			t.Errorf("Content-Type %q", types)
		}
		names := slices.Sorted(maps.Keys(p.Header))
		if !slices.Equal(names, []string{"Content-Length", "Content-Type", "Host", "User-Agent", "X-Fleet-Ops-Trigger-Token"}) {
			t.Errorf("headers %v", names)
		}
	}
}

func TestPostAuthenticatesWithTheUserPart(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	for n, c := range []struct{ user, want string }{
		{"", ""},
		{"@", ""},
		{":@", ""},
		{"bot:hunter2@", "bot:hunter2"},
		{"bot@", "bot:"},
		{":hunter2@", ":hunter2"},
		{"b%40t:p%3Ass%2F%C3%A9@", "b@t:p:ss/é"},
		{"bot:a%20b+c@", "bot:a b+c"},
	} {
		target := strings.Replace(s.URL(), "//", "//"+c.user, 1)
		acknowledged(t, newWebhook(t, target).Post(t.Context(), token, envelope(n)), n)
		p := s.Posts()[n]
		want := []string(nil)
		if c.want != "" {
			want = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(c.want))}
		}
		if got := p.Header.Values("Authorization"); !slices.Equal(got, want) {
			t.Errorf("user part %q: %q, want %q", c.user, got, want)
		}
		if p.Target != n8ntest.Path || p.Header.Get("Host") != s.Address() {
			t.Errorf("user part %q shows in %q or %q", c.user, p.Target, p.Header.Get("Host"))
		}
	}
}

func TestPostSendsTheTokenAsItIs(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, tok := range []string{"a b\tc", "clé", `~!@#$%^&*()_+{}|:"<>?-=[]\;',./`, strings.Repeat("x", 8000)} {
		acknowledged(t, w.Post(t.Context(), tok, envelope(n)), n)
		if got := s.Posts()[n].Token(); got != tok {
			t.Errorf("token %q arrived as %q", tok, got)
		}
	}
	// One that is no header value is a fault, sends nothing and shows nothing.
	a := w.Post(t.Context(), "bad\r\nX-Evil: 1", envelope(9))
	if a.Fault == "" || strings.Contains(a.Fault+a.Excerpt, "Evil") || s.PostsOf(id(9)) != 0 {
		t.Errorf("%+v, %d posts", a, s.PostsOf(id(9)))
	}
}

func TestPostReadsTheStatus(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, c := range []struct {
		answer n8ntest.Answer
		status int
		text   string
	}{
		{n8ntest.Answer{Status: 500, Body: `{"message":"Error in workflow"}`}, 500, `HTTP 500 Internal Server Error from ` + s.Address() + `: answered with an error: {"message":"Error in workflow"}`},
		{n8ntest.Answer{Status: 404}, 404, `HTTP 404 Not Found from ` + s.Address() + `: answered with an error`},
		{n8ntest.Answer{Status: 599, Body: n8ntest.Ack}, 599, `HTTP 599 from`},
		{n8ntest.Answer{Status: 999, Body: n8ntest.Ack}, 999, `HTTP 999 from`},
		{n8ntest.Answer{Raw: "HTTP/1.1 404\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 404, `HTTP 404 Not Found`},
		{n8ntest.Answer{Raw: "HTTP/1.1 404 pas trouv\xc3\xa9\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 404, `HTTP 404 Not Found`},
		{n8ntest.Answer{Raw: "HTTP/1.1 404 \x00\x1b[31m\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 404, `HTTP 404 Not Found`},
		{n8ntest.Answer{Raw: "HTTP/1.1 99 Low\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 099 Low\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 000 None\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 +20 Plus\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 2000 Long\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 abc\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "220 mail.example ESMTP\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"}, 0, `the answer is not proper HTTP`},
	} {
		s.Script(id(n), c.answer)
		a := w.Post(t.Context(), token, envelope(n))
		if v := outbox.Judge(id(n), a); a.HTTPStatus != c.status || !strings.Contains(v.Text, c.text) || v.Code != outbox.ConnectionError {
			t.Errorf("%q %d: HTTP %d, %q %q; want %d, %q", c.answer.Raw, c.answer.Status, a.HTTPStatus, v.Code, v.Text, c.status, c.text)
		}
		if s.PostsOf(id(n)) != 1 {
			t.Errorf("%q: %d posts", c.answer.Raw, s.PostsOf(id(n)))
		}
	}
}

func TestPostAcceptsEveryFormOfAnAnswer(t *testing.T) {
	t.Parallel()
	chunk := func(n int, extension string) string {
		ack := strings.ReplaceAll(n8ntest.Ack, "{{id}}", id(n))
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n%x%s\r\n%s\r\n0\r\n\r\n", len(ack), extension, ack)
	}
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, c := range []struct {
		name   string
		answer n8ntest.Answer
	}{
		{"201", n8ntest.Answer{Status: 201, Body: n8ntest.Ack}},
		{"202", n8ntest.Answer{Status: 202, Body: n8ntest.Ack}},
		{"203", n8ntest.Answer{Status: 203, Body: n8ntest.Ack}},
		{"206", n8ntest.Answer{Status: 206, Body: n8ntest.Ack}},
		{"299", n8ntest.Answer{Status: 299, Body: n8ntest.Ack}},
		{"AnotherContentType", n8ntest.Answer{Body: n8ntest.Ack, Header: map[string]string{"Content-Type": "application/octet-stream"}}},
		{"UnknownCharset", n8ntest.Answer{Body: n8ntest.Ack, Header: map[string]string{"Content-Type": "application/json; charset=nonsense"}}},
		{"NoContentType", n8ntest.Answer{Body: n8ntest.Ack, Header: map[string]string{"Content-Type": ""}}},
		{"HTTP10UntilClose", n8ntest.Answer{Raw: "HTTP/1.0 200 OK\r\n\r\n" + n8ntest.Ack}},
		{"HTTP11UntilClose", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + n8ntest.Ack}},
		{"Chunked", n8ntest.Answer{Raw: chunk(10, "")}},
		{"ChunkedWithExtension", n8ntest.Answer{Raw: chunk(11, ";ext=1")}},
		{"Dripping", n8ntest.Answer{Body: n8ntest.Ack, Drip: time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Script(id(n), c.answer)
			acknowledged(t, w.Post(t.Context(), token, envelope(n)), n)
		})
	}
}

func TestPostKeepsRetryAfterOf429And503(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, c := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute}, {503, "120", 2 * time.Minute}, {503, "abc", 0}, {503, "-1", 0}, {429, "99999999999999999999", time.Hour},
		{500, "120", 0}, {502, "120", 0}, {200, "120", 0}, {301, "120", 0},
	} {
		s.Script(id(n), n8ntest.Answer{Status: c.status, Header: map[string]string{"Retry-After": c.header}})
		if a := w.Post(t.Context(), token, envelope(n)); a.RetryAfter != c.want || a.HTTPStatus != c.status {
			t.Errorf("HTTP %d with %s: %v, want %v", c.status, c.header, a.RetryAfter, c.want)
		}
	}
}

func TestPostSpeaksHTTP11ToAServerOfHTTP2(t *testing.T) {
	t.Parallel()
	s := n8ntest.NewTLS(t)
	w := newWebhook(t, s.URL(), trust(s.TLS()))
	for n := range 3 {
		acknowledged(t, w.Post(t.Context(), token, envelope(n)), n)
		if p := s.Posts()[n]; p.Proto != "HTTP/1.1" {
			t.Errorf("spoke %s", p.Proto)
		}
	}
	if s.Connections() != 1 {
		t.Errorf("%d connections for three POSTs in a row", s.Connections())
	}
}

func TestPostTellsThatItWasGivenUp(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	s.ScriptAll(n8ntest.Answer{Close: n8ntest.Never})
	ctx, cancel := context.WithCancel(t.Context())
	s.OnPost(func(n8ntest.Post) { cancel() })
	faulty(t, newWebhook(t, s.URL()).Post(ctx, token, envelope(1)), "given up")
}

func BenchmarkPost(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dBytes", size), func(b *testing.B) {
			s := n8ntest.New(b)
			s.ForgetBodies()
			w := newWebhook(b, s.URL())
			body := large(1, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.SetParallelism(5)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if a := w.Post(b.Context(), token, body); a.HTTPStatus != 200 {
						b.Fatalf("%+v", a)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
		})
	}
}
