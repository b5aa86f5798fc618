package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

func (t *terminal) list() *cobra.Command {
	r := operator.New("list").(*operator.List)
	c := &cobra.Command{
		Use: "list", GroupID: "look", Args: cobra.NoArgs,
		Short: "List events, by status, code, type, aggregate, age and error text",
		Long: `Lists events: without --status those that are pending, delivering or failed.
--status takes values of delivery_status and states (` + strings.Join(operator.States, ", ") + `),
separated by commas.

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
				{text: seconds(e.AgeSeconds)}, clean(e.Code), clean(e.Error),
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

// when tells what next_attempt_at means for the event.
func when(e operator.Event, now operator.Instant) string {
	switch e.State {
	case operator.Due, operator.Later, operator.Suspect:
		if late := now.Since(e.DueAt()); late >= 0 {
			return "for " + operator.Span(late)
		} else if e.NextAttemptAt != nil {
			return "in " + operator.Span(late)
		}
		return "now"
	case operator.Leased:
		return "for another " + operator.Span(e.NextAttemptAt.Since(now))
	case operator.Expired:
		return operator.Span(now.Since(*e.NextAttemptAt)) + " ago"
	}
	return ""
}

func (t *terminal) show() *cobra.Command {
	r := operator.New("show").(*operator.Show)
	c := &cobra.Command{
		Use: "show ID", GroupID: "look",
		Short: "One event: everything but its payload, and what happens next and when",
		Example: examples("operator show 7f1c2a34-0000-4000-8000-000000000001",
			"operator show 7f1c2a34-0000-4000-8000-000000000001 --payload"),
		Args: idArgument(&r.ID, true),
	}
	c.Flags().StringVar(&r.ID, "id", "", "the event, as the argument names it")
	_ = c.Flags().MarkHidden("id")
	c.Flags().BoolVar(&r.Payload, "payload", false, "the payload as well; it may hold what is nobody's business")
	return command(t, c, r, printEvent)
}

func printEvent(p *page, d operator.Detail) {
	field := func(name, text string) {
		if text != "" {
			p.line("%-16s %s", name, text)
		}
	}
	field("event", d.ID)
	field("type", outbox.Clean(d.Type))
	state := stateCell(d.Event)
	status := outbox.Clean(d.Status)
	if status != state.text {
		status += " (" + p.paint(state.style, state.text) + ")"
	} else {
		status = p.paint(state.style, status)
	}
	field("status", status)
	field("occurred_at", fmt.Sprintf("%s (%s ago)", d.OccurredAt, seconds(d.AgeSeconds)))
	if d.NextAttemptAt != nil {
		field("next_attempt_at", d.NextAttemptAt.String())
	}
	attempts := strconv.Itoa(d.Attempts)
	if d.AttemptsBase > 0 {
		attempts += fmt.Sprintf(", %d of them before the last replay", d.AttemptsBase)
	}
	field("attempts", attempts)
	if d.LostLeases > 0 {
		field("lost_leases", strconv.Itoa(d.LostLeases))
	}
	field("last_error_code", outbox.Clean(d.Code))
	field("last_error", outbox.Clean(d.Error))
	field("external_run_id", outbox.Clean(d.RunID))
	payload := fmt.Sprintf("%s of %s bytes", d.PayloadKind, thousands(d.PayloadBytes))
	if len(d.PayloadKeys) > 0 {
		keys := make([]string, len(d.PayloadKeys))
		for i, k := range d.PayloadKeys {
			keys[i] = outbox.CleanTo(k, 60)
		}
		payload += ": " + strings.Join(keys, ", ")
	}
	if d.Claimed {
		payload += "; with a claim token"
	}
	field("payload", payload)
	p.line("\nHistory")
	for _, h := range d.History {
		p.line("  %s", outbox.Clean(h))
	}
	p.line("\nNext\n  %s", outbox.Clean(d.Next))
	if d.Payload != nil {
		p.line("\nPayload")
		p.line("%s", indented(d.Payload))
	}
}

// indented lays a payload out, digit for digit.
func indented(raw json.RawMessage) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if enc.Encode(raw) != nil {
		return outbox.Clean(string(raw))
	}
	return strings.TrimSpace(b.String())
}

func (t *terminal) doctorCommand() *cobra.Command {
	r := operator.New("doctor").(*operator.Doctor)
	c := &cobra.Command{
		Use: "doctor", GroupID: "look", Args: cobra.NoArgs,
		Short: "Check everything that has to work, in order",
		Long: `Checks everything that has to work, in the order in which it depends on each
other, and says of each fault what mends it. It changes nothing and runs nothing:
n8n is asked with a GET, which an active webhook for POST answers with 404.

Whether n8n takes the token only a real POST tells. With --post the doctor sends
one event of its own: a random event_id, event_type "dispatcher.doctor",
correlation_id "doctor", aggregate {"type": "doctor"}, data {}. It runs the
workflow once; nothing is written to the table.

It works before the first deploy from a laptop, and in Lambda, where it can tell
whether there is a way out of the VPC and whether the schedule is enabled.
Exit status 3: it found faults.`,
		Example: examples("operator doctor", "operator doctor --post", "operator doctor --role my_dispatcher --json"),
	}
	c.Flags().BoolVar(&r.Post, "post", false, "send one event of the type dispatcher.doctor to n8n, which runs the workflow once")
	c.Flags().StringVar(&r.Role, "role", "", "the dispatcher's role, whose rights are checked (default outbox_dispatcher)")
	return command(t, c, r, printDiagnosis)
}

func printDiagnosis(p *page, d operator.Diagnosis) {
	marks := map[operator.Result]style{operator.OK: green, operator.Warning: yellow, operator.Fault: red, operator.Unknown: dim}
	for _, c := range d.Checks {
		mark := fmt.Sprintf("%-8s", c.Result)
		p.line("%s %-18s %s", p.paint(marks[c.Result], mark), c.Name, outbox.Clean(c.Text))
		if c.Mend != "" {
			p.line("%s %s", strings.Repeat(" ", 27), p.paint(bold, "mend: ")+outbox.Clean(c.Mend))
		}
	}
	p.line("")
	switch d.Faults {
	case 0:
		p.line("%s", p.paint(green, "no fault was found"))
	case 1:
		p.line("%s", p.paint(red, "1 fault was found"))
	default:
		p.line("%s", p.paint(red, fmt.Sprintf("%d faults were found", d.Faults)))
	}
}
