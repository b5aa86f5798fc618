package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const coldStarts = 20

// starts are what cold starts took, in ms.
type starts struct {
	name  string
	env   []string
	init  []float64 // from the start of the process to its first request for work
	first []float64 // the first invocation: ten events
	peak  []float64 // most memory that was resident by then, MB
}

// coldPart starts the bootstrap again and again, with and without tracing.
func coldPart(ctx context.Context, p *place, o options) error {
	db, err := p.database(ctx, "cold")
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	if err := p.sink.reset(0); err != nil {
		return err
	}
	times := coldStarts
	if o.quick {
		times = 5
	}
	kinds := []*starts{{name: "with tracing"}, {name: "without (AWS_XRAY_SDK_DISABLED=true)", env: []string{"AWS_XRAY_SDK_DISABLED=true"}}}
	for range times {
		for _, k := range kinds {
			if err := fill(ctx, db, 0, 10, smallBody); err != nil {
				return err
			}
			if err := k.start(p); err != nil {
				return err
			}
		}
	}
	inits, err := p.inits()
	if err != nil {
		return err
	}
	size, err := os.Stat(p.bootstrap)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Cold start\n\n%s on %s; `cd infra/bench && go run . -cold`.\n", time.Now().UTC().Format("2 January 2006"), p.machine())
	fmt.Fprintf(&b, "%d starts each, in turn; ms, median (lowest-highest). Init: from the start of the process to its first request for work. First invocation: ten events, with the connections to Postgres and n8n. The bootstrap has %.1f MB (%s, stripped).\n\n",
		times, float64(size.Size())/(1<<20), "this machine's architecture")
	fmt.Fprintln(&b, "| | init | first invocation | peak memory, MB |\n|---|---|---|---|")
	for _, k := range kinds {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", k.name, milliseconds(k.init), milliseconds(k.first), milliseconds(k.peak))
	}
	fmt.Fprintf(&b, "\nWithin init, what the packages themselves do (GODEBUG=inittrace=1, one start): %.2f ms in all, the longest:\n\n| package | ms | allocated, KB |\n|---|---|---|\n", total(inits))
	for _, i := range inits[:min(12, len(inits))] {
		fmt.Fprintf(&b, "| %s | %.3f | %.0f |\n", i.name, i.ms, i.bytes/1024)
	}
	fmt.Print(b.String())
	return save("cold.md", b.String())
}

// start starts the bootstrap once and invokes it.
func (k *starts) start(p *place) error {
	f, err := p.start(p.env("cold", 10, k.env...)...)
	if err != nil {
		return err
	}
	defer f.stop()
	select {
	case asked := <-f.asked:
		k.init = append(k.init, asked.Sub(f.started).Seconds()*1000)
	case err := <-f.exited:
		return fmt.Errorf("the bootstrap ended: %v\n%s", err, f.output())
	}
	began := time.Now()
	report, err := f.invoke(`{}`, time.Minute)
	if err != nil {
		return err
	}
	if report.Succeeded != 10 {
		return fmt.Errorf("ten events were due and the report is %+v", report)
	}
	k.first = append(k.first, time.Since(began).Seconds()*1000)
	k.peak = append(k.peak, float64(peakMemory(f.pid()))/(1<<20))
	return nil
}

// initOf is the init of a package, as the Go runtime traces it.
type initOf struct {
	name      string
	ms, bytes float64
}

// inits starts the bootstrap once more and reads what its packages did, the longest
// first.
func (p *place) inits() ([]initOf, error) {
	f, err := p.start(p.env("cold", 10, "GODEBUG=inittrace=1")...)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	select {
	case <-f.asked:
	case err := <-f.exited:
		return nil, fmt.Errorf("the bootstrap ended: %v\n%s", err, f.output())
	}
	var all []initOf
	for line := range strings.Lines(f.output()) {
		// init runtime @0.05 ms, 0.029 ms clock, 0 bytes, 0 allocs
		w := strings.Fields(line)
		if len(w) < 10 || w[0] != "init" {
			continue
		}
		ms, err := strconv.ParseFloat(w[4], 64)
		if err != nil {
			return nil, fmt.Errorf("a line of inittrace cannot be read: %s", line)
		}
		bytes, _ := strconv.ParseFloat(w[7], 64)
		all = append(all, initOf{w[1], ms, bytes})
	}
	slices.SortFunc(all, func(a, b initOf) int { return int((b.ms - a.ms) * 1e6) })
	return all, nil
}

func total(of []initOf) (ms float64) {
	for _, i := range of {
		ms += i.ms
	}
	return ms
}
