package main

import (
	"context"
	"time"

	"outbox-dispatcher/internal/cycle"
)

// fault is what strikes.
type fault struct {
	name string
	// strike does it. It reports whether what it struck at goes on.
	strike func(p *place) (goesOn bool)
	// heal undoes it behind the invocation. nil: nothing is left to undo.
	heal func(p *place) error
	// time that the invocation has; 0: enough.
	time  time.Duration
	lease time.Duration // 0: longer than the cell lasts
	ends  ending
	// allowed is how many duplicates the fault explains, and why.
	allowed func(c *cell) (most int, why string)
}

// ending of the invocation that was struck.
type ending int

const (
	returns ending = iota // with a report or an error, before its deadline
	dies
	timesOut // and is killed at the deadline
)

// shortLease is little more than the shortest there may be (a POST's timeout +
// 2 s), for it has to run out by the clock.
const shortLease = postTimeout + 2500*time.Millisecond

// shortTime is a little more than one POST needs (its timeout + 2 s), so that what
// lasts until the deadline does not last for long.
const shortTime = postTimeout + 2*time.Second + 1500*time.Millisecond

var faults = []fault{
	{name: "SIGKILL", ends: dies, allowed: inFlight, strike: func(p *place) bool {
		p.function.Kill()
		return false
	}},
	{name: "Lambda deadline", ends: timesOut, time: shortTime, allowed: inFlight, strike: func(p *place) bool {
		p.function.Freeze() // starved of time, until Lambda kills it
		return false
	}},
	{name: "stall beyond the lease", lease: shortLease, allowed: takenOver, strike: func(p *place) bool {
		p.function.Freeze()
		time.Sleep(shortLease + 200*time.Millisecond)
		fates, err := p.fates()
		p.trouble(err)
		p.openAtStrike = len(open(fates))
		r, err := p.invoke(p.rival)
		p.trouble(err)
		p.rivalsReports = append(p.rivalsReports, r)
		p.function.Thaw() // it knows nothing of all that
		return true
	}},
	{name: "Postgres killed, back at once", allowed: none, strike: func(p *place) bool {
		p.trouble(p.postgres.Kill())
		p.trouble(p.postgres.Restart(context.Background()))
		return true
	}},
	{name: "Postgres restarted", allowed: none, strike: func(p *place) bool {
		p.trouble(p.postgres.Restart(context.Background()))
		return true
	}},
	{name: "Postgres gone until later", time: shortTime, allowed: unrecorded,
		strike: func(p *place) bool {
			p.trouble(p.postgres.Kill())
			return true
		},
		heal: func(p *place) error { return p.postgres.Restart(context.Background()) }},
	{name: "sessions terminated", allowed: none, strike: func(p *place) bool {
		p.trouble(p.exec(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outbox-dispatcher'`))
		return true
	}},
	{name: "reset on the way to Postgres", allowed: none, strike: func(p *place) bool {
		p.toPostgres.reset()
		return true
	}},
	{name: "sessions die unnoticed", allowed: none, strike: func(p *place) bool {
		p.toPostgres.deaden()
		return true
	}},
	{name: "black hole before Postgres", time: shortTime, allowed: unrecorded,
		strike: func(p *place) bool {
			p.toPostgres.swallowing(true)
			return true
		},
		heal: func(p *place) error { p.toPostgres.swallowing(false); return nil }},
	{name: "n8n killed, back at once", allowed: unanswered, strike: func(p *place) bool {
		p.n8n.Down()
		p.trouble(p.n8nUp())
		return true
	}},
	{name: "n8n gone until later", allowed: unanswered,
		strike: func(p *place) bool {
			p.n8n.Down()
			return true
		},
		heal: (*place).n8nUp},
	{name: "reset on the way to n8n", allowed: unanswered, strike: func(p *place) bool {
		p.toN8N.reset()
		return true
	}},
	{name: "connections to n8n die unnoticed", allowed: unanswered, strike: func(p *place) bool {
		p.toN8N.deaden()
		return true
	}},
	{name: "black hole before n8n", allowed: unanswered,
		strike: func(p *place) bool {
			p.toN8N.swallowing(true)
			return true
		},
		heal: func(p *place) error { p.toN8N.swallowing(false); return nil }},
}

func none(*cell) (int, string) { return 0, "" }

func inFlight(c *cell) (int, string) {
	return len(c.open), "sent, and not yet recorded when the process died"
}

func takenOver(c *cell) (int, string) {
	return c.openAtStrike + concurrency, "out, or not yet recorded, when the worker stood still; its lease ran out and another sent it"
}

func unrecorded(c *cell) (int, string) {
	return c.report.Unrecorded, "the outcome could not be written in time; the report counts it as unrecorded"
}

func unanswered(c *cell) (int, string) {
	failures := 0
	for _, f := range c.fates {
		failures += f.Failures
	}
	return failures, "n8n had it, and its answer never came: the attempt counts as failed"
}

// sum of the outcomes that the reports say the fence dropped.
func lostIn(reports ...cycle.Report) (n int) {
	for _, r := range reports {
		n += r.Lost
	}
	return n
}
