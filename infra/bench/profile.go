package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/secret"
	"outbox-dispatcher/internal/telemetry"
)

// profilePart runs the cycle in this process, wired as the function wires it, and
// leaves a CPU profile: what a millisecond goes into that the table shows.
func profilePart(ctx context.Context, p *place, _ options) error {
	const inFlight, events, times = 100, eventsAtZero, 4
	if err := p.sink.reset(0); err != nil {
		return err
	}
	db, err := p.database(ctx, "bench")
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	store, err := p.store("bench")
	if err != nil {
		return err
	}
	defer store.Close()
	log, err := os.Create(filepath.Join(p.folder, "profile.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	webhook, err := url.Parse(p.sink.webhook())
	if err != nil {
		return err
	}
	d := &cycle.Dispatcher{
		Settings: cycle.Settings{
			Enabled: true, HTTPTimeout: 10 * time.Second, Lease: 3 * time.Minute, MaxBodyBytes: 15 << 20,
			Policy:     outbox.Policy{MaxAttempts: 100, BackoffCap: time.Minute},
			ClaimLimit: 500, ReclaimLimit: 500, ClaimBytes: 32 << 20, Concurrency: inFlight, MaxLostLeases: 5,
		},
		Store: store, Webhook: n8n.New(n8n.Options{URL: webhook, Timeout: 10 * time.Second, Connections: inFlight}),
		Tokens:   secret.Static(token),
		Observer: telemetry.New(telemetry.Config{Log: log, Metrics: log, Tracing: true}),
		Pacer:    cycle.NewPacer(),
	}
	// As in Lambda: an id for each line, and a trace.
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "bench"})
	//lint:ignore SA1029 the key is that of aws-lambda-go
	ctx = context.WithValue(ctx, "x-amzn-trace-id", traceHeader)
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()

	path := filepath.Join(os.TempDir(), "outbox-bench.pprof")
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	var spent, took float64
	for i := range times + 1 {
		if err := fill(ctx, db, 0, events, smallBody); err != nil {
			return err
		}
		if i == 1 { // the first run opened the window
			if err := pprof.StartCPUProfile(out); err != nil {
				return err
			}
			defer pprof.StopCPUProfile()
		}
		cpu, began := ownCPU(), time.Now()
		report, err := d.Run(ctx, cycle.Request{})
		if err != nil {
			return err
		}
		if report.Succeeded != events {
			return fmt.Errorf("the report is %+v", report)
		}
		if i > 0 {
			spent, took = spent+ownCPU()-cpu, took+time.Since(began).Seconds()
		}
	}
	pprof.StopCPUProfile()
	fmt.Printf("%.0f events/s, %.3f CPU s per 1,000 events; the profile is in %s\n\n", times*events/took, spent/times/events*1000, path)
	top := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=70", path)
	top.Stdout, top.Stderr = os.Stdout, os.Stderr
	return top.Run()
}
