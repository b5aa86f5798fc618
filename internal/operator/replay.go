package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// Replay makes failed events pending again, each with a fresh budget of attempts.
// Their attempts and their last error stay as history. They become due one after
// the other, Rate a second, so that n8n is not stormed.
type Replay struct {
	Choice
	Limit  int     `json:"limit"` // events at most, chosen by a filter
	Rate   float64 `json:"rate"`  // events a second
	DryRun bool    `json:"dry_run"`
	Yes    bool    `json:"yes"`
}

const (
	// DefaultRate is below what an n8n on two cores answers by default, 6 to 8 a
	// second.
	DefaultRate = 5
	// maxRate: above that, pacing is the dispatcher's business alone.
	maxRate = 10_000
)

// Action is replay.
func (*Replay) Action() string { return "replay" }

func (r *Replay) check() error {
	if err := between("limit", r.Limit, 1, maxChange); err != nil {
		return err
	}
	if !(r.Rate >= 0.01 && r.Rate <= maxRate) {
		return usage("rate must be a number of events a second from 0.01 to %d", maxRate)
	}
	if r.DueFor != 0 {
		return usage("due_for is for pending events, and replay is for failed ones")
	}
	return r.Choice.check(string(outbox.Failed))
}

func (r *Replay) do(ctx context.Context, o *Operator) (any, error) {
	m := many{
		action: r.Action(), from: outbox.Failed, choice: r.Choice, limit: r.Limit, dry: r.DryRun, yes: r.Yes,
		question: func(n, matched int) string {
			what := "replay " + some(n, matched, r.Choice, outbox.Failed)
			if n == 1 {
				return what
			}
			return fmt.Sprintf("%s, %g a second, so that the last one is due in %s", what, r.Rate, Span(r.delay(n-1)))
		},
		apply: func(ctx context.Context, _ *Entry, refs []Ref, offset int) ([]string, error) {
			delays := make([]float64, len(refs))
			for i := range refs {
				delays[i] = r.delay(offset + i).Seconds()
			}
			return o.Store.Replay(ctx, refs, delays)
		},
	}
	c, err := m.run(ctx, o)
	return Replayed{Changed: c, Rate: r.Rate, LastDueInSeconds: r.delay(c.Changed + c.Passed - 1).Seconds()}, err
}

// delay of the nth event.
func (r *Replay) delay(n int) time.Duration {
	return time.Duration(float64(max(n, 0)) / r.Rate * float64(time.Second))
}

// Replayed is what a replay did.
type Replayed struct {
	Changed
	Rate             float64 `json:"rate"`                // events a second
	LastDueInSeconds float64 `json:"last_due_in_seconds"` // of the last one, from now
}

// some writes how many events are meant, and which.
func some(n, matched int, c Choice, from outbox.Status) string {
	thing := strings.Join(c.statuses(string(from)), " or ") + " event"
	s := count(n, thing)
	if matched > n {
		s = fmt.Sprintf("%d of %s", n, count(matched, thing))
	}
	if w := c.words(); w != "" {
		s += " " + w
	}
	return s
}
