package n8n_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"outbox-dispatcher/internal/testkit/n8ntest"
)

// secure starts a server that speaks TLS as configured, and acknowledges.
func secure(t *testing.T, c *tls.Config) *n8ntest.TCP {
	return n8ntest.NewTCP(t, func(conn net.Conn, _ int) {
		over := tls.Server(conn, c)
		defer over.Close()
		if _, body, err := request(bufio.NewReader(over)); err == nil {
			_, _ = io.WriteString(over, okAnswer(body))
		}
	})
}

// No POST goes out.
func TestPostNamesEachFaultOfTLS(t *testing.T) {
	t.Parallel()
	ours, others := n8ntest.NewAuthority(), n8ntest.NewAuthority()
	serve := func(a *n8ntest.Authority, c n8ntest.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{a.Issue(c)}}
	}
	old := serve(ours, n8ntest.Certificate{})
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	asks := serve(ours, n8ntest.Certificate{})
	asks.ClientAuth = tls.RequireAnyClientCert
	asksIn12 := asks.Clone()
	asksIn12.MaxVersion = tls.VersionTLS12
	plainText := n8ntest.New(t)
	for name, c := range map[string]struct {
		address string
		want    string
	}{
		"AnotherAuthority":         {secure(t, serve(others, n8ntest.Certificate{})).Address(), "the TLS certificate is signed by an authority that is not trusted"},
		"AnotherHost":              {secure(t, serve(ours, n8ntest.Certificate{Hosts: []string{"n8n.example"}})).Address(), "the TLS certificate is for another host"},
		"AnotherAddress":           {secure(t, serve(ours, n8ntest.Certificate{Hosts: []string{"10.0.0.1"}})).Address(), "the TLS certificate is for another host"},
		"Expired":                  {secure(t, serve(ours, n8ntest.Certificate{Expired: true})).Address(), "the TLS certificate has expired or is not valid yet"},
		"PlainTextPort":            {plainText.Address(), "the server does not speak TLS on this port"},
		"OldVersion":               {secure(t, old).Address(), "the TLS handshake failed"},
		"AsksForACertificate":      {secure(t, asks).Address(), "the TLS handshake failed"},
		"AsksForACertificateIn1.2": {secure(t, asksIn12).Address(), "the TLS handshake failed"},
		"ClosesInTheHandshake":     {n8ntest.NewTCP(t, func(conn net.Conn, _ int) { _, _ = conn.Read(make([]byte, 1)) }).Address(), "the TLS handshake failed"},
		"SpeaksGarbage":            {n8ntest.NewTCP(t, func(conn net.Conn, _ int) { _, _ = conn.Write([]byte(strings.Repeat("\x16\x03\x01", 100))) }).Address(), "the TLS handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebhook(t, "https://"+c.address+"/webhook/x", trust(&tls.Config{RootCAs: ours.Pool()}))
			faulty(t, w.Post(t.Context(), token, envelope(1)), c.want)
		})
	}
	t.Run("AllRight", func(t *testing.T) {
		t.Parallel()
		w := newWebhook(t, "https://"+secure(t, serve(ours, n8ntest.Certificate{})).Address(), trust(&tls.Config{RootCAs: ours.Pool()}))
		acknowledged(t, w.Post(t.Context(), token, envelope(1)), 1)
	})
	t.Run("TheSystemDoesNotTrustIt", func(t *testing.T) {
		t.Parallel()
		w := newWebhook(t, n8ntest.NewTLS(t).URL())
		faulty(t, w.Post(t.Context(), token, envelope(1)), "the TLS certificate is signed by an authority that is not trusted")
	})
}

func TestPostShowsThatTheServerRequiresTLS(t *testing.T) {
	t.Parallel()
	s := n8ntest.NewTLS(t)
	a := newWebhook(t, "http://"+s.Address()).Post(t.Context(), token, envelope(1))
	if a.HTTPStatus != 400 || !strings.Contains(a.Excerpt(), "HTTPS server") || s.Count() != 0 {
		t.Errorf("%+v", a)
	}
}

func TestPostNamesAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	gone := n8ntest.New(t)
	gone.Down()
	for name, c := range map[string]struct{ url, want string }{
		"Refused":     {gone.URL(), "connection refused"},
		"RefusedTLS":  {strings.Replace(gone.URL(), "http:", "https:", 1), "connection refused"},
		"UnknownHost": {"http://" + strings.Repeat("x", 64) + ".example/x", "the host name is unknown (DNS)"}, // too long a label to be looked up
		"ClosedPort":  {"http://127.0.0.1:1/x", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newWebhook(t, c.url).Post(t.Context(), token, envelope(1))
			faulty(t, a, c.want)
			if a.HTTPStatus != 0 || a.Excerpt() != "" || a.Body != nil {
				t.Errorf("%+v", a)
			}
		})
	}
}
