package n8n

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// fault names what went wrong on the way. It decides by the kind of the error
// and quotes none: their texts hold URLs and addresses.
func fault(ctx context.Context, err error) string {
	var (
		dns       *net.DNSError
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		timeout   net.Error
		flateErr  flate.CorruptInputError
		op        *net.OpError
	)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timeout: no whole answer within N8N_HTTP_TIMEOUT_SECONDS"
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return "the host name is not known (DNS)"
		}
		return "the host name could not be resolved (DNS)"
	case errors.As(err, &hostname):
		return "TLS: the certificate is for another host"
	case errors.As(err, &authority):
		return "TLS: the certificate is signed by an authority that is not trusted"
	case errors.As(err, &invalid):
		return "TLS: the certificate is not valid, by its dates or its use"
	case errors.As(err, &record):
		return "TLS: the server does not speak TLS on this port"
	case errors.As(err, &verify), errors.As(err, &alert):
		return "TLS: the handshake failed"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, syscall.EPIPE):
		return "the connection was closed while the event was sent"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zlib.ErrHeader),
		errors.Is(err, zlib.ErrChecksum), errors.As(err, &flateErr):
		return "the packed answer cannot be unpacked"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the answer was whole"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout: the connection could not be made in time"
	case errors.As(err, &op) && op.Op == "dial":
		return "the connection could not be made"
	}
	return "the answer is not proper HTTP"
}
