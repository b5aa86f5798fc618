package n8ntest

import (
	"net"
	"sync"
	"testing"
)

// TCP is a bare server for what no HTTP server does: it hands every connection
// to a function.
type TCP struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu          sync.Mutex
	connections []net.Conn
	closed      bool
}

// NewTCP starts one for the length of a test. serve is called for each connection
// in a goroutine of its own, with its number from 1; the connection is closed
// when serve returns, or when the test ends.
func NewTCP(t testing.TB, serve func(conn net.Conn, number int)) *TCP {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	s := &TCP{listener: listener}
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n := s.add(conn)
			s.serving.Go(func() {
				defer conn.Close()
				serve(conn, n)
			})
		}
	})
	t.Cleanup(s.Stop)
	return s
}

func (s *TCP) add(conn net.Conn) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
	}
	s.connections = append(s.connections, conn)
	return len(s.connections)
}

// Stop ends the server and every connection. More than once is allowed; from
// serve it is not.
func (s *TCP) Stop() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for _, conn := range s.connections {
		conn.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// Address is host:port.
func (s *TCP) Address() string { return s.listener.Addr().String() }

// Connections is the number of connections that were accepted.
func (s *TCP) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}
