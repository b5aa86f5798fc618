package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"runtime/pprof"
	"strings"
	"time"

	"go.uber.org/goleak"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// insideInvocations are enough to see a goroutine that each leaves behind.
const insideInvocations = 60

// runInside looks at goroutines, which are not to be seen from outside: the same
// dispatcher in this process. Behind each invocation none of it may be left
// running, and at the end none at all.
func runInside(ctx context.Context, out io.Writer, seed uint64) (ok bool, err error) {
	err = within(func(s *scope) error {
		server, err := startPostgres(ctx, s)
		if err != nil {
			return err
		}
		before := goleak.IgnoreCurrent()
		most := 0
		err = within(func(s *scope) error {
			most, err = inside(s, &place{postgres: server}, seed)
			return err
		})
		if err != nil {
			return err
		}
		leaked := goleak.Find(before)
		ok = most == 0 && leaked == nil
		fmt.Fprintf(out, "%d invocations in this process: goroutines of the dispatcher left behind one: %d; behind all: ", insideInvocations, most)
		if leaked == nil {
			fmt.Fprintln(out, "none")
		} else {
			fmt.Fprintln(out, leaked)
		}
		return nil
	})
	return ok, err
}

// inside does the invocations and returns the most goroutines left behind one.
func inside(s *scope, p *place, seed uint64) (most int, err error) {
	n, err := n8ntest.Start()
	if err != nil {
		return 0, err
	}
	s.Cleanup(n.Close)
	db, err := startProxy(fmt.Sprintf("127.0.0.1:%d", p.postgres.Port()), postgresMessages{})
	if err != nil {
		return 0, err
	}
	s.Cleanup(db.close)
	store, err := postgres.Open(config.Database{URL: "postgres://postgres@" + db.address() + "/postgres?sslmode=disable", Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
	if err != nil {
		return 0, err
	}
	s.Cleanup(store.Close)
	target, err := url.Parse(n.URL())
	if err != nil {
		return 0, err
	}
	webhook := n8n.New(n8n.Options{URL: target, Timeout: longPost, Connections: 10})
	s.Cleanup(webhook.CloseIdle)
	d := cycle.Dispatcher{
		Settings: cycle.Settings{
			Enabled: true, HTTPTimeout: longPost, Lease: leaseOfIt, MaxBodyBytes: 15 << 20,
			Policy:     outbox.Policy{MaxAttempts: 1000, BackoffCap: 100 * time.Millisecond},
			ClaimLimit: 500, ReclaimLimit: 500, ClaimBytes: 32 << 20, Concurrency: 10, MaxLostLeases: 1000,
		},
		Store: store, Webhook: webhook, Tokens: constant(token), Observer: cycle.Discard{}, Pacer: cycle.NewPacer(),
	}
	run := longRun{place: p}
	run.place.n8n = n
	for i := range insideInvocations {
		if err := run.insert(10*i+1, 10*i+10); err != nil {
			return most, err
		}
		n.ScriptFunc(moods(seed + uint64(i)))
		n.OnPost(func(p n8ntest.Post) {
			if i%10 == 5 && p.Number == 1 {
				db.reset()
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := d.Run(ctx, cycle.Request{})
		cancel()
		if err != nil {
			return most, err
		}
		webhook.CloseIdle()
		most = max(most, left())
	}
	return most, nil
}

// left counts the goroutines of the dispatcher, once those that are about to end
// have ended.
func left() (n int) {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var stacks bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2) // a Buffer takes everything
		n = 0
		for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
			if strings.Contains(stack, "outbox-dispatcher/internal/cycle.") || strings.Contains(stack, "net/http.(*persistConn)") {
				n++
			}
		}
		if n == 0 {
			return 0
		}
	}
	return n
}

// constant is a token that never changes.
type constant string

func (c constant) Token(context.Context) (string, error)   { return string(c), nil }
func (c constant) Refresh(context.Context) (string, error) { return string(c), nil }
