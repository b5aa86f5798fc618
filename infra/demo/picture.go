package main

import (
	"fmt"
	"slices"
	"strings"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// picture is the picture of the states, as internal/outbox and the README have
// it, with the counts of a run: on the arrows what moved, at the states what is
// there now.
func picture(moved cycle.Report, now map[string]int64) []string {
	at := func(s outbox.Status) string { return fmt.Sprintf("%s %d", s, now[string(s)]) }
	lines := []string{
		fmt.Sprintf("                     claim %-7d               acknowledged %d", moved.Claimed, moved.Succeeded),
		"  " + arrow(at(outbox.Pending), 29) + " " + arrow(at(outbox.Delivering), 39) + " " + at(outbox.Succeeded),
		"     ▲                              │   │   │",
		fmt.Sprintf("     │  lease ran out  %-7d      │   │   │ attempts used up, or  %d", moved.Reclaimed, moved.Failed),
		fmt.Sprintf("     │  released       %-7d      │   │   │ lease lost too often  %d", moved.Released, moved.LeaseLostFailed),
		fmt.Sprintf("     │  attempt failed %-7d      │   │   └─────────────────────────▶ failed %d", moved.Retried, now[string(outbox.Failed)]),
		"     └──────────────────────────────┴───┘                                  │",
		"     ▲                                                                     │",
		"     └──────────────────────── replay (a person) ──────────────────────────┘",
	}
	var others []string
	for status, n := range now {
		switch outbox.Status(status) {
		case outbox.Pending, outbox.Delivering, outbox.Succeeded, outbox.Failed:
		default:
			others = append(others, fmt.Sprintf("%d %s", n, outbox.CleanTo(status, 20)))
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		lines = append(lines, "  never touched, since the status is another program's: "+cut(strings.Join(others, ", "), 60))
	}
	return lines
}

// arrow draws an arrow from a text, to a width.
func arrow(from string, width int) string {
	from += " "
	return from + strings.Repeat("─", max(width-len(from)-1, 1)) + "▶"
}
