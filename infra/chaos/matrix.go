package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"
)

// shortMatrix is what CI has time for: SIGKILL at every moment, and every other
// fault at the moments that differ most for it.
var shortMatrix = map[string]string{
	"SIGKILL":                          `.`,
	"Lambda deadline":                  `during the POST|before the record`,
	"stall beyond the lease":           `during the POST|before the record`,
	"Postgres killed, back at once":    `claim committed|during the POST|record committed`,
	"Postgres restarted":               `before the record`,
	"Postgres gone until later":        `during the POST`,
	"sessions terminated":              `claim on its way|during the POST|release committed`,
	"reset on the way to Postgres":     `claim committed|half a record sent|record committed`,
	"sessions die unnoticed":           `in the freeze`,
	"black hole before Postgres":       `claim on its way|record committed`,
	"n8n killed, back at once":         `during the POST|before the record`,
	"n8n gone until later":             `during the POST`,
	"reset on the way to n8n":          `half a POST sent|answer on its way`,
	"connections to n8n die unnoticed": `during the POST|in the freeze`,
	"black hole before n8n":            `before the POST`,
}

// cells of the matrix: all, or the short selection, of them those whose name
// matches.
func cells(short bool, name *regexp.Regexp) (all []*cell) {
	for _, f := range faults {
		for _, m := range moments {
			c := &cell{fault: f, moment: m}
			if m.asleep && f.ends != returns || m.asleep && f.lease > 0 {
				continue // a frozen process has nothing in its hands
			}
			if short && !regexp.MustCompile(shortMatrix[f.name]).MatchString(m.name) || !name.MatchString(c.name()) {
				continue
			}
			all = append(all, c)
		}
	}
	return all
}

// runMatrix plays the cells on several lanes, each with a Postgres of its own, for
// they wait more than they compute. It reports whether all of them held.
func runMatrix(ctx context.Context, out io.Writer, all []*cell, lanes int, bootstrap string, verbose bool) (ok bool, err error) {
	next := make(chan *cell)
	var working sync.WaitGroup
	var mu sync.Mutex
	for range min(lanes, len(all)) {
		working.Go(func() {
			e := within(func(s *scope) error {
				server, err := startPostgres(ctx, s)
				if err != nil {
					return err
				}
				for c := range next {
					c.run(server, bootstrap)
				}
				return nil
			})
			if e != nil {
				mu.Lock()
				err = e
				mu.Unlock()
				for range next { // without a Postgres nothing can be played
				}
			}
		})
	}
	started := time.Now()
	for _, c := range all {
		if ctx.Err() != nil {
			break
		}
		next <- c
	}
	close(next)
	working.Wait()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return false, err
	}
	return printMatrix(out, all, time.Since(started), verbose), nil
}

// printMatrix prints a line for each cell, and reports whether all held. verbose
// adds the report of each invocation that was struck.
func printMatrix(out io.Writer, all []*cell, took time.Duration, verbose bool) (ok bool) {
	const format = "%-34s%-20s%7v%6v%7v%12v  %s\n"
	fmt.Fprintf(out, format, "fault", "moment", "events", "lost", "stuck", "duplicates", "why they were allowed")
	var sum verdict
	last := ""
	for _, c := range all {
		name := c.fault.name
		if name == last {
			name = ""
		}
		last = c.fault.name
		v := c.verdict
		fmt.Fprintf(out, format, name, c.moment.name, v.events, v.lost, v.stuck, v.duplicates, c.why)
		if verbose {
			fmt.Fprintf(out, "    struck: %+v\n", c.report)
		}
		for _, problem := range v.problems {
			fmt.Fprintf(out, "    DOES NOT HOLD: %s\n", problem)
		}
		sum.events += v.events
		sum.lost += v.lost
		sum.stuck += v.stuck
		sum.duplicates += v.duplicates
		sum.problems = append(sum.problems, v.problems...)
	}
	fmt.Fprintf(out, format, "all", fmt.Sprintf("%d cells", len(all)), sum.events, sum.lost, sum.stuck, sum.duplicates, "in "+took.Round(100*time.Millisecond).String())
	return len(sum.problems) == 0
}
