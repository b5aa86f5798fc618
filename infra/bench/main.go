// Command bench measures the dispatcher: beside the limits of HTTP and SQL and
// beside River in one run, and on its own where there is nobody to compare with.
//
//	go run .            the main table: events/s, CPU, memory, money
//	go run . -quick     three of its cells in under two minutes
//	go run . -claim     a claim on an empty table and on ten million rows
//	go run . -many      one to eight dispatchers on one table
//	go run . -linger    commit to acknowledgement, with and without lingering
//	go run . -cold      start of the bootstrap and its first invocation
//	go run . -pacing    the picture of the simulated outage
//	go run . -all       all of it, about half an hour
//
// Everything runs on loopback: a throw-away Postgres with fsync on, a sink that
// stands for n8n, the bootstrap as it is deployed under a runtime API. Results
// go to the folder results. Absolute figures are those of the machine; what
// counts are the ratios between contenders of one run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// options of a run.
type options struct {
	quick bool
	reps  int
	cells string
	rows  int
}

// part is something to measure.
type part struct {
	name, what string
	run        func(context.Context, *place, options) error
}

var parts = []part{
	{"claim", "claims on an empty table and on a large one", claimPart},
	{"many", "several dispatchers on one table", manyPart},
	{"linger", "commit to acknowledgement", lingerPart},
	{"cold", "cold start", coldPart},
	{"pacing", "the picture of the simulated outage", pacingPart},
	{"profile", "CPU profile of the cycle, in process, at 0 ms and 100 in flight", profilePart},
}

func main() {
	if len(os.Args) == 2 && roles[os.Args[1]] != nil {
		exit(roles[os.Args[1]]())
	}
	var o options
	flag.BoolVar(&o.quick, "quick", false, "a part of the cells, shorter")
	flag.IntVar(&o.reps, "reps", 3, "repetitions; ratios are medians of those within one repetition")
	flag.StringVar(&o.cells, "cells", "", "cells of the table, such as 0x100,20x10: ms of n8n x in flight")
	flag.IntVar(&o.rows, "rows", 10_000_000, "succeeded rows of -claim")
	all := flag.Bool("all", false, "the table and every part but the profile")
	chosen := map[string]*bool{}
	for _, p := range parts {
		chosen[p.name] = flag.Bool(p.name, false, p.what)
	}
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o, func(name string) bool { return *all && name != "profile" || *chosen[name] }, *all))
}

// run measures what was chosen; the table if nothing was.
func run(ctx context.Context, o options, chosen func(string) bool, table bool) error {
	var todo []part
	for _, p := range parts {
		if chosen(p.name) {
			todo = append(todo, p)
		}
	}
	if table || len(todo) == 0 {
		todo = append([]part{{"bench", "the table", tablePart}}, todo...)
	}
	p, err := newPlace(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	for _, part := range todo {
		fmt.Printf("\n%s\n\n", part.what)
		if err := part.run(ctx, p, o); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
