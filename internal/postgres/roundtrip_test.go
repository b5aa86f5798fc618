package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// counter is a proxy in front of Postgres that counts round trips: messages of
// the client that ask for an answer (Sync, Flush, a simple query).
type counter struct {
	url   string // of the database, through the proxy
	trips atomic.Int64
	pings atomic.Int64 // looks whether a session that was idle is alive; not in trips

	mu    sync.Mutex
	conns []net.Conn
	dead  chan struct{} // closed: the connections made until then lead nowhere
}

func countRoundTrips(t testing.TB, to string) *counter {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{dead: make(chan struct{})}
	u.Host = listener.Addr().String()
	c.url = u.String()
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.carry(client, server) })
		}
	})
	return c
}

// lose makes the connections that there are swallow what they are sent, as after
// a NAT forgot them.
func (c *counter) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.dead)
	c.dead = make(chan struct{})
}

func (c *counter) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

func (c *counter) carry(client net.Conn, server string) {
	defer client.Close()
	c.mu.Lock()
	dead := c.dead
	c.conns = append(c.conns, client)
	c.mu.Unlock()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	go func() {
		_, _ = io.Copy(client, upstream)
		_ = client.Close()
	}()
	// The first message has no type: it opens the session.
	for typed := false; ; typed = true {
		head := make([]byte, 4)
		if typed {
			head = make([]byte, 5)
		}
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		select {
		case <-dead:
			continue
		default:
		}
		if typed {
			switch {
			case head[0] == 'Q' && string(body) == "-- ping\x00":
				c.pings.Add(1)
			case strings.ContainsRune("SHQ", rune(head[0])):
				c.trips.Add(1)
			}
		}
		if _, err := upstream.Write(append(head, body...)); err != nil {
			return
		}
	}
}

// count returns the round trips of what f does.
func (c *counter) count(f func()) int64 {
	before := c.trips.Load()
	f()
	return c.trips.Load() - before
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := countRoundTrips(t, f.url)
	for _, mode := range []string{"", "default_query_exec_mode=exec", "default_query_exec_mode=simple_protocol", "default_query_exec_mode=cache_statement", "default_query_exec_mode=cache_describe"} {
		t.Run(mode, func(t *testing.T) {
			f.store = f.open(c.url, mode)
			f.exec("truncate outbox_events")
			// One session is opened, and statements that a mode caches are cached.
			for range 2 {
				f.put(1)
				f.put(2)
				e := f.take(reclaiming(10)).Events
				f.record(succeeded(e[0]))
				f.release(e[1])
				f.record(succeeded(e[0]))
				f.take(suspectsOnly)
				_, _ = f.store.Backlog(t.Context())
				f.exec("truncate outbox_events")
			}
			f.fill(500)
			var events []outbox.Event
			var outcomes []outbox.Outcome
			var released []outbox.Event
			for _, step := range []struct {
				name string
				want int64
				do   func()
			}{
				{"look at the table", 0, func() { _ = f.store.Ready(t.Context()) }}, // it was looked at
				{"claim of 500, with reclaim and backlog", 1, func() { events = f.take(reclaiming(500)).Events }},
				{"claim of nothing, with reclaim and backlog", 1, func() { f.take(reclaiming(500)) }},
				{"claim of suspects", 1, func() { f.take(suspectsOnly, limit(1)) }},
				{"500 outcomes", 1, func() {
					for _, e := range events[:499] {
						outcomes = append(outcomes, succeeded(e))
					}
					released = events[499:]
					f.record(outcomes...)
				}},
				{"release", 1, func() { f.release(released...) }},
				{"outcomes that were not written", 2, func() { f.record(outcomes...) }},
				{"backlog", 1, func() { _, _ = f.store.Backlog(t.Context()) }},
			} {
				if got := c.count(step.do); got != step.want {
					t.Errorf("%s: %d round trips, want %d", step.name, got, step.want)
				}
			}
		})
	}
}

func TestFirstInvocationRoundTrips(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := countRoundTrips(t, f.url)
	f.put(1)
	f.store = f.open(c.url)
	if got := c.count(func() {
		if err := f.store.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.take(reclaiming(500))
	}); got != 2 {
		t.Errorf("%d round trips behind the login, want one look at the table and one claim", got)
	}
}

func TestAnIdleSessionIsLookedAtFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := countRoundTrips(t, f.url)
	f.store = f.open(c.url)
	f.take()
	if got := c.pings.Load(); got != 0 {
		t.Errorf("%d looks at a session in use", got)
	}
	time.Sleep(1100 * time.Millisecond) // nothing to wait for: a session idles
	f.take()
	if got := c.pings.Load(); got != 1 {
		t.Errorf("%d looks at a session that was idle, want 1", got)
	}
}

func TestASessionThatDiedWithoutAWordIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := countRoundTrips(t, f.url)
	f.store = f.open(c.url)
	t.Cleanup(c.hangUp) // before the store is closed, which would wait for an answer
	f.fill(2)
	f.take(limit(1))
	time.Sleep(1100 * time.Millisecond) // nothing to wait for: the instance is frozen
	c.lose()
	started := time.Now()
	if got := numbers(f.take(limit(1)).Events); got != "1" {
		t.Errorf("claimed %q", got)
	}
	ping := f.store.pool.Config().PingTimeout
	if took := time.Since(started); took < ping || took > limitsByDefault.claim {
		t.Errorf("it took %v, want a little more than %v", took, ping)
	}
	f.check(1, "delivering 0", "delivery_status", "lost_leases")
}
