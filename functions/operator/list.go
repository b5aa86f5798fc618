package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

func (t *terminal) list() *cobra.Command {
	r := operator.New("list").(*operator.List)
	c := &cobra.Command{
		Use: "list", GroupID: "look", Args: noArguments,
		Short: "List events, by status, code, type, aggregate, age and error text",
		Long: `Lists events: without --status those that are pending, delivering or failed.
--status takes values of delivery_status, and states, separated by commas:
` + strings.Join(operator.States, ", ") + `.

A list is read page by page: the cursor behind it asks for the next page, with
the same flags. Events that do not change meanwhile come exactly once.`,
		Example: examples(
			"operator list --status failed --code connectionError",
			"operator list --status due --sort due --limit 50",
			"operator list --status failed --aggregate id=4711 --sort -occurred",
			"operator list --text 'HTTP 403' --newer-than 2h --json"),
	}
	c.Flags().StringSliceVar((*[]string)(&r.Status), "status", nil, "statuses or states, separated by commas (without: pending,delivering,failed)")
	filterFlags(c, &r.Filter)
	c.Flags().StringVar(&r.Sort, "sort", "", strings.Join(operator.Sorts, ", ")+"; a minus in front turns it round (default due; for succeeded and statuses of others id)")
	c.Flags().IntVar(&r.Limit, "limit", r.Limit, "events a page")
	c.Flags().StringVar(&r.Cursor, "cursor", "", "of the page before")
	complete(c, "status", append([]string{"pending", "delivering", "failed", "succeeded"}, operator.States...))
	complete(c, "sort", append(slices.Clone(operator.Sorts), "-due", "-occurred", "-attempts", "-id"))
	return command(t, c, r, printList)
}

func printList(p *page, l operator.Page) {
	if len(l.Events) == 0 {
		p.line("no event fits")
	} else {
		var rows [][]cell
		for _, e := range l.Events {
			rows = append(rows, []cell{
				{text: e.ID}, clean(e.Type), stateCell(e), {text: when(e, l.Now)}, {text: strconv.Itoa(e.Attempts)},
				{text: age(e, l.Now)}, clean(e.Code), clean(e.Error),
			})
		}
		p.table([]string{"EVENT", "TYPE", "STATE", "WHEN", "ATTEMPTS", "AGE", "CODE", "LAST ERROR"}, rows)
	}
	if l.Note != "" {
		p.line("\n%s", p.paint(yellow, l.Note))
	}
	if l.Cursor != "" {
		p.line("\nmore: --cursor %s", l.Cursor)
	}
}

func stateCell(e operator.Event) cell {
	c := clean(string(e.State))
	switch {
	case e.Status == string(outbox.Failed):
		c.style = red
	case e.State == operator.Suspect || e.State == operator.Expired || e.State == operator.Parked:
		c.style = yellow
	case e.Status == string(outbox.Succeeded):
		c.style = green
	}
	return c
}

// age of an event; one that is dated in the future has none.
func age(e operator.Event, now operator.Instant) string {
	if since := now.Since(e.OccurredAt); since >= 0 {
		return operator.Span(since)
	}
	return "dated ahead"
}

// waits tells for how long a pending event has been due, or when it will be.
func waits(e operator.Event, now operator.Instant) string {
	late := now.Since(e.DueAt())
	switch {
	case late >= 0:
		return "for " + operator.Span(late)
	case e.NextAttemptAt != nil:
		return "in " + operator.Span(late)
	}
	return "now" // never tried, and dated in the future
}

// when tells what next_attempt_at means for the event.
func when(e operator.Event, now operator.Instant) string {
	switch e.State {
	case operator.Suspect: // the state does not say that it is due
		return "due " + waits(e, now)
	case operator.Due, operator.Later:
		return waits(e, now)
	case operator.Leased:
		return "for another " + operator.Span(e.NextAttemptAt.Since(now))
	case operator.Expired:
		return operator.Span(now.Since(*e.NextAttemptAt)) + " ago"
	}
	return ""
}
