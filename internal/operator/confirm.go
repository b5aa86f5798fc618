package operator

import (
	"context"
	"fmt"
)

// Question is asked before more than one event is changed.
type Question struct {
	Text   string // what would be done, without a question mark
	Sample []Ref  // of the events, the first few; nil: not known before
}

// RefusedError says that a change was not confirmed. Nothing was done.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// Unconfirmed is the error where nobody can be asked.
func Unconfirmed(q Question) error {
	return &RefusedError{fmt.Sprintf("%s: nothing was done, since nobody is there to be asked; say yes (--yes, or \"yes\": true) if it is meant so", q.Text)}
}

// sampleSize is how many events a question and a dry run show.
const sampleSize = 10

func sample(refs []Ref) []Ref { return refs[:min(len(refs), sampleSize)] }

// confirm asks unless yes was said or not more than one event is meant.
func (o *Operator) confirm(ctx context.Context, yes bool, events int, q Question) error {
	switch {
	case yes || events <= 1:
		return nil
	case o.Confirm == nil:
		return Unconfirmed(q)
	}
	return o.Confirm(ctx, q)
}

// count writes a number of things: 1 event, 2 events.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
