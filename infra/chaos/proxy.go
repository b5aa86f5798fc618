package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// proxy is a stretch of network that can be told to fail. It stands in front of
// Postgres or of n8n, passes everything on, and knows where one message of the
// client ends and the next begins, so that a fault can strike at a message.
//
//	client ──── link ────▶ server
//	        hold, drop, cut in the middle, reset, swallow
type proxy struct {
	listener net.Listener
	protocol protocol

	mu      sync.Mutex
	target  string
	links   map[*link]bool
	swallow bool
	closed  bool
	trigger *trigger
	working sync.WaitGroup
}

// protocol cuts what both sides say into messages.
type protocol interface {
	// client returns the length of the first whole message in b and what it
	// says; 0 if more has to come.
	client(b []byte, first bool) (length int, text string)
	// answered reports whether b, all that the server has said since a message,
	// is its whole answer.
	answered(b []byte) bool
}

// phase of a message at which a trigger strikes.
type phase int

const (
	onItsWay  phase = iota // the server has seen nothing of it
	halfSent               // the server has the first half of its bytes
	onItsBack              // the server has answered, the client has seen nothing of that
)

// trigger strikes once: at the nth message that fits.
type trigger struct {
	fits  func(text string) bool
	nth   int
	phase phase
	// strike does what it does while the message waits. It reports whether the
	// message, or the answer, goes on then.
	strike func() (goesOn bool)
	struck chan struct{} // closed when strike has returned
}

// link is one connection.
type link struct {
	client, server net.Conn
	dead           atomic.Bool // nothing passes any more, and nobody is told
	mu             sync.Mutex
	hold           *trigger // of which the answer is held back
}

func startProxy(target string, p protocol) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	x := &proxy{listener: listener, target: target, protocol: p, links: map[*link]bool{}}
	x.working.Go(x.accept)
	return x, nil
}

// address is host:port for clients.
func (x *proxy) address() string { return x.listener.Addr().String() }

// aim leads new connections to another server.
func (x *proxy) aim(target string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.target = target
}

// arm sets the trigger. There is one at a time.
func (x *proxy) arm(t *trigger) {
	t.struck = make(chan struct{})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.trigger = t
}

// reset breaks every connection with a RST.
func (x *proxy) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for l := range x.links {
		l.reset()
	}
}

// swallowing makes every byte vanish, of open connections and of new ones, or
// ends that: what was open then is reset.
func (x *proxy) swallowing(on bool) {
	x.mu.Lock()
	x.swallow = on
	x.mu.Unlock()
	if !on {
		x.reset()
	}
}

// deaden makes every byte of the connections that are open now vanish, as behind a
// NAT that has forgotten them. New ones work.
func (x *proxy) deaden() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for l := range x.links {
		l.dead.Store(true)
	}
}

func (x *proxy) close() {
	x.mu.Lock()
	x.closed = true
	_ = x.listener.Close() // twice is no harm
	x.mu.Unlock()
	x.reset()
	x.working.Wait()
}

func (x *proxy) accept() {
	for {
		conn, err := x.listener.Accept()
		if err != nil {
			return
		}
		l := &link{client: conn}
		x.mu.Lock()
		if x.closed {
			_ = conn.Close()
		}
		x.links[l] = true
		x.mu.Unlock()
		x.working.Go(func() {
			x.serve(l)
			l.reset()
			x.mu.Lock()
			delete(x.links, l)
			x.mu.Unlock()
		})
	}
}

// serve passes on until one side ends.
func (x *proxy) serve(l *link) {
	if x.vanishes() {
		_, _ = io.Copy(io.Discard, l.client) // until it gives up
		return
	}
	x.mu.Lock()
	target := x.target
	x.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return // refused here, reset there
	}
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		x.passBack(l)
		_ = l.client.Close()
	})
	x.pass(l)
	_ = server.Close()
	back.Wait()
}

// pass takes the messages of the client to the server.
func (x *proxy) pass(l *link) {
	var waiting []byte
	first := true
	for chunk := range chunks(l.client) {
		waiting = append(waiting, chunk...)
		for {
			length, text := x.protocol.client(waiting, first)
			if length == 0 {
				break
			}
			message := waiting[:length]
			waiting, first = waiting[length:], false
			if !x.send(l, message, text) {
				return
			}
		}
	}
}

// send takes one message to the server. False ends the link.
func (x *proxy) send(l *link, message []byte, text string) bool {
	t := x.fitting(text)
	if t != nil {
		switch t.phase {
		case onItsWay:
			if !t.fire() {
				return false
			}
		case halfSent:
			half := len(message) / 2
			if !x.write(l, l.server, message[:half]) || !t.fire() {
				return false
			}
			message = message[half:]
		case onItsBack:
			l.mu.Lock()
			l.hold = t
			l.mu.Unlock()
		}
	}
	return x.write(l, l.server, message)
}

// passBack takes the answers of the server to the client.
func (x *proxy) passBack(l *link) {
	var held []byte
	for chunk := range chunks(l.server) {
		l.mu.Lock()
		t := l.hold
		l.mu.Unlock()
		if t != nil {
			held = append(held, chunk...)
			if !x.protocol.answered(held) {
				continue
			}
			if !t.fire() {
				return
			}
			chunk, held = held, nil
			l.mu.Lock()
			l.hold = nil
			l.mu.Unlock()
		}
		if !x.write(l, l.client, chunk) {
			return
		}
	}
}

// fitting returns the trigger if this is its message.
func (x *proxy) fitting(text string) *trigger {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.trigger
	if t == nil || !t.fits(text) {
		return nil
	}
	if t.nth--; t.nth > 0 {
		return nil
	}
	x.trigger = nil
	return t
}

func (t *trigger) fire() bool {
	defer close(t.struck)
	return t.strike()
}

func (x *proxy) vanishes() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.swallow
}

// write sends bytes, unless they vanish.
func (x *proxy) write(l *link, to net.Conn, b []byte) bool {
	if l.dead.Load() || x.vanishes() {
		return true
	}
	_, err := to.Write(b)
	return err == nil
}

func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range []net.Conn{l.client, l.server} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a RST in place of a FIN
			_ = tcp.Close()
		}
	}
}

// chunks yields what a connection says until it ends.
func chunks(conn net.Conn) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		b := make([]byte, 64<<10)
		for {
			n, err := conn.Read(b)
			if n > 0 && !yield(b[:n]) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}
