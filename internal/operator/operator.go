// Package operator is the use case of people: to see what waits and what failed,
// to understand why, and to put it right without SQL. Command line and Lambda
// alike do the same actions with the same members.
//
//	status  list  show                    look, and change nothing
//	replay  failed ────▶ pending          a fresh budget of attempts, at a pace
//	cancel  pending ───▶ failed           nobody wants it any more
//	reclaim delivering ▶ pending          expired leases; others only by force
//	prune   succeeded ─▶ deleted          old ones, in small batches
//	pause   resume                        at once, and over a cold start
//	migrate doctor                        the table; everything that has to work
//
// # Guarantees
//
// Each change names the state that it expects of a row and skips a row that is
// in another or that somebody else has locked. What would change more than one
// event asks first. Each change is told to Audit, when it begins if it takes
// long, and when it ends, also when it ends in an error.
package operator

import "context"

// Operator does the actions. Its fields are set once; one action runs at a time.
type Operator struct {
	Store Store
	// Who asks, beside the role of the database, which the store knows.
	Who Who
	// Audit is told of every change. Required.
	Audit func(context.Context, Entry)
	// Confirm asks a person. nil, or an error: what was asked is not done.
	Confirm func(context.Context, Question) error
	// Progress is told of long work, often. May be nil.
	Progress func(Progress)
	// Say is told each step of a migration, when it begins. May be nil.
	Say func(string)
	// Doctor checks everything that has to work. nil: there is none.
	Doctor func(context.Context, Doctor) (Diagnosis, error)

	// MaxLostLeases is how many leases a row may lose in a row before reclaim
	// makes it failed.
	MaxLostLeases int
	// MaxAttempts of the dispatcher; 0 where it is not known.
	MaxAttempts int
	// MaxPayload bounds the payload that show returns, in bytes; 0: as it is.
	MaxPayload int64
}

// Do does what is asked. Returns a *UsageError if the request cannot be meant
// so, before anything is done. What is returned can be written as JSON; beside
// an error it may tell what was done until then.
func (o *Operator) Do(ctx context.Context, r Request) (result any, err error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.do(ctx, o)
}

// Progress of long work.
type Progress struct {
	Action string
	Done   int     // events changed, or counted in a dry run
	Of     int     // 0: not known
	Part   float64 // of the work, from 0 to 1
}

func (o *Operator) progress(p Progress) {
	if o.Progress != nil {
		o.Progress(p)
	}
}
