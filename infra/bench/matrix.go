package main

import (
	"context"
	"fmt"
	"slices"
)

// contenders in the order of the table.
var contenders = []string{"ours", "bare", "river"}

// runs of a contender in a cell, one a repetition.
type runs map[cell]map[string][]result

// tablePart measures the table, and the memory with larger events.
func tablePart(ctx context.Context, p *place, o options) error {
	cells, err := chosenCells(o)
	if err != nil {
		return err
	}
	if o.quick {
		o.reps = 1
	}
	all := runs{}
	var floor []result
	for rep := range o.reps {
		fmt.Printf("repetition %d of %d\n", rep+1, o.reps)
		r, err := p.one(ctx, "floor", cell{inFlight: floorSessions}, eventsAtZero, smallBody)
		if err != nil {
			return err
		}
		floor = append(floor, r)
		for _, c := range cells {
			// Another one goes first each time: what drifts hits all alike.
			order := slices.Concat(contenders[rep%len(contenders):], contenders[:rep%len(contenders)])
			for _, who := range order {
				r, err := p.one(ctx, who, c, c.events(o.quick), smallBody)
				if err != nil {
					return err
				}
				if all[c] == nil {
					all[c] = map[string][]result{}
				}
				all[c][who] = append(all[c][who], r)
			}
			fmt.Printf("  %-22s ours %6.0f/s, bare client %6.0f/s, River %6.0f/s\n", c, last(all[c]["ours"]), last(all[c]["bare"]), last(all[c]["river"]))
		}
	}
	memory, err := p.one(ctx, "ours", cell{20, 100}, 5000, memoryBody)
	if err != nil {
		return err
	}
	return writeTable(p, o, cells, all, floor, memory)
}

func last(r []result) float64 { return r[len(r)-1].rate() }

// one does one run, each on a database that is made for it.
func (p *place) one(ctx context.Context, who string, c cell, events, bytes int) (r result, err error) {
	if err := p.sink.reset(c.ms); err != nil {
		return r, err
	}
	j := job{Events: events, Bytes: bytes, InFlight: c.inFlight, Webhook: p.sink.webhook(), Box: box, Database: p.server.URL("bench")}
	if who != "bare" {
		db, err := p.database(ctx, "bench")
		if err != nil {
			return r, err
		}
		defer db.Close(ctx)
		switch who {
		case "ours":
			if r, err = p.ours(ctx, db, "bench", j); err != nil {
				return r, err
			}
		case "floor":
			if err := fill(ctx, db, 0, events, bytes); err != nil {
				return r, err
			}
			return p.contend(who, j)
		}
	}
	if who != "ours" {
		if r, err = p.contend(who, j); err != nil {
			return r, err
		}
	}
	s, err := p.sink.seen()
	if err != nil {
		return r, err
	}
	if s.duplicates() > 0 || r.Failed > 0 || len(s.When) < r.Done {
		return r, fmt.Errorf("%s at %v: %d POSTs of %d events, %d not acknowledged, %d done", who, c, s.Posts, len(s.When), r.Failed, r.Done)
	}
	return r, nil
}
