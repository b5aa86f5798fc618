package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/testkit/lambdatest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	shared.end()
	lambdatest.Clean()
	os.Exit(status)
}

// One cell of each kind, so that `make test` knows that `make chaos` works.
func TestMatrix(t *testing.T) {
	t.Parallel()
	bootstrap := lambdatest.Build(t, "./functions/dispatcher")
	var out strings.Builder
	all := cells(false, regexp.MustCompile(`^(SIGKILL / before the record|Postgres killed, back at once / during the POST|n8n killed, back at once / answer on its way|reset on the way to Postgres / record committed|black hole before Postgres / claim on its way|sessions die unnoticed / in the freeze)$`))
	if len(all) != 6 {
		t.Fatalf("%d cells", len(all))
	}
	ok, err := runMatrix(t.Context(), &out, all, 3, bootstrap, true)
	if t.Log("\n" + out.String()); err != nil || !ok {
		t.Errorf("the matrix does not hold: %v", err)
	}
}

func TestShortMatrixNamesWhatThereIs(t *testing.T) {
	for name, pattern := range shortMatrix {
		found := false
		for _, c := range cells(true, regexp.MustCompile("")) {
			found = found || c.fault.name == name
		}
		if !found {
			t.Errorf("the short matrix has no cell of %q at %q", name, pattern)
		}
	}
	for _, f := range faults {
		if shortMatrix[f.name] == "" {
			t.Errorf("the short matrix leaves out %q", f.name)
		}
	}
}

// Judge finds what does not hold.
func TestJudge(t *testing.T) {
	good := fate{ID: "e", Status: "succeeded", Attempts: 1, RunID: "run-e", Bounded: true, posts: 1}
	for name, c := range map[string]struct {
		change func(*fate)
		want   string
	}{
		"Good":              {func(*fate) {}, ""},
		"LostLeaseExplains": {func(f *fate) { f.posts, f.LostLeases = 2, 1 }, ""},
		"FailureExplains":   {func(f *fate) { f.posts, f.Attempts, f.Failures = 2, 2, 1 }, ""},
		"Stuck":             {func(f *fate) { f.Status = "delivering" }, "still delivering"},
		"NeverSent":         {func(f *fate) { f.posts = 0 }, "never saw it"},
		"Doubled":           {func(f *fate) { f.posts = 2 }, "no attempt and no lost lease"},
		"TokenLeft":         {func(f *fate) { f.Token = true }, "claim token"},
		"AttemptsTooMany":   {func(f *fate) { f.Attempts = 2 }, "2 attempts"},
		"AnothersRun":       {func(f *fate) { f.RunID = "x" }, "external_run_id"},
	} {
		t.Run(name, func(t *testing.T) {
			f := good
			c.change(&f)
			got := strings.Join(judge([]fate{f}, 1, 0).problems, "; ")
			if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	if v := judge([]fate{good}, 2, 0); v.lost != 1 || len(v.problems) != 1 {
		t.Errorf("a row that is gone: %+v", v)
	}
}

func TestFlat(t *testing.T) {
	grown := func(by int) (samples []sample) {
		for n := range 100 {
			samples = append(samples, sample{memory: 30_000 + n%7*100, threads: 6, handles: 20 + by*n/100, connections: 9})
		}
		return samples
	}
	if !printFlat(io.Discard, grown(0)) {
		t.Error("what is flat was said to grow")
	}
	if printFlat(io.Discard, grown(20)) {
		t.Error("twenty more file handles were not found")
	}
	if _, err := take(os.Getpid()); err != nil {
		t.Error(err)
	}
}

// message is one of Postgres' frontend protocol.
func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
}

// server answers each Sync with an empty result, and keeps what it was sent.
type server struct {
	net.Listener
	got chan []byte
}

func newServer(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l, make(chan []byte, 10)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var all []byte
				for chunk := range chunks(conn) {
					all = append(all, chunk...)
					if bytes.HasSuffix(all, message('S', "")) {
						_, _ = conn.Write(message('Z', "I"))
					}
				}
				s.got <- all
			}()
		}
	}()
	return s
}

func TestProxy(t *testing.T) {
	t.Parallel()
	startup := message(0, "user")[1:]
	query := append(append(message('P', "\x00-- Record: outcomes"), message('B', "-- Record: a value")...), message('S', "")...)
	for name, c := range map[string]struct {
		phase    phase
		goesOn   bool
		got      int // bytes at the server
		answered bool
	}{
		"OnItsWayAndGone":   {onItsWay, false, len(startup), false},
		"OnItsWayAndOn":     {onItsWay, true, len(startup) + len(query), true},
		"HalfSent":          {halfSent, false, len(startup) + len(message('P', "\x00-- Record: outcomes"))/2, false},
		"OnItsBackAndGone":  {onItsBack, false, len(startup) + len(query), false},
		"OnItsBackAndOn":    {onItsBack, true, len(startup) + len(query), true},
		"AnotherStatement":  {onItsWay + 100, false, len(startup) + len(query), true},
		"VanishesUnnoticed": {onItsWay + 200, false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			x, err := startProxy(s.Addr().String(), postgresMessages{})
			if err != nil {
				t.Fatal(err)
			}
			defer x.close()
			words := "Record:"
			if c.phase > onItsBack {
				words = "Claim:"
			}
			x.swallowing(c.phase == onItsWay+200)
			x.arm(&trigger{fits: statement(words), nth: 1, phase: c.phase, strike: func() bool { return c.goesOn }})
			conn, err := net.Dial("tcp", x.address())
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range [][]byte{startup[:3], startup[3:], query[:10], query[10:]} {
				if _, err := conn.Write(b); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond) // so that it comes in pieces
			}
			_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			n, _ := conn.Read(make([]byte, 10))
			if (n > 0) != c.answered {
				t.Errorf("answered with %d bytes, want any: %v", n, c.answered)
			}
			conn.Close()
			if c.got == 0 {
				return
			}
			select {
			case all := <-s.got:
				if len(all) != c.got {
					t.Errorf("the server got %d bytes, want %d", len(all), c.got)
				}
			case <-time.After(10 * time.Second):
				t.Error("the server still waits")
			}
		})
	}
}

func TestProxyDeadens(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	x, err := startProxy(s.Addr().String(), postgresMessages{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	ask := func(conn net.Conn, first bool) error {
		b := message('S', "")
		if first {
			b = append(message(0, "user")[1:], b...)
		}
		_, _ = conn.Write(b)
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if n, err := conn.Read(make([]byte, 10)); n == 0 {
			return fmt.Errorf("no answer: %w", err)
		}
		return nil
	}
	var conns []net.Conn
	for range 2 {
		conn, err := net.Dial("tcp", x.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
		if len(conns) == 1 {
			if err := ask(conn, true); err != nil {
				t.Fatal(err)
			}
			x.deaden()
		}
	}
	if err := ask(conns[0], false); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a dead connection: %v", err)
	}
	if err := ask(conns[1], true); err != nil {
		t.Errorf("a new one: %v", err)
	}
}
