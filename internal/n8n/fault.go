package n8n

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"syscall"
)

// progress tells how far a POST came. The transport writes it from goroutines of
// its own, also after the POST is over.
type progress struct {
	connected atomic.Bool // a connection was there, TLS included
	noTLS     atomic.Bool // the TLS handshake failed
	answered  atomic.Bool // a first byte came back
}

// watch has the transport tell how far the POST under the returned context came.
func (p *progress) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { p.connected.Store(true) },
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { p.noTLS.Store(err != nil) },
		GotFirstResponseByte: func() { p.answered.Store(true) },
	})
}

// fault names what went wrong on the way. It decides by the kind of the error
// and by how far the POST came, and quotes nothing: the texts of errors hold
// URLs and addresses.
func (p *progress) fault(ctx context.Context, err error) string {
	var proxy *net.OpError
	if errors.As(err, &proxy) && proxy.Op == "proxyconnect" {
		return "the proxy: " + p.cause(ctx, proxy.Err)
	}
	return p.cause(ctx, err)
}

func (p *progress) cause(ctx context.Context, err error) string {
	var (
		refused   proxyRefusal
		dns       *net.DNSError
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		timeout   net.Error
		op        *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return "the host name is not known (DNS)"
		}
		return "the host name could not be resolved (DNS)"
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		if !p.connected.Load() {
			return "timeout: no connection within N8N_HTTP_TIMEOUT_SECONDS"
		}
		return "timeout: no whole answer within N8N_HTTP_TIMEOUT_SECONDS"
	case errors.Is(ctx.Err(), context.Canceled):
		return "the POST was given up"
	case errors.As(err, &refused):
		return fmt.Sprintf("the proxy answered CONNECT with HTTP %d", int(refused))
	case errors.As(err, &hostname):
		return "TLS: the certificate is for another host"
	case errors.As(err, &authority):
		return "TLS: the certificate is signed by an authority that is not trusted"
	case errors.As(err, &invalid):
		return "TLS: the certificate is not valid, by its dates or its use"
	case errors.As(err, &record):
		return "TLS: the server does not speak TLS on this port"
	case p.noTLS.Load(), errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return "TLS: the handshake failed" // an alert comes under these names
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, syscall.EPIPE):
		return "the connection was closed while the event was sent"
	case errors.Is(err, errPacked):
		return "the packed answer cannot be unpacked"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the answer was whole"
	case !p.connected.Load():
		return "the connection could not be made"
	case !p.answered.Load():
		return "the connection was closed before an answer came"
	}
	return "the answer is not proper HTTP"
}

// proxyRefusal is the status with which a proxy answered CONNECT.
type proxyRefusal int

func (s proxyRefusal) Error() string { return fmt.Sprintf("proxy: HTTP %d", int(s)) }

func connected(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		return proxyRefusal(res.StatusCode)
	}
	return nil
}
