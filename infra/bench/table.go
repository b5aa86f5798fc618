package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func sorted(of []float64) []float64 {
	s := slices.Clone(of)
	slices.Sort(s)
	return s
}

// figure is the median of what f takes from each result.
func figure(of []result, f func(result) float64) float64 {
	var all []float64
	for _, r := range of {
		all = append(all, f(r))
	}
	return median(all)
}

// ratios of the rates of two contenders, repetition by repetition.
func ratios(a, b []result) (all []float64) {
	for i := range a {
		all = append(all, a[i].rate()/b[i].rate())
	}
	return all
}

func spread(of []float64) string {
	s := sorted(of)
	if len(s) == 1 {
		return fmt.Sprintf("%.2f", s[0])
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", median(s), s[0], s[len(s)-1])
}

func verdict(reached bool) string {
	if reached {
		return "reached"
	}
	return "**missed**"
}

// busiest is the cell at 0 ms that ours does best in.
func busiest(cells []cell, all runs) (best cell, ok bool) {
	for _, c := range cells {
		if c.ms == 0 && (!ok || figure(all[c]["ours"], result.rate) > figure(all[best]["ours"], result.rate)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// perThousand is CPU seconds for a thousand events.
func perThousand(seconds func(result) float64) func(result) float64 {
	return func(r result) float64 { return seconds(r) / float64(r.Done) * 1000 }
}

var (
	ownPerThousand      = perThousand(func(r result) float64 { return r.CPU })
	postgresPerThousand = perThousand(func(r result) float64 { return r.PostgresCPU })
)

// writeTable writes results/bench.md and results/bench.svg, and prints the former.
func writeTable(p *place, o options, cells []cell, all runs, floor []result, memory result) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("# Beside the limits, and beside River\n")
	line("%s on %s; `make bench`, that is `cd infra/bench && go run .`. %d repetitions, interleaved; medians, ratios within one repetition (lowest-highest).\n", time.Now().UTC().Format("2 January 2006"), p.machine(), o.reps)
	line("Drained events/s. Ours: one warm invocation of the real bootstrap, `max_cycles: 0`, by the duration in its report. Bare client: the same bodies and checks from memory, no database. River %s: tuned (cooldown %v, poll %v, %d sessions), a worker with the same POST and check.\n", riverVersion(), riverCooldown, riverPoll, riverPool)
	line("| n8n answers in | in flight | ours | bare client | River | ours / bare | to reach | | ours / River | to reach | |")
	line("|---|---|---|---|---|---|---|---|---|---|---|")
	foreign := 0.0
	for _, c := range cells {
		r := all[c]
		bare, river := ratios(r["ours"], r["bare"]), ratios(r["ours"], r["river"])
		line("| %d ms | %d | %.0f | %.0f | %.0f | %s | %.2f | %s | %s | %.0f | %s |", c.ms, c.inFlight,
			figure(r["ours"], result.rate), figure(r["bare"], result.rate), figure(r["river"], result.rate),
			spread(bare), c.target(), verdict(median(bare) >= c.target()), spread(river), c.riverTarget(), verdict(median(river) >= c.riverTarget()))
		for _, who := range contenders {
			foreign = max(foreign, figure(r[who], func(r result) float64 { return r.Foreign }))
		}
	}
	line("\nOther programs used up to %.0f %% of the machine meanwhile (the highest median of a cell).", 100*foreign)
	line("Claim and outcome in the least SQL there is, no HTTP, batches of %d on %d sessions: %.0f events/s, %.3f + %.3f CPU s per 1,000 (own + Postgres).\n", floorBatch, floorSessions,
		figure(floor, result.rate), figure(floor, ownPerThousand), figure(floor, postgresPerThousand))
	if c, ok := busiest(cells, all); ok {
		ours, bare := figure(all[c]["ours"], result.rate), figure(all[c]["bare"], result.rate)
		both := 1 / (1/bare + 1/figure(floor, result.rate))
		line("At 0 ms the cores are busy, and who does both limits does them one after the other: %.0f events/s with %d in flight, which is %.2f of the bare client. Ours is %.2f of that.\n", both, c.inFlight, both/bare, ours/both)
	}

	line("## CPU and memory\n")
	line("| n8n answers in | in flight | CPU s per 1,000 events, own + Postgres: ours | bare client | River | below River | peak memory MB: ours | River |")
	line("|---|---|---|---|---|---|---|---|")
	for _, c := range cells {
		r := all[c]
		cpu := func(who string) float64 {
			return figure(r[who], ownPerThousand) + figure(r[who], postgresPerThousand)
		}
		parts := func(who string) string {
			return fmt.Sprintf("%.2f + %.2f", figure(r[who], ownPerThousand), figure(r[who], postgresPerThousand))
		}
		line("| %d ms | %d | %s | %s | %s | %s | %.0f | %.0f |", c.ms, c.inFlight, parts("ours"), parts("bare"), parts("river"), verdict(cpu("ours") < cpu("river")),
			figure(r["ours"], megabytes), figure(r["river"], megabytes))
	}
	line("\nPeak memory with 100 in flight and events of %d KB: %.0f MB, to reach: under 64 MB (%s).\n", memoryBody>>10, megabytes(memory), verdict(megabytes(memory) < 64))
	writeMoney(line, cells, all)

	fmt.Print(b.String())
	if err := save("bench.md", b.String()); err != nil {
		return err
	}
	return save("bench.svg", ratioPlot(cells, all))
}

func megabytes(r result) float64 { return math.Ceil(float64(r.Peak) / (1 << 20)) }

// save writes a file into the folder of results.
func save(name, text string) error {
	if err := os.MkdirAll("results", 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("results", name), []byte(text), 0o644)
}
