package cycle

import (
	"context"
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name                 string
		time, post, lease    time.Duration // of the invocation, of a POST, of the claim
		after, sinceTheClaim time.Duration
		may                  bool
	}{
		{"AtTheStart", 60 * s, 30 * s, 180 * s, 0, 0, true},
		{"WhileBothOutliveThePost", 60 * s, 30 * s, 180 * s, 27 * s, 27 * s, true},
		{"NotWhenTheInvocationEndsWithIt", 60 * s, 30 * s, 180 * s, 28 * s, 28 * s, false},
		{"NotWhenTheLeaseEndsWithIt", 600 * s, 30 * s, 60 * s, 28 * s, 28 * s, false},
		{"CountsTheLeaseFromTheClaimAndNotFromTheStart", 600 * s, 30 * s, 60 * s, 300 * s, 27 * s, true},
		{"LeavesAWindowWhereTheLeaseIsAsShortAsItMayBe", 60 * s, 4 * s, 6 * s, 400 * time.Millisecond, 400 * time.Millisecond, true},
		{"ButNoLongerThanThat", 60 * s, 4 * s, 6 * s, s, s, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			started := time.Now()
			ctx, cancel := context.WithDeadline(context.Background(), started.Add(c.time))
			defer cancel()
			b := newBudget(ctx, started, c.post)
			now := started.Add(c.after)
			if may := now.Before(b.lastStart(now.Add(-c.sinceTheClaim), c.lease)); may != c.may {
				t.Errorf("may post: %v", may)
			}
		})
	}
	t.Run("SixtySecondsWithoutADeadline", func(t *testing.T) {
		started := time.Now()
		if left := newBudget(context.Background(), started, s).left(started); left != 60*s {
			t.Errorf("%v left", left)
		}
	})
}
