package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// drainTime is what an invocation of ours has: more than any cell takes.
const drainTime = 2 * time.Minute

// ours drains the events with one invocation of the real bootstrap. It is warm: it
// has drained a small batch before, so that it remembers the pace.
func (p *place) ours(ctx context.Context, db *pgx.Conn, database string, j job) (r result, err error) {
	f, err := p.start(p.env(database, j.InFlight)...)
	if err != nil {
		return r, err
	}
	defer f.stop()
	// The window doubles with each round: five windows of events fill it.
	const behind = 1 << 24 // numbers that the run itself does not use
	if err := fill(ctx, db, behind, 5*j.InFlight, j.Bytes); err != nil {
		return r, err
	}
	if _, err := f.invoke(`{"max_cycles":0}`, drainTime); err != nil {
		return r, err
	}
	if err := fill(ctx, db, 0, j.Events, j.Bytes); err != nil {
		return r, err
	}
	usage, own := p.usage(), cpuOf(f.pid())
	report, err := f.invoke(`{"max_cycles":0}`, drainTime)
	if err != nil {
		return r, err
	}
	if report.Claimed != j.Events || report.Succeeded != j.Events {
		return r, fmt.Errorf("%d events were due and the report is %+v", j.Events, report)
	}
	r = result{
		Done: report.Succeeded, Seconds: float64(report.DurationMS) / 1000,
		CPU: cpuOf(f.pid()) - own, Peak: peakMemory(f.pid()),
	}
	usage.into(&r)
	return r, nil
}
