package netfault_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

	"outbox-dispatcher/internal/netfault"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// Every kind has words of its own, which quote nothing of the error.
func TestOf(t *testing.T) {
	t.Parallel()
	const secret = "https://bot:hunter2@n8n.example/4f9c-hook?token=abc1"
	odd := errors.New(secret)
	call := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
	}
	proxy := func(err error) error { return &net.OpError{Op: "proxyconnect", Err: err} }
	refusal := func(status int) error {
		return netfault.OnProxyConnectResponse(t.Context(), nil, nil, &http.Response{StatusCode: status})
	}
	verification := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	seen := map[netfault.Kind]string{}
	for _, c := range []struct {
		name string
		err  error
		kind netfault.Kind
		want string
	}{
		{"Nothing", nil, netfault.Unknown, "the connection failed"},
		{"Unknown", odd, netfault.Unknown, "the connection failed"},
		{"TooManyFiles", call("socket", syscall.EMFILE), netfault.Unknown, "the connection failed"},
		{"UnknownHost", &net.DNSError{Name: secret, IsNotFound: true}, netfault.HostUnknown, "the host name is unknown (DNS)"},
		{"NoResolver", &net.DNSError{Name: secret, IsTemporary: true}, netfault.HostUnresolved, "the host name could not be resolved (DNS)"},
		{"SlowResolver", &net.DNSError{Name: secret, IsTimeout: true}, netfault.HostUnresolved, "the host name could not be resolved (DNS)"},
		{"Deadline", context.DeadlineExceeded, netfault.Timeout, "timeout"},
		{"DeadlineBesideAnotherFault", errors.Join(call("read", syscall.ECONNRESET), context.DeadlineExceeded), netfault.Timeout, "timeout"},
		{"ConnectTimedOut", call("connect", syscall.ETIMEDOUT), netfault.Timeout, "timeout"},
		{"ReadTimedOut", call("read", os.ErrDeadlineExceeded), netfault.Timeout, "timeout"},
		{"TimeoutInAURL", &url.Error{Op: "Get", URL: secret, Err: context.DeadlineExceeded}, netfault.Timeout, "timeout"},
		{"Canceled", fmt.Errorf("%w: %w", odd, context.Canceled), netfault.Canceled, "the request was canceled"},
		{"AnotherHost", verification(x509.HostnameError{Host: secret, Certificate: &x509.Certificate{}}), netfault.CertificateHost, "the TLS certificate is for another host"},
		{"AnotherAuthority", verification(x509.UnknownAuthorityError{}), netfault.CertificateAuthority, "the TLS certificate is signed by an authority that is not trusted"},
		{"Expired", verification(x509.CertificateInvalidError{Reason: x509.Expired, Detail: secret}), netfault.CertificateExpired, "the TLS certificate has expired or is not valid yet"},
		{"WrongUse", verification(x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}), netfault.CertificateInvalid, "the TLS certificate is not valid"},
		{"AnotherFaultOfIt", verification(odd), netfault.CertificateInvalid, "the TLS certificate is not valid"},
		{"NotTLS", tls.RecordHeaderError{Msg: secret}, netfault.NotTLS, "the server does not speak TLS on this port"},
		{"TheirAlert", &net.OpError{Op: "remote error", Err: odd}, netfault.Handshake, "the TLS handshake failed"},
		{"OurAlert", &net.OpError{Op: "local error", Err: odd}, netfault.Handshake, "the TLS handshake failed"},
		{"Refused", call("connect", syscall.ECONNREFUSED), netfault.Refused, "connection refused"},
		{"RefusedInAURL", &url.Error{Op: "Post", URL: secret, Err: call("connect", syscall.ECONNREFUSED)}, netfault.Refused, "connection refused"},
		{"NoRoute", call("connect", syscall.EHOSTUNREACH), netfault.NoRoute, "no route to the host"},
		{"NoNetwork", call("connect", syscall.ENETUNREACH), netfault.NoRoute, "no route to the host"},
		{"Reset", fmt.Errorf("transport connection broken: %w", call("write", syscall.ECONNRESET)), netfault.Reset, "connection reset"},
		{"PipeBroke", call("write", syscall.EPIPE), netfault.Closed, "the connection was closed by the other end"},
		{"Ended", io.EOF, netfault.Closed, "the connection was closed by the other end"},
		{"CutOff", io.ErrUnexpectedEOF, netfault.Closed, "the connection was closed by the other end"},
		{"ProxyAnswers", refusal(407), netfault.ProxyRefused, "the proxy answered CONNECT with HTTP 407"},
		{"ProxyConnects", refusal(200), netfault.Unknown, "the connection failed"},
		{"ProxyRefusesTheConnection", proxy(call("connect", syscall.ECONNREFUSED)), netfault.Refused, "the proxy: connection refused"},
		{"ProxyUnknown", proxy(&net.DNSError{Name: secret, IsNotFound: true}), netfault.HostUnknown, "the proxy: the host name is unknown (DNS)"},
		{"ProxyOfSOCKS", &net.OpError{Op: "socks connect", Err: odd}, netfault.Unknown, "the proxy: the connection failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := netfault.Of(c.err)
			if f.Kind != c.kind || f.String() != c.want {
				t.Errorf("kind %d, %q; want %d, %q", f.Kind, f, c.kind, c.want)
			}
			seen[c.kind] = c.kind.String()
		})
	}
	words := map[string]bool{}
	for kind := netfault.Unknown; kind <= netfault.Closed; kind++ {
		words[seen[kind]] = true
	}
	if len(words) != int(netfault.Closed)+1 || words[""] {
		t.Errorf("not every kind was seen with words of its own: %v", seen)
	}
}

// What the standard library really returns.
func TestOfRealConnections(t *testing.T) {
	t.Parallel()
	ours := n8ntest.NewAuthority()
	serve := func(c n8ntest.Certificate) string {
		return n8ntest.NewTCP(t, func(conn net.Conn, _ int) {
			_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{ours.Issue(c)}}).Handshake()
		}).Address()
	}
	closes := n8ntest.NewTCP(t, func(conn net.Conn, _ int) { _, _ = conn.Read(make([]byte, 1)) }).Address()
	for _, c := range []struct {
		name, address string
		want          netfault.Kind
	}{
		{"UnknownHost", strings.Repeat("x", 64) + ".example:443", netfault.HostUnknown}, // too long to be looked up
		{"Refused", "127.0.0.1:1", netfault.Refused},
		{"AnotherHost", serve(n8ntest.Certificate{Hosts: []string{"elsewhere.example"}}), netfault.CertificateHost},
		{"Expired", serve(n8ntest.Certificate{Expired: true}), netfault.CertificateExpired},
		{"NotTLS", n8ntest.New(t).Address(), netfault.NotTLS},
	} {
		_, err := tls.Dial("tcp", c.address, &tls.Config{RootCAs: ours.Pool()})
		if f := netfault.Of(err); f.Kind != c.want {
			t.Errorf("%s: %v is kind %d, %q; want %d", c.name, err, f.Kind, f, c.want)
		}
	}
	_, err := tls.Dial("tcp", serve(n8ntest.Certificate{}), nil)
	if f := netfault.Of(err); f.Kind != netfault.CertificateAuthority {
		t.Errorf("of another authority: %v is %q", err, f)
	}
	_, err = tls.Dial("tcp", closes, nil)
	if f := netfault.Of(err); f.Kind != netfault.Closed && f.Kind != netfault.Reset {
		t.Errorf("closed in the handshake: %v is %q", err, f)
	}
}
