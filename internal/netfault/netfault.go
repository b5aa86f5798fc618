// Package netfault names what went wrong between this program and a server, in the
// same words wherever people read it: n8n's webhook, Postgres, Secrets Manager,
// doctor.
//
// It decides by the type of an error and quotes nothing of its text, which may hold
// URLs with secrets. It says what was seen and not why: what to do about it is for
// the caller, who knows the server.
package netfault

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
	"syscall"
)

// Kind is a kind of fault. The zero value is Unknown.
type Kind int

const (
	Unknown              Kind = iota // none of the following
	HostUnknown                      // DNS has no such name
	HostUnresolved                   // DNS did not answer, or not properly
	Timeout                          // of a connection, or of an answer
	Canceled                         // by the caller
	ProxyRefused                     // a proxy answered CONNECT with a status other than 200
	CertificateHost                  // certificate for another host
	CertificateAuthority             // certificate of an authority that is not trusted
	CertificateExpired               // certificate that has expired or is not valid yet
	CertificateInvalid               // certificate with another fault, or one of its chain
	NotTLS                           // the server answered in something other than TLS
	Handshake                        // TLS was spoken, and not agreed on
	Refused                          // nothing listens on the port
	NoRoute                          // the network or the host is unreachable
	Reset                            // the connection was reset
	Closed                           // the connection was closed by the other end
)

// kinds is the table: the first row that matches an error names it. Causes come
// before their consequences: a name that DNS does not resolve in time is no
// ordinary timeout.
var kinds = []struct {
	kind    Kind
	words   string
	matches func(error) bool
}{
	{HostUnknown, "the host name is unknown (DNS)", func(err error) bool {
		dns, ok := errors.AsType[*net.DNSError](err)
		return ok && dns.IsNotFound
	}},
	{HostUnresolved, "the host name could not be resolved (DNS)", is[*net.DNSError]},
	{Timeout, "timeout", func(err error) bool {
		timeout, ok := errors.AsType[net.Error](err)
		return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
	}},
	{Canceled, "the request was canceled", func(err error) bool { return errors.Is(err, context.Canceled) }},
	{ProxyRefused, "the proxy refused to connect", is[proxyStatus]},
	{CertificateHost, "the TLS certificate is for another host", is[x509.HostnameError]},
	{CertificateAuthority, "the TLS certificate is signed by an authority that is not trusted", is[x509.UnknownAuthorityError]},
	{CertificateExpired, "the TLS certificate has expired or is not valid yet", func(err error) bool {
		invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
		return ok && invalid.Reason == x509.Expired
	}},
	{CertificateInvalid, "the TLS certificate is not valid", func(err error) bool {
		return is[x509.CertificateInvalidError](err) || is[*tls.CertificateVerificationError](err)
	}},
	{NotTLS, "the server does not speak TLS on this port", is[tls.RecordHeaderError]},
	{Handshake, "the TLS handshake failed", func(err error) bool {
		op, ok := errors.AsType[*net.OpError](err)
		return ok && (op.Op == "remote error" || op.Op == "local error") // how crypto/tls names its alerts
	}},
	{Refused, "connection refused", isAny(syscall.ECONNREFUSED)},
	{NoRoute, "no route to the host", isAny(syscall.EHOSTUNREACH, syscall.ENETUNREACH)},
	{Reset, "connection reset", isAny(syscall.ECONNRESET)},
	{Closed, "the connection was closed by the other end", isAny(io.EOF, io.ErrUnexpectedEOF, syscall.EPIPE)},
	{Unknown, "the connection failed", func(error) bool { return true }},
}

// Fault is a fault in words, see String.
type Fault struct {
	Kind  Kind
	Proxy bool // it happened on the way to the proxy, not to the server
	// Status is what a proxy answered CONNECT with. 0 unless Kind is ProxyRefused.
	Status int
}

// Of returns the fault that an error stands for. A nil error is Unknown.
func Of(err error) Fault {
	var f Fault
	for _, row := range kinds {
		if row.matches(err) {
			f.Kind = row.kind
			break
		}
	}
	op, ok := errors.AsType[*net.OpError](err)
	f.Proxy = ok && (op.Op == "proxyconnect" || op.Op == "socks connect")
	status, _ := errors.AsType[proxyStatus](err)
	f.Status = int(status)
	return f
}

// String returns the fault as part of a sentence, such as "connection refused".
func (f Fault) String() string {
	switch {
	case f.Kind == ProxyRefused:
		return fmt.Sprintf("the proxy answered CONNECT with HTTP %d", f.Status)
	case f.Proxy:
		return "the proxy: " + f.Kind.String()
	}
	return f.Kind.String()
}

func (k Kind) String() string {
	for _, row := range kinds {
		if row.kind == k {
			return row.words
		}
	}
	return ""
}

// proxyStatus is the status with which a proxy answered CONNECT.
type proxyStatus int

func (s proxyStatus) Error() string { return fmt.Sprintf("proxy: HTTP %d", int(s)) }

// OnProxyConnectResponse belongs into an http.Transport, whose own error for a proxy
// that refuses to connect has no type.
func OnProxyConnectResponse(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		return proxyStatus(res.StatusCode)
	}
	return nil
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isAny(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}
