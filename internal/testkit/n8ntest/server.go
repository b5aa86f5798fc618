// Package n8ntest is a scripted n8n over real HTTP, for tests.
//
// A server acknowledges every event, unless a script says otherwise, and keeps
// what it saw:
//
//	n8n := n8ntest.New(t)
//	n8n.Script(badID, n8ntest.Answer{Status: 500, Times: 2}) // then acknowledged
//	... deliver to n8n.URL() ...
//	n8n.PostsOf(badID)   // 3
//	n8n.MaxInFlight()    // at most the concurrency
//
// Every method is safe for concurrent use, also while POSTs are out.
package n8ntest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Path of the webhook in URL.
const Path = "/webhook/outbox"

// Server is a scripted n8n. Make one with New, NewTLS, Start or StartTLS.
type Server struct {
	scheme, address string
	authority       *Authority   // nil without TLS
	tls             *tls.Config  // nil without TLS
	handlers        sync.RWMutex // held for reading by each of them

	mu        sync.Mutex
	served    *http.Server
	ended     context.CancelFunc // of all that waits in handlers
	scripts   map[string]*script
	everybody *script
	decide    func(Post) *Answer
	token     string
	latency   time.Duration
	hook      func(Post)
	forget    bool
	seen
}

// New starts a server for the length of a test.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := Start()
	return cleanup(t, s, err)
}

// NewTLS is New over https, with HTTP/2 for clients that speak it. Clients trust
// it by TLS().
func NewTLS(t testing.TB) *Server {
	t.Helper()
	s, err := StartTLS()
	return cleanup(t, s, err)
}

func cleanup(t testing.TB, s *Server, err error) *Server {
	t.Helper()
	if err != nil {
		t.Fatalf("starting a scripted n8n: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a server on a free port of 127.0.0.1. The caller closes it.
func Start() (*Server, error) {
	s := &Server{scheme: "http", scripts: map[string]*script{}}
	s.reset()
	return s, s.listen("127.0.0.1:0")
}

// StartTLS is Start over https.
func StartTLS() (*Server, error) {
	a := NewAuthority()
	s := &Server{
		scheme: "https", scripts: map[string]*script{}, authority: a,
		tls: &tls.Config{Certificates: []tls.Certificate{a.Issue(Certificate{})}},
	}
	s.reset()
	return s, s.listen("127.0.0.1:0")
}

func (s *Server) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := &http.Server{
		Handler:     http.HandlerFunc(s.serve),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.accepted()
			}
		},
		ErrorLog: log.New(io.Discard, "", 0), // faults of clients are what tests make
	}
	s.mu.Lock()
	s.address, s.served, s.ended = listener.Addr().String(), served, cancel
	s.mu.Unlock()
	go func() {
		var err error
		if s.tls != nil {
			served.TLSConfig = s.tls.Clone()
			err = served.ServeTLS(listener, "", "")
		} else {
			err = served.Serve(listener)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			panic("n8ntest: " + err.Error())
		}
	}()
	return nil
}

// Close ends the server and every connection, and waits for its handlers. More
// than once is allowed; from OnPost it is not.
func (s *Server) Close() {
	s.Down()
	s.handlers.Lock()
	defer s.handlers.Unlock()
}

// Down ends the server as a crash does: connections break, new ones are refused.
// Scripts and counters stay. It is allowed from OnPost.
func (s *Server) Down() {
	s.mu.Lock()
	served, ended := s.served, s.ended
	s.served, s.ended = nil, nil
	s.mu.Unlock()
	if served != nil {
		ended()
		_ = served.Close() // only tells of connections that were gone already
	}
}

// Up starts the server again, on the same port.
func (s *Server) Up() error { return s.listen(s.Address()) }

// Address is host:port.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// URL of the webhook.
func (s *Server) URL() string { return s.scheme + "://" + s.Address() + Path }

// TLS is what a client needs to trust the server; nil without TLS.
func (s *Server) TLS() *tls.Config {
	if s.authority == nil {
		return nil
	}
	return &tls.Config{RootCAs: s.authority.Pool()}
}

// Roots are the authorities that vouch for the server; nil without TLS.
func (s *Server) Roots() *x509.CertPool {
	if s.authority == nil {
		return nil
	}
	return s.authority.Pool()
}

// RequireToken makes every POST without this token answered 403, as n8n does,
// from now on. Empty: any token will do.
func (s *Server) RequireToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// SetLatency is how long every answer takes, before its own delay.
func (s *Server) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// OnPost has f called with every POST, while it is out: the answer waits for f.
// It may call any method of the server but Close, and must leave the body as it is.
func (s *Server) OnPost(f func(Post)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

// ForgetBodies keeps no bodies from now on, for tests with large ones.
func (s *Server) ForgetBodies() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget = true
}
