package cycle

import "context"

// Discard is an observer that tells nobody.
type Discard struct{}

var _ Observer = Discard{}

// Step does nothing.
func (Discard) Step(ctx context.Context, _ string) (context.Context, func(error)) {
	return ctx, func(error) {}
}

// Unchangeable does nothing.
func (Discard) Unchangeable(context.Context, Unchangeable) {}

// Attempted does nothing.
func (Discard) Attempted(context.Context, Attempt) {}

// Reported does nothing.
func (Discard) Reported(context.Context, Report, error) {}
