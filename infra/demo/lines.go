package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

// report prints the report of an invocation in two lines: what was done, and how
// the table is now. posts is what the stand-in n8n received; -1: not known.
func (s *screen) report(r cycle.Report, posts int) {
	done := []string{fmt.Sprintf("claimed %d", r.Claimed)}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
		c    colour
	}{
		{r.Succeeded, "succeeded", green}, {r.Retried, "to be retried", yellow}, {r.Failed, "failed", red},
		{r.Released, "released", yellow}, {r.Lost, "lost", yellow}, {r.Unrecorded, "unrecorded", red},
	} {
		if p.n > 0 {
			parts = append(parts, s.paint(p.c, fmt.Sprintf("%d %s", p.n, p.what)))
		}
	}
	if len(parts) > 0 {
		done[0] += " = " + strings.Join(parts, " + ")
	}
	if posts >= 0 {
		done = append(done, fmt.Sprintf("%d POSTs", posts))
	}
	if n := r.Reclaimed + r.LeaseLostFailed; n > 0 {
		done = append(done, fmt.Sprintf("%d leases ran out", n))
	}
	if r.LeaseLostFailed > 0 {
		done = append(done, s.paint(red, fmt.Sprintf("%d for the last time", r.LeaseLostFailed)))
	}
	took := time.Duration(r.DurationMS) * time.Millisecond
	s.line("    " + strings.Join(done, ", "))
	s.line(s.paint(dim, fmt.Sprintf("    %s after %.2f s; in the table %d due now, %d parked, %d failed",
		r.Stopped, took.Seconds(), r.BacklogDue, r.Parked, r.FailedTotal)))
}

// Widths of the columns, two spaces apart, screenWidth together.
const (
	idWidth     = 8
	typeWidth   = 16
	showsWidth  = 27
	statusWidth = 14 // delivering and a number
	codeWidth   = 21 // the longest code
	nextWidth   = 7
)

// events prints a line an event: how it was before, how it is now, and below it
// what went wrong last.
func (s *screen) events(t *table, before, after map[string]row) {
	columns := func(cells ...string) string {
		var b strings.Builder
		for i, width := range []int{idWidth, typeWidth, showsWidth, statusWidth, statusWidth, codeWidth, nextWidth} {
			b.WriteString(pad(cells[i], width) + "  ")
		}
		return strings.TrimRight(b.String(), " ")
	}
	s.head(columns("event", "type", "what it shows", "before", "after", "last error code", "next"))
	for _, id := range t.show {
		b, was := before[id]
		a, is := after[id]
		if !was || !is { // somebody else deleted it
			continue
		}
		text := columns(id[:idWidth], a.Type, t.samples[id].shows, state(b), state(a), a.Code, next(a))
		s.line(s.paint(shade(b, a), text))
		if a.Error != "" {
			s.line(s.paint(dim, strings.Repeat(" ", idWidth+2)+cut("└ "+a.Error, screenWidth-idWidth-2)))
		}
	}
	s.line(s.paint(dim, "before, after: status and attempts; next: when it is due, or when its lease ends"))
}

func state(r row) string { return fmt.Sprintf("%-10s %3d", r.Status, r.Attempts) }

// next is the time until next_attempt_at, where there is one.
func next(r row) string {
	switch {
	case r.Next == nil:
		return ""
	case *r.Next <= 0:
		return "now"
	case *r.Next > 100*365*86400: // infinity among others
		return "never"
	}
	return fmt.Sprintf("%.0f s", math.Ceil(*r.Next))
}

// shade is the colour of an event's line.
func shade(before, after row) colour {
	switch {
	case before.Status == after.Status && before.Attempts == after.Attempts:
		return plain
	case after.Status == string(outbox.Succeeded):
		return green
	case after.Status == string(outbox.Failed):
		return red
	}
	return yellow
}

// closingWords say what was proved, and what to try next.
func closingWords(t *table, n *n8n, status operator.Overview) []string {
	var words []string
	if n.standIn != nil {
		posts, acknowledged, doubles := n.standIn.counts()
		words = append(words, fmt.Sprintf("The stand-in n8n got %d POSTs; %d events were acknowledged, %d of them more than once.", posts, acknowledged, doubles))
	}
	words = append(words,
		fmt.Sprintf("For a person to look at: %d failed, %d parked. The dispatcher looks after all the others.", status.Statuses[string(outbox.Failed)], status.Parked),
		"", "To try next:")
	if t.server == nil && t.ours {
		words = append(words, fmt.Sprintf("  the samples stay in %s; the next run puts them back to the start", t.settings.Table))
	}
	if t.server == nil {
		words = append(words,
			"  go run ./functions/operator status       counts, the oldest due event, failed by code",
			"  go run ./functions/dispatcher            one invocation without the emulator, its report as JSON")
	} else {
		words = append(words,
			"  DATABASE_URL=postgres://...  make run    the same in a database of yours, whose table you can look at afterwards",
			"  N8N_WEBHOOK_URL=http://127.0.0.1:5678/webhook/... N8N_WEBHOOK_TRIGGER_TOKEN=...  make run    an n8n of yours")
	}
	return append(words, "  make test                                every test, on a real Postgres")
}
