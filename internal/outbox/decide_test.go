package outbox_test

import (
	"math/big"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempts  int
		cap, want time.Duration
	}{
		{1, time.Minute, 2 * time.Second},
		{2, time.Minute, 4 * time.Second},
		{3, time.Minute, 8 * time.Second},
		{4, time.Minute, 16 * time.Second},
		{5, time.Minute, 32 * time.Second},
		{6, time.Minute, time.Minute}, // not 64 s
		{7, time.Minute, time.Minute},
		{34, time.Minute, time.Minute},   // where a Duration overflows
		{62, time.Minute, time.Minute},   // where an int64 does
		{63, time.Minute, time.Minute},   //
		{64, time.Minute, time.Minute},   // where a shift gives zero
		{1100, time.Minute, time.Minute}, // where a float8 overflows
		{1, 500 * time.Millisecond, 500 * time.Millisecond},
		{1, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{3, 7250 * time.Millisecond, 7250 * time.Millisecond},
		{1, time.Millisecond, time.Millisecond},
		{16, 24 * time.Hour, 65536 * time.Second}, // 18 h 12 min 16 s
		{17, 24 * time.Hour, 24 * time.Hour},
		{0, time.Minute, time.Second},
		{-5, time.Minute, time.Second}, // a base beyond the attempts
	} {
		if got := outbox.Backoff(c.attempts, c.cap); got != c.want {
			t.Errorf("after %d attempts, cap %v: %v, want %v", c.attempts, c.cap, got, c.want)
		}
	}
}

// For every number of attempts it is the smaller one of 2^n seconds and the cap,
// by numbers that do not overflow.
func TestBackoffNeverOverflows(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{time.Millisecond, 1500 * time.Millisecond, time.Minute, 61500 * time.Millisecond, 24 * time.Hour} {
		for attempts := range 2001 {
			want := new(big.Int).Lsh(big.NewInt(int64(time.Second)), uint(attempts))
			if largest := big.NewInt(int64(longest)); want.Cmp(largest) > 0 {
				want = largest
			}
			if got := outbox.Backoff(attempts, longest); int64(got) != want.Int64() || got <= 0 {
				t.Fatalf("after %d attempts, cap %v: %v, want %v ns", attempts, longest, got, want)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	policy := outbox.Policy{MaxAttempts: 5, BackoffCap: time.Minute}
	refused := outbox.Verdict{Code: outbox.ConnectionError, Text: "HTTP 500"}
	asked := func(d time.Duration) outbox.Verdict {
		return outbox.Verdict{Code: outbox.ConnectionError, Text: "HTTP 429", RetryAfter: d}
	}
	for _, c := range []struct {
		name           string
		attempts, base int
		verdict        outbox.Verdict
		status         outbox.Status
		delay          time.Duration
	}{
		{"AcknowledgedAtOnce", 0, 0, outbox.Verdict{RunID: "7"}, outbox.Succeeded, 0},
		{"AcknowledgedAtTheLastAttempt", 4, 0, outbox.Verdict{RunID: "7"}, outbox.Succeeded, 0},
		{"AcknowledgedBeyondTheLastAttempt", 9, 0, outbox.Verdict{RunID: "7"}, outbox.Succeeded, 0},
		{"FirstFailure", 0, 0, refused, outbox.Pending, 2 * time.Second},
		{"SecondFailure", 1, 0, refused, outbox.Pending, 4 * time.Second},
		{"LastButOne", 3, 0, refused, outbox.Pending, 16 * time.Second},
		{"Last", 4, 0, refused, outbox.Failed, 0},
		{"BeyondTheLast", 7, 0, refused, outbox.Failed, 0},
		{"FirstAfterAReplay", 100, 100, refused, outbox.Pending, 2 * time.Second},
		{"LastAfterAReplay", 104, 100, refused, outbox.Failed, 0},
		{"BaseBeyondTheAttempts", 0, 100, refused, outbox.Pending, time.Second},
		{"AskedToWaitLonger", 0, 0, asked(2 * time.Minute), outbox.Pending, 2 * time.Minute},
		{"AskedToWaitShorter", 3, 0, asked(3 * time.Second), outbox.Pending, 16 * time.Second},
		{"AskedToWaitADay", 0, 0, asked(24 * time.Hour), outbox.Pending, time.Hour},
		{"AskedToWaitAtTheLast", 4, 0, asked(time.Minute), outbox.Failed, 0},
		{"AskedForLessThanNothing", 0, 0, asked(-time.Hour), outbox.Pending, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &outbox.Event{ID: ours, Attempts: c.attempts, Base: c.base, Claim: outbox.Claim{Token: "claim", Deadline: "then", Due: "before"}}
			o := outbox.Decide(e, c.verdict, policy)
			want := outbox.Outcome{
				EventID: ours, Attempts: c.attempts, Base: c.base, Claim: e.Claim,
				Status: c.status, Code: c.verdict.Code, Error: c.verdict.Text, RunID: c.verdict.RunID, Delay: c.delay,
			}
			if o != want {
				t.Errorf("got  %+v\nwant %+v", o, want)
			}
		})
	}
}

// One attempt allowed: the first failure is the last.
func TestDecideWithOneAttempt(t *testing.T) {
	t.Parallel()
	o := outbox.Decide(&outbox.Event{ID: ours}, outbox.Verdict{Code: outbox.UnknownError}, outbox.Policy{MaxAttempts: 1, BackoffCap: time.Minute})
	if o.Status != outbox.Failed || o.Delay != 0 {
		t.Errorf("got %+v", o)
	}
}

// However a run goes, a row that keeps failing is tried exactly so often, and the
// delay between two attempts is never nothing.
func TestDecideEndsEveryRow(t *testing.T) {
	t.Parallel()
	policy := outbox.Policy{MaxAttempts: 2000, BackoffCap: 1500 * time.Millisecond}
	for attempts := range policy.MaxAttempts {
		o := outbox.Decide(&outbox.Event{Attempts: attempts}, outbox.Verdict{Code: outbox.ConnectionError}, policy)
		if last := attempts == policy.MaxAttempts-1; (o.Status == outbox.Failed) != last || !last && o.Delay <= 0 {
			t.Fatalf("attempts %d: %+v", attempts, o)
		}
	}
}
