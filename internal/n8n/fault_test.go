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

// Faults that no test can bring about in time, or on every machine.
func TestFaultSaysWhatHappened(t *testing.T) {
	t.Parallel()
	call := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
	}
	dead, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	odd := errors.New("https://bot:hunter2@n8n.example/4f9c-hook?token=abc1")
	const connected, answered = 1, 2
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		way  int
		want string
	}{
		{"ClosedWhileIdle", t.Context(), errors.New("http: server closed idle connection"), connected, "the connection was closed before an answer came"},
		{"Unknown", t.Context(), odd, answered, "the answer is not proper HTTP"},
		{"UnknownWithoutAConnection", t.Context(), odd, 0, "the connection could not be made"},
		{"NoRoute", t.Context(), call("connect", syscall.EHOSTUNREACH), 0, "no route to the host"},
		{"NoNetwork", t.Context(), call("connect", syscall.ENETUNREACH), 0, "no route to the host"},
		{"TooManyFiles", t.Context(), call("socket", syscall.EMFILE), 0, "the connection could not be made"},
		{"Refused", t.Context(), call("connect", syscall.ECONNREFUSED), 0, "connection refused"},
		{"ConnectTimedOut", t.Context(), call("connect", syscall.ETIMEDOUT), 0, "timeout: no connection within N8N_HTTP_TIMEOUT_SECONDS"},
		{"ReadTimedOut", t.Context(), call("read", syscall.ETIMEDOUT), connected, "timeout: no whole answer within N8N_HTTP_TIMEOUT_SECONDS"},
		{"Deadline", dead, odd, answered, "timeout: no whole answer within N8N_HTTP_TIMEOUT_SECONDS"},
		{"PipeBroke", t.Context(), call("write", syscall.EPIPE), connected, "the connection was closed while the event was sent"},
		{"ResetByPeer", t.Context(), fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", call("write", syscall.ECONNRESET)), connected, "connection reset"},
		{"UnknownHost", t.Context(), &net.DNSError{Name: "n8n.example", IsNotFound: true}, 0, "the host name is not known (DNS)"},
		{"NoResolver", t.Context(), &net.DNSError{Name: "n8n.example", IsTemporary: true}, 0, "the host name could not be resolved (DNS)"},
		{"SlowResolver", dead, &net.DNSError{Name: "n8n.example", IsTimeout: true}, 0, "the host name could not be resolved (DNS)"},
		{"Alert", t.Context(), &net.OpError{Op: "remote error", Err: odd}, answered, "TLS: the handshake failed"},
		{"ProxyRefused", t.Context(), &net.OpError{Op: "proxyconnect", Err: call("connect", syscall.ECONNREFUSED)}, 0, "the proxy: connection refused"},
		{"ProxyUnknown", t.Context(), &net.OpError{Op: "proxyconnect", Err: &net.DNSError{IsNotFound: true}}, 0, "the proxy: the host name is not known (DNS)"},
		{"ProxyRefusal", t.Context(), proxyRefusal(403), 0, "the proxy answered CONNECT with HTTP 403"},
		{"CutOff", t.Context(), io.ErrUnexpectedEOF, answered, "the connection was closed before the answer was whole"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p progress
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

// A dead connection of which nothing went out costs nothing. Once a byte went
// out, nobody knows what n8n has.
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
