package n8n_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"outbox-dispatcher/internal/testkit/n8ntest"
)

// seen counts what arrived at a bare server, whole or not.
type seen struct {
	mu    sync.Mutex
	posts map[string]int
}

func (s *seen) add(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.posts == nil {
		s.posts = map[string]int{}
	}
	s.posts[string(body)]++
}

func (s *seen) of(body []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.posts[string(body)]
}

func TestPostFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere, s := n8ntest.New(t), n8ntest.New(t)
	w := newWebhook(t, s.URL())
	n := 0
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		for _, location := range []string{elsewhere.URL(), s.URL() + "/elsewhere", "/elsewhere", "?again", "//" + elsewhere.Address() + "/x", "ftp://x/", "::"} {
			n++
			s.Script(id(n), n8ntest.Answer{Status: status, Header: map[string]string{"Location": location}, Body: n8ntest.Ack})
			if a := w.Post(t.Context(), token, envelope(n)); a.HTTPStatus != status || a.Fault != "" {
				t.Errorf("%d to %s: %+v", status, location, a)
			}
		}
	}
	if s.Count() != n || len(s.Odd()) != 0 || elsewhere.Connections() != 0 {
		t.Errorf("%d POSTs for %d, others %v, %d connections to the other host", s.Count(), n, s.Odd(), elsewhere.Connections())
	}
}

// n8n received the event and broke: no one knows whether it was executed, and only the
// next attempt sends it again.
func TestPostSendsNothingASecondTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer n8ntest.Answer
		want   string
	}{
		"ResetAfterTheRequest":     {n8ntest.Answer{Close: n8ntest.Reset}, "connection reset"},
		"ClosedAfterTheRequest":    {n8ntest.Answer{Close: n8ntest.FIN}, "the connection was closed by the other end"},
		"ResetAfterTheStatus":      {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\n", Close: n8ntest.Reset}, "connection"},
		"ClosedInTheHeaders":       {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"}, "the connection was closed by the other end"},
		"ShortBody":                {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", Body: n8ntest.Ack}, "broke off: the connection was closed by the other end"},
		"ResetInTheBody":           {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", Body: n8ntest.Ack, Close: n8ntest.Reset}, "broke off: connection reset"},
		"ChunkCutOff":              {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"ok\r\n"}, "broke off: the connection was closed by the other end"},
		"LastChunkMissing":         {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"}, "broke off: the connection was closed by the other end"},
		"ChunkWithoutALength":      {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n"}, "broke off: the answer is not proper HTTP"},
		"RequestTimeoutUnasked":    {n8ntest.Answer{Raw: "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, ""},
		"ServiceUnavailable":       {n8ntest.Answer{Status: 503, Header: map[string]string{"Retry-After": "0"}}, ""},
		"MisdirectedAndClosedOnUs": {n8ntest.Answer{Raw: "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := n8ntest.New(t)
			w := newWebhook(t, s.URL())
			s.Script(id(2), c.answer)
			for n := range 4 { // a fresh connection, a used one, and what comes after
				a := w.Post(t.Context(), token, envelope(n))
				switch {
				case n != 2:
					acknowledged(t, a, n)
				case c.want != "":
					faulty(t, a, c.want)
				case a.HTTPStatus < 300:
					t.Errorf("%+v", a)
				}
				if got := s.PostsOf(id(n)); got != 1 {
					t.Errorf("event %d: %d POSTs", n, got)
				}
			}
		})
	}
}

func TestPostReplacesAConnectionThatWasClosedWhileIdle(t *testing.T) {
	t.Parallel()
	var got seen
	closed := make(chan struct{}, 10)
	s := n8ntest.NewTCP(t, func(conn net.Conn, _ int) {
		_, body, err := request(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		got.add(body)
		_, _ = io.WriteString(conn, okAnswer(body)) // keep-alive, as far as the client knows
		conn.Close()
		closed <- struct{}{}
	})
	w := newWebhook(t, "http://"+s.Address())
	for n := range 5 {
		acknowledged(t, w.Post(t.Context(), token, envelope(n)), n)
		<-closed
		time.Sleep(20 * time.Millisecond) // until the client notices
	}
	for n := range 5 {
		if got.of(envelope(n)) != 1 {
			t.Errorf("event %d: %d POSTs", n, got.of(envelope(n)))
		}
	}
}

// The close crosses the next POST on the wire. It may cost that attempt, and never
// doubles it.
func TestPostThatMeetsTheCloseGoesOutAtMostOnce(t *testing.T) {
	t.Parallel()
	for name, hangUp := range map[string]func(conn *net.TCPConn){
		"FIN":        func(conn *net.TCPConn) { conn.Close() },
		"Reset":      func(conn *net.TCPConn) { _ = conn.SetLinger(0); conn.Close() },
		"HalfClosed": func(conn *net.TCPConn) { _ = conn.CloseWrite() }, // and still reading
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got seen
			s := n8ntest.NewTCP(t, func(conn net.Conn, _ int) {
				r := bufio.NewReader(conn)
				_, body, err := request(r)
				if err != nil {
					return
				}
				got.add(body)
				_, _ = io.WriteString(conn, okAnswer(body))
				hangUp(conn.(*net.TCPConn))
				if _, body, err := request(r); err == nil {
					got.add(body) // it arrived nonetheless
				}
			})
			w := newWebhook(t, "http://"+s.Address())
			delivered := 0
			for n := range 200 {
				a := w.Post(t.Context(), token, envelope(n))
				if a.Fault == "" {
					acknowledged(t, a, n)
					delivered++
				} else if strings.Contains(a.Fault, "proper HTTP") || strings.Contains(a.Fault, "timeout") {
					t.Errorf("fault %q", a.Fault)
				}
				if count := got.of(envelope(n)); count > 1 || a.Fault == "" && count != 1 {
					t.Fatalf("event %d: %d POSTs, fault %q", n, count, a.Fault)
				}
			}
			if delivered < 50 {
				t.Errorf("%d of 200 delivered", delivered)
			}
		})
	}
}

// A server that refuses before it has read all: the client may see the 413 or a
// broken connection, and says so either way.
func TestPostEndsWhenTheBodyIsRefusedEarly(t *testing.T) {
	t.Parallel()
	body := large(1, 8<<20)
	for name, reads := range map[string]int64{"AfterTheHeaders": 0, "AfterAMegabyte": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := n8ntest.NewTCP(t, func(conn net.Conn, _ int) {
				r := bufio.NewReader(conn)
				if _, err := http.ReadRequest(r); err != nil {
					t.Error(err)
					return
				}
				_, _ = io.CopyN(io.Discard, r, reads)
				_, _ = io.WriteString(conn, "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large")
			})
			w := newWebhook(t, "http://"+s.Address())
			began := time.Now()
			for run := 1; run <= 20; run++ {
				a := w.Post(t.Context(), token, body)
				if a.HTTPStatus != 413 && a.Fault == "" || a.HTTPStatus != 413 && a.HTTPStatus != 0 {
					t.Errorf("run %d: %+v", run, a)
				}
				if strings.Contains(a.Fault, "proper HTTP") || strings.Contains(a.Fault, "timeout") {
					t.Errorf("run %d: fault %q", run, a.Fault)
				}
				if s.Connections() != run {
					t.Fatalf("run %d: %d connections", run, s.Connections())
				}
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// A POST costs a round trip, not a connection.
func TestPostReusesConnections(t *testing.T) {
	t.Parallel()
	const concurrency = 5
	spaces := strings.Repeat(" ", 4<<10)
	for name, c := range map[string]struct {
		answer n8ntest.Answer
		status int
	}{
		"WithTrailingSpaces":    {n8ntest.Answer{Body: n8ntest.Ack + spaces}, 200},
		"Chunked":               {n8ntest.Answer{Body: n8ntest.Ack, Repeat: 1, Drip: time.Microsecond}, 200},
		"Gzip":                  {n8ntest.Answer{Body: n8ntest.Ack + spaces, Pack: n8ntest.Gzip, Header: map[string]string{"Content-Encoding": "gzip"}}, 200},
		"Deflate":               {n8ntest.Answer{Body: n8ntest.Ack + spaces, Pack: n8ntest.Deflate, Header: map[string]string{"Content-Encoding": "deflate"}}, 200},
		"DeflateWithALineAfter": {n8ntest.Answer{Body: n8ntest.Ack, Pack: func(b []byte) []byte { return append(n8ntest.Deflate(b), "\r\n"...) }, Header: map[string]string{"Content-Encoding": "deflate"}}, 200},
		"Empty":                 {n8ntest.Answer{}, 200},
		"NoContent":             {n8ntest.Answer{Status: 204}, 204},
		"ErrorPage":             {n8ntest.Answer{Status: 500, Body: strings.Repeat("<p>", 20_000)}, 500},
		"Refused":               {n8ntest.Answer{Status: 403, Body: "Authorization data is wrong!"}, 403},
		"Redirected":            {n8ntest.Answer{Status: 302, Header: map[string]string{"Location": "/x"}}, 302},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			posts := 50
			if name == "WithTrailingSpaces" {
				posts = 300
			}
			s := n8ntest.New(t)
			s.ScriptAll(c.answer)
			w := newWebhook(t, s.URL())
			var all sync.WaitGroup
			for worker := range concurrency {
				all.Go(func() {
					for n := range posts / concurrency {
						if a := w.Post(t.Context(), token, envelope(worker*posts+n)); a.HTTPStatus != c.status || a.Fault != "" {
							t.Errorf("%+v", a)
							return
						}
					}
				})
			}
			all.Wait()
			// A busy machine opens a new one where the old one is late in coming back.
			if s.Count() != posts || s.Connections() > concurrency+10 {
				t.Errorf("%d POSTs over %d connections", s.Count(), s.Connections())
			}
		})
	}
}

// An instance that was frozen wakes with dead connections, and drops them.
func TestCloseIdleDropsEveryConnection(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n := range 3 {
		acknowledged(t, w.Post(t.Context(), token, envelope(n)), n)
		w.CloseIdle()
		if s.Connections() != n+1 {
			t.Errorf("after %d POSTs %d connections", n+1, s.Connections())
		}
	}
}

// A dead connection costs the POST that is on it, and no other.
func TestPostAfterATimeoutUsesANewConnection(t *testing.T) {
	t.Parallel()
	s := n8ntest.NewTCP(t, func(conn net.Conn, number int) {
		r := bufio.NewReader(conn)
		for {
			_, body, err := request(r)
			if err != nil {
				return
			}
			if number == 1 && strings.Contains(string(body), id(1)) {
				_, _ = io.Copy(io.Discard, r) // swallows everything from here on
				return
			}
			_, _ = io.WriteString(conn, okAnswer(body))
		}
	})
	w := newWebhook(t, "http://"+s.Address(), timeout(200*time.Millisecond))
	acknowledged(t, w.Post(t.Context(), token, envelope(0)), 0)
	faulty(t, w.Post(t.Context(), token, envelope(1)), "timeout: no complete answer within")
	acknowledged(t, w.Post(t.Context(), token, envelope(2)), 2)
	if s.Connections() != 2 {
		t.Errorf("%d connections", s.Connections())
	}
}
