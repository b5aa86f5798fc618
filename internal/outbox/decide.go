package outbox

import "time"

// Policy limits the attempts.
type Policy struct {
	MaxAttempts int           // attempts before a row fails; at least 1
	BackoffCap  time.Duration // longest delay that 2^attempts seconds grow to
}

// Outcome is what an attempt writes to its row.
type Outcome struct {
	EventID  string
	Attempts int   // attempts before this one: part of the fence
	Base     int   // attempts_base
	Claim    Claim // the rest of the fence

	Status Status        // Succeeded, Failed, or Pending again
	Code   Code          // empty if acknowledged
	Error  string        // last_error; empty if acknowledged
	RunID  string        // external_run_id if acknowledged
	Delay  time.Duration // before the next attempt, by the database clock; only for Pending
}

// Decide turns the verdict on an attempt into the outcome of the row.
func Decide(e *Event, v Verdict, p Policy) Outcome {
	o := Outcome{EventID: e.ID, Attempts: e.Attempts, Base: e.Base, Claim: e.Claim, Code: v.Code, Error: v.Text}
	if v.Code == "" {
		o.Status, o.RunID = Succeeded, v.RunID
		return o
	}
	return o.retry(p, v.RetryAfter)
}

// retry makes a failed attempt due again, or the row failed if it was the last.
func (o Outcome) retry(p Policy, retryAfter time.Duration) Outcome {
	made := o.Attempts - o.Base + 1
	if made >= p.MaxAttempts {
		o.Status = Failed
		return o
	}
	o.Status = Pending
	o.Delay = max(Backoff(made, p.BackoffCap), min(retryAfter, MaxRetryAfter))
	return o
}

// Backoff is the delay after so many attempts: 2^attempts seconds, at most
// longest. Never zero or negative, however many attempts there were:
//
//	attempts  1   2   3   4    5    6 and more
//	delay     2s  4s  8s  16s  32s  60s (with a cap of 60 s)
func Backoff(attempts int, longest time.Duration) time.Duration {
	// 2^33 seconds overflow a Duration, and 2^30 are 34 years.
	if attempts > 30 {
		return longest
	}
	return min(time.Duration(1<<max(attempts, 0))*time.Second, longest)
}
