package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/postgres"
)

// crowd is a table in which the same few rows are due among others that are not.
type crowd struct {
	name, what string
	fill       func(ctx context.Context, db *pgx.Conn, rows int) error
	db         *pgx.Conn
	store      *postgres.Store
	first      float64 // ms of the first claim of all: it may find what is dead
	claims     []float64
	idle       []float64
	cpu        float64 // seconds that Postgres spent on the claims
}

const (
	claimRows   = 500 // our claim limit
	claimRounds = 60
	futureRows  = 1_000_000
	deadUpdates = 200_000
)

func crowds() []*crowd {
	return []*crowd{
		{name: "empty", what: "nothing else in the table", fill: func(context.Context, *pgx.Conn, int) error { return nil }},
		{name: "succeeded", what: "%d succeeded rows", fill: fillSucceeded},
		{name: "future", what: "1,000,000 rows that wait for a later time", fill: fillFuture},
		{name: "updated", what: "after 200,000 updates since the last vacuum", fill: fillUpdated},
	}
}

// claimPart times claims on tables side by side, each claim of 500 rows with what
// goes with it: a new batch of due rows is inserted before each.
func claimPart(ctx context.Context, p *place, o options) error {
	tables := crowds()
	for _, t := range tables {
		began := time.Now()
		var err error
		if t.db, err = p.database(ctx, "claim_"+t.name); err != nil {
			return err
		}
		defer t.db.Close(ctx)
		if t.store, err = p.store("claim_" + t.name); err != nil {
			return err
		}
		defer t.store.Close()
		if err := t.fill(ctx, t.db, o.rows); err != nil {
			return err
		}
		if strings.Contains(t.what, "%d") {
			t.what = fmt.Sprintf(t.what, o.rows)
		}
		fmt.Printf("%s: filled in %.0f s\n", t.what, time.Since(began).Seconds())
	}
	for round := range claimRounds {
		for i := range tables { // another one goes first each time
			if err := tables[(i+round)%len(tables)].claim(ctx, p.postmaster, round); err != nil {
				return err
			}
		}
	}
	return writeClaims(p, tables, o.rows)
}

// claim inserts a batch, claims it, records it, and then claims nothing.
func (t *crowd) claim(ctx context.Context, postmaster, round int) error {
	if err := insert(ctx, t.db, round*claimRows, claimRows, smallBody); err != nil {
		return err
	}
	cpu := cpuOfFamily(postmaster)
	batch, took, err := t.take(ctx)
	if err != nil {
		return err
	}
	t.cpu += cpuOfFamily(postmaster) - cpu
	if len(batch.Events) != claimRows {
		return fmt.Errorf("%s: %d rows were claimed, want %d", t.name, len(batch.Events), claimRows)
	}
	if round == 0 {
		t.first = took
	}
	t.claims = append(t.claims, took)
	var group []outbox.Outcome
	for i := range batch.Events {
		group = append(group, outbox.Decide(&batch.Events[i], outbox.Verdict{RunID: "run"}, outbox.Policy{MaxAttempts: 1}))
	}
	if _, err := t.store.Record(ctx, group); err != nil {
		return err
	}
	if batch, took, err = t.take(ctx); err == nil && len(batch.Events) > 0 {
		err = fmt.Errorf("%s: %d rows were claimed, want none", t.name, len(batch.Events))
	}
	t.idle = append(t.idle, took)
	return err
}

// take claims as an invocation does first: with the reclaim and the backlog.
func (t *crowd) take(ctx context.Context) (cycle.Batch, float64, error) {
	began := time.Now()
	b, err := t.store.Take(ctx, cycle.Claim{
		Reclaim: cycle.Reclaim{Limit: 500, MaxLostLeases: 5},
		Limit:   claimRows, Bytes: 32 << 20, MaxBody: 15 << 20, Lease: 3 * time.Minute,
	})
	return b, time.Since(began).Seconds() * 1000, err
}

// bulk inserts many rows in the transaction that empties the table, so that
// nothing of it is logged. Their payloads are small: a claim does not see them.
func bulk(ctx context.Context, db *pgx.Conn, rows int, status, next string) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing to do behind a commit
	for _, sql := range []string{
		"set local maintenance_work_mem = '1GB'",
		"truncate outbox_events",
		"alter table outbox_events drop constraint outbox_events_pkey", // and built behind, in one go
		fmt.Sprintf(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, attempts, external_run_id, next_attempt_at)
			select gen_random_uuid(), '%s', timestamptz '2025-01-01' + n * interval '1 second', '%s'::jsonb, '%s', 1, n, %s from generate_series(1, %d) n`,
			eventType, `{"correlation_id": "c", "aggregate": {}, "data": {}}`, status, next, rows),
		"alter table outbox_events add primary key (event_id)",
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	return execAll(ctx, db, "vacuum analyze outbox_events", "checkpoint")
}

func fillSucceeded(ctx context.Context, db *pgx.Conn, rows int) error {
	return bulk(ctx, db, rows, "succeeded", "null")
}

func fillFuture(ctx context.Context, db *pgx.Conn, _ int) error {
	return bulk(ctx, db, futureRows, "pending", "now() + interval '1 day' + n * interval '1 second'")
}

// fillUpdated leaves what a drain of 100,000 events leaves: each was updated by
// its claim and by its outcome, and no vacuum has come by.
func fillUpdated(ctx context.Context, db *pgx.Conn, _ int) error {
	if err := bulk(ctx, db, deadUpdates/2, "pending", "null"); err != nil {
		return err
	}
	return execAll(ctx, db,
		"update outbox_events set delivery_status = 'delivering', next_attempt_at = now() + interval '1 minute'",
		"update outbox_events set delivery_status = 'succeeded', next_attempt_at = null", "checkpoint")
}

// writeClaims writes results/claim.md. The ratio is the median of those of each
// round.
func writeClaims(p *place, tables []*crowd, rows int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# A claim and the size of the table\n\n%s on %s; `cd infra/bench && go run . -claim -rows %d`.\n", time.Now().UTC().Format("2 January 2006"), p.machine(), rows)
	fmt.Fprintf(&b, "Store.Take as an invocation does it first, reclaim and backlog included: %d due rows, and none, %d times on each table in turn. ms, median (lowest-highest); ratios are medians of those within a round.\n\n", claimRows, claimRounds)
	fmt.Fprintln(&b, "| in the table | claim of 500 | first of all | to the empty table | to reach | | Postgres CPU | nothing due | to the empty table |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|")
	for _, t := range tables {
		ratio, idle := againstFirst(t.claims, tables[0].claims), againstFirst(t.idle, tables[0].idle)
		target, reached := "", ""
		if t.name != "empty" {
			target, reached = "1.10", verdict(ratio <= 1.1)
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f | %.2f | %s | %s | %.1f | %s | %.2f |\n", t.what, milliseconds(t.claims), t.first, ratio, target, reached, 1000*t.cpu/claimRounds, milliseconds(t.idle), idle)
	}
	fmt.Print(b.String())
	return save("claim.md", b.String())
}

func againstFirst(a, b []float64) float64 {
	var all []float64
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return median(all)
}

func milliseconds(of []float64) string {
	s := sorted(of)
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f (%.1f-%.1f)", median(s), s[0], math.Max(s[0], s[len(s)-1]))
}
