package n8n_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"outbox-dispatcher/internal/testkit/n8ntest"
)

// The standard library reads the proxy variables once a process, and uses no
// proxy for loopback. So this runs as a process of its own, with names of hosts
// that the proxy alone knows.
func TestPostGoesThroughAProxyOnlyWhereItCannotBeRead(t *testing.T) {
	t.Parallel()
	const child = "N8N_TEST_PROXY_CHILD"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1", "NO_PROXY=", "no_proxy=")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+"/LastOfAll")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	authority := n8ntest.NewAuthority()
	n8n := secure(t, &tls.Config{Certificates: []tls.Certificate{authority.Issue(n8ntest.Certificate{Hosts: []string{"n8n.test"}})}})
	proxy := newProxy(t, n8n.Address())
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		os.Setenv(name, "http://user:pr0xy-pw@"+proxy.Address())
	}
	trusted := trust(&tls.Config{RootCAs: authority.Pool()})

	a := newWebhook(t, "https://n8n.test/webhook/path-s3cret?query-s3cret", trusted).Post(t.Context(), token, envelope(1))
	acknowledged(t, a, 1)
	said := proxy.said()
	if !strings.HasPrefix(said, "CONNECT n8n.test:443 HTTP/1.1\r\n") {
		t.Errorf("to the proxy went %.80q", said)
	}
	for _, secret := range []string{token, "s3cret", "event_id", "Fleet-Ops", "execution_id"} {
		if strings.Contains(said, secret) {
			t.Errorf("the proxy saw %q", secret)
		}
	}

	before := proxy.Connections()
	unknown := strings.Repeat("x", 64) + ".test" // no resolver takes it; a proxy would
	faulty(t, newWebhook(t, "http://"+unknown+"/webhook").Post(t.Context(), token, envelope(2)), "the host name is unknown (DNS)")
	if proxy.Connections() != before {
		t.Error("a POST over http went to the proxy, which can read its token")
	}

	faulty(t, newWebhook(t, "https://refused.test", trusted).Post(t.Context(), token, envelope(3)), "the proxy answered CONNECT with HTTP 407")
	faulty(t, newWebhook(t, "https://closed.test", trusted).Post(t.Context(), token, envelope(4)), "the connection")
	faulty(t, newWebhook(t, "https://n8n.test").Post(t.Context(), token, envelope(5)), "the TLS certificate is signed by an authority that is not trusted")
	proxy.Stop()
	faulty(t, newWebhook(t, "https://n8n.test", trusted).Post(t.Context(), token, envelope(6)), "the proxy: connection refused")
	t.Run("LastOfAll", func(*testing.T) {})
}

// proxy tunnels to one server, whatever host it is asked for, and keeps what
// clients said.
type proxy struct {
	*n8ntest.TCP
	mu  sync.Mutex
	log bytes.Buffer
}

func (p *proxy) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *proxy) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func newProxy(t *testing.T, to string) *proxy {
	p := &proxy{}
	p.TCP = n8ntest.NewTCP(t, func(conn net.Conn, _ int) {
		r := bufio.NewReader(io.TeeReader(conn, p))
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		switch req.URL.Hostname() {
		case "closed.test":
			return
		case "refused.test":
			_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required "+token+"\r\nContent-Length: 0\r\n\r\n")
			return
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		fmt.Fprint(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(conn, server)
			conn.Close()
		}()
		_, _ = io.Copy(server, r)
	})
	return p
}
