package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

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
	field("occurred_at", fmt.Sprintf("%s (%s)", d.OccurredAt, operator.Ago(d.Now.Since(d.OccurredAt))))
	if d.NextAttemptAt != nil {
		field("next_attempt_at", d.NextAttemptAt.String())
	}
	attempts := strconv.Itoa(d.Attempts)
	switch {
	case d.AttemptsBase > 0 && d.AttemptsBase == d.Attempts:
		attempts += ", all of them before the last replay"
	case d.AttemptsBase > 0:
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
