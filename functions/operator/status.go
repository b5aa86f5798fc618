package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

func (t *terminal) status() *cobra.Command {
	return command(t, &cobra.Command{
		Use: "status", GroupID: "look", Args: cobra.NoArgs,
		Short: "What waits, what failed, and whether it is paused",
		Long: `Counts the events by where they stand. It reads the partial indexes alone, so it
costs the same however many events are done; in a large table the succeeded ones
are an estimate.`,
		Example: examples("operator status", "operator status --json"),
	}, operator.New("status"), printStatus)
}

func printStatus(p *page, o operator.Overview) {
	p.line("table       %s", o.Table)
	switch {
	case o.Pause != nil:
		at := ""
		if o.Pause.ChangedAt != nil {
			at = " since " + o.Pause.ChangedAt.String()
		}
		p.line("dispatcher  %s%s by %s", p.paint(yellow, "paused"), at, outbox.Clean(o.Pause.ChangedBy))
		if o.Pause.Reason != "" {
			p.line("            %s", outbox.Clean(o.Pause.Reason))
		}
	case o.Paused:
		p.line("dispatcher  %s", p.paint(yellow, "paused"))
	default:
		p.line("dispatcher  not paused")
	}
	p.line("")
	rows := [][]cell{
		{{text: "pending"}, number(o.Statuses["pending"]), {text: pendingNote(o)}},
		{{text: "delivering"}, number(o.Statuses["delivering"]), {text: note(o.Leased, "under a live lease", o.Expired, "expired", o.Parked, "parked")}},
		{{text: "failed", style: worry(o.Statuses["failed"], red)}, number(o.Statuses["failed"]), {text: failedNote(o.FailedBy)}},
	}
	for _, status := range slices.Sorted(maps.Keys(o.Statuses)) {
		switch status {
		case "pending", "delivering", "failed":
		case "succeeded":
			about := ""
			if o.Estimated {
				about = "an estimate, with the events of others"
			}
			rows = append(rows, []cell{{text: status}, number(o.Statuses[status]), {text: about, style: dim}})
		default:
			rows = append(rows, []cell{clean(status), number(o.Statuses[status]), {text: "somebody else's: never touched", style: dim}})
		}
	}
	p.table([]string{"STATUS", "EVENTS", ""}, rows)
	hints(p, o)
}

func number(n int64) cell { return cell{text: thousands(n)} }

func worry(n int64, s style) style {
	if n > 0 {
		return s
	}
	return plain
}

// note lists counts that are not zero, each with its word.
func note(pairs ...any) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i].(int64); n > 0 {
			parts = append(parts, thousands(n)+" "+pairs[i+1].(string))
		}
	}
	return strings.Join(parts, ", ")
}

func pendingNote(o operator.Overview) string {
	s := note(o.Due, "due", o.Later, "waiting for a next attempt", o.Suspects, "suspect")
	if o.OldestDueAgeSeconds >= 1 {
		s += "; due for longest: " + seconds(o.OldestDueAgeSeconds)
	}
	return s
}

func failedNote(by []operator.FailedBy) string {
	var parts []string
	for _, f := range by {
		code := outbox.Clean(f.Code)
		if code == "" {
			code = "no code"
		}
		parts = append(parts, thousands(f.Count)+" "+code)
	}
	return strings.Join(parts, ", ")
}

// hints say what to do next.
func hints(p *page, o operator.Overview) {
	var lines []string
	add := func(wanted bool, text string) {
		if wanted {
			lines = append(lines, text)
		}
	}
	add(o.Paused, "nothing goes out until: operator resume")
	add(o.Expired > 0, "expired leases are taken back by the next invocation; at once: operator reclaim")
	add(o.Parked > 0, "parked events wait for whoever parked them: operator list --status parked")
	add(o.Suspects > 0, "suspects lost several leases in a row: operator list --status suspect")
	add(o.Statuses["failed"] > 0, "failed events wait for a person: operator list --status failed, then operator replay")
	add(o.OldestDueAgeSeconds > 300 && !o.Paused, "nobody seems to take what is due: operator doctor")
	if len(lines) == 0 {
		return
	}
	p.line("")
	for _, l := range lines {
		p.line("%s", l)
	}
}
