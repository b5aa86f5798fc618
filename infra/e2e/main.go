// Command e2e proves the dispatcher end to end: it delivers events from a real
// Postgres through the real dispatcher to a real n8n, breaks things on the way, and
// holds the table against what n8n says it ran.
//
//	go run ./infra/e2e [-short] [-timeout 15m]
//	go run ./infra/e2e -serve     n8n with our workflows and its editor, to look around
//
// It needs npm, which installs n8n on the first run, and starts everything on free
// ports of the loopback address. That install stays; all processes end with this
// one, however it ends. The exit status is 1 when something does not hold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	short := flag.Bool("short", false, "leave out what stops and starts n8n")
	limit := flag.Duration("timeout", 15*time.Minute, "time for all but the install of n8n")
	serve := flag.Bool("serve", false, "start n8n with our workflows and its editor, and wait for Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	if err := run(ctx, *short, *serve, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	say("done after %s", since(began))
}

func run(ctx context.Context, short, serve bool, limit time.Duration) (err error) {
	const manifests = "infra/n8n"
	if _, err := os.Stat(manifests); err != nil {
		return fmt.Errorf("run it in the root of the project: %w", err)
	}
	p, err := install(ctx, manifests)
	if err != nil {
		return err
	}
	if !serve {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
		defer cancel()
	}
	s, err := newStage(ctx, p, serve)
	defer func() {
		if err != nil { // by what ended it, if it did not end by itself
			err = errors.Join(context.Cause(ctx), err)
		}
		err = errors.Join(err, s.close())
	}()
	if err != nil {
		return err
	}
	if serve {
		say("n8n is at %s, sign in as %s with %s; the token is %s; Ctrl-C ends it", s.n8n.url(), ownerEmail, ownerPassword, s.dispatcher.token)
		<-ctx.Done()
		return nil
	}
	if err := (&story{stage: s, excuses: map[string][]string{}}).tell(ctx, short); err != nil {
		return errors.Join(err, fmt.Errorf("the end of n8n's log:\n%s", tail(s.n8n.log())))
	}
	return nil
}

// say tells people what goes on.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }

// pause waits, or returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
