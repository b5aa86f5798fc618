// Command chaos breaks everything around the dispatcher at every step, and shows
// that nothing is lost, stuck, or doubled without a reason: `make chaos`, or
//
//	go run ./infra/chaos [-short] [-long] [-run REGEXP] [-v]
//
// The real bootstrap runs under a runtime API made for tests, with a throw-away
// Postgres and a scripted n8n, and a stretch of network to each that can fail:
//
//	runtime API ── bootstrap ──┬── proxy ── Postgres
//	                           └── proxy ── n8n
//
// # The matrix
//
// Every fault (fault.go) strikes at every moment of an invocation (moment.go), on
// ten fresh events. Then time passes and later invocations mend it. Each event must
// have been acknowledged and be succeeded, no row may have been leased without
// end, attempts must be those that its history tells of, and
//
//	POSTs <= attempts + lost leases + lost outcomes
//
// A duplicate is a POST of an event that n8n had got before. Each fault says how
// many it explains; most explain none.
//
// # The long run
//
// An hour's invocations back to back on one warm instance, frozen and thawed
// between them, with faults of all kinds, while memory, threads, file handles and
// connections are watched; and some more inside this process, where goroutines can
// be seen.
//
// The exit status is 1 if anything did not hold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"outbox-dispatcher/internal/testkit/lambdatest"
)

func main() { os.Exit(realMain()) }

// options of the command line.
type options struct {
	short, long, verbose bool
	run                  *regexp.Regexp
	lanes                int
	seed                 uint64
	timeout              time.Duration
}

func realMain() int {
	var o options
	flag.BoolVar(&o.short, "short", false, "a selection of the matrix and a shorter long run, for CI")
	flag.BoolVar(&o.long, "long", false, "the long run alone")
	flag.BoolVar(&o.verbose, "v", false, "print the report of each invocation that was struck")
	run := flag.String("run", "", "only cells whose \"fault / moment\" matches this `regexp`, and no long run")
	flag.IntVar(&o.lanes, "lanes", 6, "cells at the same time; they wait more than they compute")
	flag.Uint64Var(&o.seed, "seed", 20250102, "of the faults of the long run")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "for all of it")
	flag.Parse()
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	ok, err := play(ctx, os.Stdout, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || !ok {
		return 1
	}
	return 0
}

// play does what was asked for. It reports whether all of it held.
func play(ctx context.Context, out io.Writer, o options) (ok bool, err error) {
	ok = true
	err = within(func(s *scope) error {
		defer lambdatest.Clean()
		bootstrap := lambdatest.Build(s, "./functions/dispatcher")
		if !o.long {
			all := cells(o.short, o.run)
			if len(all) == 0 {
				return errors.New("no cell has such a name")
			}
			if ok, err = runMatrix(ctx, out, all, o.lanes, bootstrap, o.verbose); err != nil {
				return err
			}
		}
		if o.run.String() != "" {
			return nil
		}
		n := invocationsOfAnHour
		if o.short {
			n /= 6
		}
		flat, err := runLong(ctx, out, bootstrap, o.seed, n)
		ok = ok && flat
		return err
	})
	return ok, err
}
