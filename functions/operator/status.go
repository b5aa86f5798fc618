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
		Use: "status", GroupID: "look", Args: noArguments,
		Short: "What waits, what failed, and whether it is paused",
		Long: `Counts the events by where they stand, each up to 10,000: "10,000+" means that
there are more. So it costs the same however many events are done, or wait. In a
large table the succeeded ones are an estimate.`,
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
		{{text: "pending"}, whole(o, "pending"), {text: pendingNote(o)}},
		{{text: "delivering"}, whole(o, "delivering"), {text: note(o, part{o.Leased, "leased", "under a live lease"}, part{o.Expired, "expired", "expired"}, part{o.Parked, "parked", "parked"})}},
		{{text: "failed", style: worry(o.Statuses["failed"], red)}, whole(o, "failed"), {text: failedNote(o.FailedBy)}},
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

// counted writes a number that counting may have stopped at.
func counted(n int64, more bool) string {
	if more {
		return thousands(n) + "+"
	}
	return thousands(n)
}

// whole is the count of a status.
func whole(o operator.Overview, status string) cell {
	return cell{text: counted(o.Statuses[status], o.More(status))}
}

// part of a status: how many, their name in JSON, and in words.
type part struct {
	n           int64
	name, words string
}

// note lists the parts that are not empty.
func note(o operator.Overview, parts ...part) string {
	var texts []string
	for _, p := range parts {
		if p.n > 0 {
			texts = append(texts, counted(p.n, o.More(p.name))+" "+p.words)
		}
	}
	return strings.Join(texts, ", ")
}

func pendingNote(o operator.Overview) string {
	s := note(o, part{o.Due, "due", "due"}, part{o.Later, "later", "waiting for a next attempt"}, part{o.Suspects, "suspects", "suspect"})
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
		parts = append(parts, counted(f.Count, f.AtLeast)+" "+code)
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
	add(o.OldestDueAgeSeconds > 300 && !o.Paused && o.Leased == 0, "nobody seems to take what is due: operator doctor")
	if len(lines) == 0 {
		return
	}
	p.line("")
	for _, l := range lines {
		p.line("%s", l)
	}
}
