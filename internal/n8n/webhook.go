// Package n8n is the webhook: one POST in, one classified answer out. It sends once,
// follows no redirect, and shows nothing of the URL but its host.
package n8n

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"outbox-dispatcher/internal/netfault"
	"outbox-dispatcher/internal/outbox"
)

const (
	// idleTimeout closes a connection before n8n does: Node's server closes idle
	// ones after five to six seconds, and a POST that meets the close is lost.
	idleTimeout = 4 * time.Second
	// maxHeaderBytes bounds the headers of an answer. n8n sends under a kilobyte.
	maxHeaderBytes = 256 << 10
	// maxErrorBytes of an error answer are read: enough for its excerpt, and for
	// ordinary error pages, so that their connections are reused.
	maxErrorBytes = 64 << 10
)

// Webhook posts events to one URL. It is safe for concurrent use.
type Webhook struct {
	url       *url.URL // without its user part
	user      *url.Userinfo
	timeout   time.Duration
	transport *http.Transport
	redactor  *redactor
}

// Options of a webhook. URL and Timeout are required.
type Options struct {
	URL         *url.URL      // its user part becomes Basic authentication
	Timeout     time.Duration // of one whole POST, its answer included
	Connections int           // kept open at most; 0: two
	TLS         *tls.Config   // nil: the system's roots
}

// New returns a webhook. Nothing is sent before it is used.
func New(o Options) *Webhook {
	target := *o.URL
	target.User = nil
	user := o.URL.User
	if user != nil && strings.Trim(user.String(), ":") == "" {
		user = nil // an @ with nothing in front of it
	}
	dialer := &net.Dialer{Timeout: o.Timeout, KeepAlive: 15 * time.Second}
	return &Webhook{
		url: &target, user: user, timeout: o.Timeout,
		transport: &http.Transport{
			// Only https goes through a proxy: it is tunnelled, so that the proxy
			// cannot read the token.
			Proxy: func(r *http.Request) (*url.URL, error) {
				if r.URL.Scheme != "https" {
					return nil, nil
				}
				return http.ProxyFromEnvironment(r)
			},
			OnProxyConnectResponse: netfault.OnProxyConnectResponse,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    o.Timeout,
			ResponseHeaderTimeout:  o.Timeout,
			MaxIdleConns:           o.Connections,
			MaxIdleConnsPerHost:    o.Connections,
			IdleConnTimeout:        idleTimeout,
			// What comes compressed nonetheless is decompressed below, within a limit.
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeaderBytes,
			// Only HTTP/1.1: one connection carries one POST, so that a dead one costs
			// one attempt and not all in flight, and the transport resends nothing.
			ForceAttemptHTTP2: false,
			TLSNextProto:      map[string]func(string, *tls.Conn) http.RoundTripper{},
		},
		redactor: newRedactor(o.URL),
	}
}

// CloseIdle closes idle connections. An instance that was frozen calls it when it
// wakes: they are dead, or half dead.
func (w *Webhook) CloseIdle() { w.transport.CloseIdleConnections() }

// Post sends the body once and reads the answer, all within the timeout.
func (w *Webhook) Post(ctx context.Context, token string, body []byte) (answer outbox.Answer) {
	answer.Host = w.url.Host
	answer.Excerpt = func() string { return w.redactor.excerpt(answer.Body, token, body) }
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var p progress
	req := (&http.Request{
		Method: http.MethodPost, URL: w.url, Host: w.url.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":     {"application/json"},
			outbox.TokenHeader: {token},
			"User-Agent":       {"outbox-dispatcher"},
		},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		// Lets the transport use another connection if a dead one carried nothing.
		// A request is never resent once a byte of it went out.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(p.watch(ctx))
	if w.user != nil {
		password, _ := w.user.Password()
		req.SetBasicAuth(w.user.Username(), password)
	}
	res, err := w.transport.RoundTrip(req)
	if err != nil {
		answer.Fault = p.fault(ctx, err)
		return answer
	}
	defer res.Body.Close()
	if res.StatusCode < 100 {
		answer.Fault = notHTTP
		return answer
	}
	answer.HTTPStatus = res.StatusCode
	if res.StatusCode < 200 || res.StatusCode > 299 {
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
			answer.RetryAfter = outbox.RetryAfter(res.Header.Get("Retry-After"), time.Now())
		}
		// The status is the answer; a body that breaks off changes nothing.
		answer.Body, _ = read(res, maxErrorBytes)
		if to, err := res.Location(); err == nil && to.Host != "" {
			answer.RedirectTo = w.redactor.excerpt([]byte(to.Scheme+"://"+to.Host), token, body)
		}
		return answer
	}
	switch answer.Body, err = read(res, outbox.MaxAnswerBytes+1); {
	case errors.Is(err, errCompressed):
		answer.Fault = "the compressed answer is invalid"
	case err != nil:
		answer.Fault = "the answer broke off: " + p.fault(ctx, err)
	}
	return answer
}
