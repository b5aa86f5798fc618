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
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/n8ntest"
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
	// One that cannot be a header value is a fault: nothing is sent, nothing shows.
	a := w.Post(t.Context(), "bad\r\nX-Evil: 1", envelope(9))
	if a.Fault == "" || strings.Contains(a.Fault+a.Excerpt(), "Evil") || s.PostsOf(id(9)) != 0 {
		t.Errorf("%+v, %d posts", a, s.PostsOf(id(9)))
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

func TestPostNamesACancellation(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	s.ScriptAll(n8ntest.Answer{Close: n8ntest.Never})
	ctx, cancel := context.WithCancel(t.Context())
	s.OnPost(func(n8ntest.Post) { cancel() })
	faulty(t, newWebhook(t, s.URL()).Post(ctx, token, envelope(1)), "the request was canceled")
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
