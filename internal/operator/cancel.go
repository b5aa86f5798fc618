package operator

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"outbox-dispatcher/internal/outbox"
)

// Cancel makes pending events failed: they are not sent any more. A replay takes
// that back.
type Cancel struct {
	Choice
	As     string `json:"as"`     // code that goes into last_error_code
	Reason string `json:"reason"` // goes into last_error
	Limit  int    `json:"limit"`  // events at most, chosen by a filter
	DryRun bool   `json:"dry_run"`
	Yes    bool   `json:"yes"`
}

// DefaultCancelCode is what Cancel writes if no other code is given.
const DefaultCancelCode = "cancelled"

var codePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`) })

// Action is cancel.
func (*Cancel) Action() string { return "cancel" }

func (c *Cancel) check() error {
	if c.named() && c.Code != "" {
		return usage("code chooses events by their last error code; the code to write is as (--as)")
	}
	if err := between("limit", c.Limit, 1, maxChange); err != nil {
		return err
	}
	if !codePattern().MatchString(c.As) {
		return usage("as must be a code such as %s: up to 64 letters, digits, dots, dashes and underscores, a letter first", DefaultCancelCode)
	}
	for _, own := range outbox.Codes {
		if c.As == string(own.Code) {
			return usage("as cannot be %s: that code says what happened at n8n", c.As)
		}
	}
	if outbox.Clean(c.Reason) == "" {
		return usage("say why: the reason goes into last_error")
	}
	return c.Choice.check(string(outbox.Pending), string(Due), string(Later), string(Suspect))
}

func (c *Cancel) do(ctx context.Context, o *Operator) (any, error) {
	m := many{
		action: c.Action(), from: outbox.Pending, choice: c.Choice, limit: c.Limit, dry: c.DryRun, yes: c.Yes,
		question: func(n, matched int) string {
			return fmt.Sprintf("cancel %s as %s: %s", some(n, matched, c.Choice, outbox.Pending), c.As, outbox.CleanTo(c.Reason, 200))
		},
		apply: func(ctx context.Context, e *Entry, refs []Ref, _ int) ([]string, error) {
			return o.Store.Cancel(ctx, refs, c.As, outbox.Clean(fmt.Sprintf("Cancelled by %s: %s", e.by(), c.Reason)))
		},
	}
	return m.run(ctx, o)
}
