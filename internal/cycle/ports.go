package cycle

import (
	"context"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// Tokens gives the webhook token. It is asked before anything is claimed, and
// again when n8n refuses a token.
type Tokens interface {
	// Token returns the token, from a cache where that is fresh enough.
	Token(ctx context.Context) (string, error)
	// Refresh reads the token again, past the cache.
	Refresh(ctx context.Context) (string, error)
}

// Webhook sends one event.
type Webhook interface {
	// Post sends the body once and reads the answer whole, within the timeout of
	// a POST. Whatever happens is in the answer; it never sends a second time.
	Post(ctx context.Context, token string, body []byte) outbox.Answer
}

// Store is the table. Rows live by the clock of the database; no method waits
// for a row that somebody else has locked.
type Store interface {
	// Ready opens a session and looks whether the table is as it has to be, so
	// that nothing is claimed that cannot be recorded.
	Ready(ctx context.Context) error
	// Take reclaims (if asked), claims a batch and tells the backlog, all in one
	// transaction and one round trip.
	Take(ctx context.Context, c Claim) (Batch, error)
	// Record writes outcomes, each only if its row still carries our claim. It
	// returns one fate for each outcome, in their order.
	Record(ctx context.Context, outcomes []outbox.Outcome) ([]Fate, error)
	// Release gives events back untried, fenced in the same way.
	Release(ctx context.Context, events []outbox.Event) ([]Fate, error)
	// Backlog tells what waits.
	Backlog(ctx context.Context) (Backlog, error)
	// Due shows what a claim would take, and takes nothing.
	Due(ctx context.Context, limit int) ([]DueEvent, Backlog, error)
}

// Fate is what became of an outcome at its row.
type Fate int

const (
	// Recorded: the row holds the outcome.
	Recorded Fate = iota
	// Lost: the row no longer carries our claim, so the outcome was dropped.
	Lost
	// Held: the row carries our claim and somebody else has it locked; to be
	// tried again.
	Held
	// Refused: the database does not take a value of the outcome.
	Refused
)

// Backlog is what waits in the table. Due and Failed are counted up to
// BacklogCap.
type Backlog struct {
	Due          int
	OldestDueAge time.Duration // 0 if nothing is due
	Parked       int
	Failed       int
}

// Observer is told what happens: it logs, traces and counts. Nothing it does
// can fail or end a delivery, and its methods are called from several
// goroutines at once.
type Observer interface {
	// Step marks the start of a step ("reclaim", "claim", "deliver", "record",
	// "secret"). The returned function ends it, with the step's error or nil.
	Step(ctx context.Context, name string) (context.Context, func(error))
	// Unchangeable tells of a row that nobody can take.
	Unchangeable(ctx context.Context, u Unchangeable)
	// Attempted tells of one attempt, once its outcome is decided.
	Attempted(ctx context.Context, a Attempt)
	// Reported tells of a whole invocation, once, at its end. err is nil unless
	// the invocation could not do its work.
	Reported(ctx context.Context, r Report, err error)
}

// Attempt is what is told of one attempt. It holds no payload, no token and no
// URL.
type Attempt struct {
	EventID    string
	EventType  string
	Number     int           // 1 for the first attempt
	Status     outbox.Status // of the row, once the outcome is recorded
	Code       outbox.Code   // empty when acknowledged
	Error      string        // what went wrong, without the excerpt of the answer that last_error has; empty when acknowledged
	HTTPStatus int           // 0 when nothing was sent or nothing was answered
	Started    time.Time     // local clock
	Duration   time.Duration // of the POST, its answer read whole; 0 when nothing was sent
	// CommitToAck is the time from occurred_at to the acknowledgement, by the
	// database clock. 0 unless acknowledged; never negative.
	CommitToAck time.Duration
	RunID       string // n8n's execution id; empty unless acknowledged
}
