package telemetry

import (
	"context"

	"outbox-dispatcher/internal/cycle"
)

// Discard observes nothing: for tests that are about something else.
type Discard struct{}

var _ cycle.Observer = Discard{}

func (Discard) Step(ctx context.Context, _ string) (context.Context, func(error)) {
	return ctx, func(error) {}
}
func (Discard) Attempted(context.Context, cycle.Attempt)       {}
func (Discard) Reported(context.Context, cycle.Report, error) {}
