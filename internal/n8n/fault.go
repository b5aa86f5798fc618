package n8n

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptrace"
	"sync/atomic"

	"outbox-dispatcher/internal/netfault"
)

// progress is how far a POST got. The transport writes it from goroutines of its
// own, also after the POST is over.
type progress struct {
	connected atomic.Bool // a connection was there, TLS included
	noTLS     atomic.Bool // the TLS handshake failed
	answered  atomic.Bool // a first byte came back
}

// watch makes the transport record how far the POST under the returned context gets.
func (p *progress) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { p.connected.Store(true) },
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { p.noTLS.Store(err != nil) },
		GotFirstResponseByte: func() { p.answered.Store(true) },
	})
}

// notHTTP is what an answer is that the transport cannot read.
const notHTTP = "the answer is not proper HTTP"

// fault names what went wrong on the way: by the error, and where that has no type
// by how far the POST got.
func (p *progress) fault(ctx context.Context, err error) string {
	f := netfault.Of(errors.Join(err, ctx.Err()))
	switch f.Kind {
	case netfault.Timeout:
		if p.connected.Load() {
			return f.String() + ": no complete answer within N8N_HTTP_TIMEOUT_SECONDS"
		}
		return f.String() + ": no connection within N8N_HTTP_TIMEOUT_SECONDS"
	case netfault.Unknown, netfault.Closed, netfault.Reset:
		switch {
		case p.noTLS.Load():
			f.Kind = netfault.Handshake
		case f.Kind == netfault.Unknown && p.answered.Load():
			return notHTTP
		case f.Kind == netfault.Unknown && p.connected.Load():
			f.Kind = netfault.Closed
		}
	}
	return f.String()
}
