package n8n

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"outbox-dispatcher/internal/testkit/n8ntest"
)

// What an error without a type means depends on how far the POST got.
func TestFaultKnowsHowFarThePostGot(t *testing.T) {
	t.Parallel()
	dead, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	odd := errors.New("https://bot:hunter2@n8n.example/4f9c-hook?token=abc1")
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	const nothing, noTLS, connected, answered = 0, 1, 2, 3
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		way  int
		want string
	}{
		{"Unknown", t.Context(), odd, nothing, "the connection failed"},
		{"UnknownInTheHandshake", t.Context(), odd, noTLS, "the TLS handshake failed"},
		{"ClosedInTheHandshake", t.Context(), io.EOF, noTLS, "the TLS handshake failed"},
		{"ResetInTheHandshake", t.Context(), reset, noTLS, "the TLS handshake failed"},
		{"UnknownAfterConnecting", t.Context(), errors.New("http: server closed idle connection"), connected, "the connection was closed by the other end"},
		{"UnknownInTheAnswer", t.Context(), odd, answered, "the answer is not proper HTTP"},
		{"Reset", t.Context(), reset, connected, "connection reset"},
		{"CutOff", t.Context(), io.ErrUnexpectedEOF, answered, "the connection was closed by the other end"},
		{"TimeoutBeforeConnecting", dead, odd, nothing, "timeout: no connection within N8N_HTTP_TIMEOUT_SECONDS"},
		{"TimeoutAfterConnecting", dead, reset, connected, "timeout: no complete answer within N8N_HTTP_TIMEOUT_SECONDS"},
		{"SlowResolver", dead, &net.DNSError{Name: "n8n.example", IsTimeout: true}, nothing, "the host name could not be resolved (DNS)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p progress
			p.noTLS.Store(c.way == noTLS)
			p.connected.Store(c.way >= connected)
			p.answered.Store(c.way >= answered)
			if got := p.fault(c.ctx, c.err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// dying is a connection that fails while the second request is written, after so
// many bytes of it.
type dying struct {
	net.Conn
	writes, bytes int
}

func (d *dying) Write(b []byte) (int, error) {
	if d.writes++; d.writes != 2 {
		return d.Conn.Write(b)
	}
	n, _ := d.Conn.Write(b[:d.bytes])
	d.Conn.Close()
	return n, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

// A dead connection that carried nothing costs nothing. Once a byte went out, no one
// knows what n8n has.
func TestPostIsSentAgainOnlyIfNothingWasSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes, connections int
	}{
		"NothingWasSent":  {0, 2},
		"OneByteWasSent":  {1, 1},
		"MostOfItWasSent": {150, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := n8ntest.New(t)
			u, err := url.Parse(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			w := New(Options{URL: u, Timeout: 10 * time.Second})
			defer w.CloseIdle()
			dial, dials := w.transport.DialContext, 0
			w.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				if dials++; dials > 1 || err != nil {
					return conn, err
				}
				return &dying{Conn: conn, bytes: c.bytes}, nil
			}
			body := func(n int) []byte {
				return fmt.Appendf(nil, `{"event_id":"00000000-0000-4000-8000-%012d"}`, n)
			}
			if a := w.Post(t.Context(), "token", body(1)); a.HTTPStatus != http.StatusOK {
				t.Fatalf("the first one: %+v", a)
			}
			a := w.Post(t.Context(), "token", body(2))
			if again := c.bytes == 0; (a.HTTPStatus == http.StatusOK) != again || strings.HasPrefix(a.Fault, "the connection was closed") == again {
				t.Errorf("HTTP %d, %q", a.HTTPStatus, a.Fault)
			}
			if s.Connections() != c.connections || strings.Count(strings.Join(s.Order(), " "), "000002") > 1 {
				t.Errorf("%d connections, %v arrived", s.Connections(), s.Order())
			}
		})
	}
}
