package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// Everything around a POST may be slow. These tests run on virtual time.

// slowTable takes its time to open a session, to claim and to count the backlog. It notes
// the last release.
type slowTable struct {
	*simTable
	ready, claim, count time.Duration
	released            time.Time
}

func (t *slowTable) Ready(ctx context.Context) error { return pause(ctx, t.ready) }

func (t *slowTable) Take(ctx context.Context, c Claim) (Batch, error) {
	b, err := t.simTable.Take(ctx, c)
	return b, errors.Join(err, pause(ctx, t.claim))
}

func (t *slowTable) Backlog(ctx context.Context) (Backlog, error) {
	b, err := t.simTable.Backlog(ctx)
	return b, errors.Join(err, pause(ctx, t.count))
}

func (t *slowTable) Release(ctx context.Context, events []outbox.Event) ([]Fate, error) {
	fates, err := t.simTable.Release(ctx, events)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = time.Now()
	return fates, err
}

// slowTokens takes its time to read the secret. Deaf, it ignores its deadline.
type slowTokens struct {
	token, refresh time.Duration
	deaf           bool
}

func (s slowTokens) Token(ctx context.Context) (string, error) { return "old", pause(ctx, s.token) }
func (s slowTokens) Refresh(ctx context.Context) (string, error) {
	if s.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	return "new", pause(ctx, s.refresh)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// webhook notes when each POST starts. It answers after a while, and refuses the token of
// some events while that is the old one.
type webhook struct {
	takes   time.Duration // 0: a second
	refuses func(event string) bool

	mu     sync.Mutex
	starts []time.Time
}

func (w *webhook) Post(_ context.Context, token string, body []byte) outbox.Answer {
	w.mu.Lock()
	w.starts = append(w.starts, time.Now())
	w.mu.Unlock()
	time.Sleep(cmp.Or(w.takes, time.Second))
	if token == "old" && w.refuses != nil && w.refuses(strings.TrimLeft(string(body), "0")) {
		return outbox.Answer{Host: "n8n", HTTPStatus: 403}
	}
	return outbox.Answer{Host: "n8n", HTTPStatus: 200, Body: fmt.Appendf(nil, `{"ok":true,"event_id":"%s","result":{"execution_id":"1"}}`, body)}
}

// A refresh of the token may take as long as it likes: no POST starts that the lease or
// the invocation would not outlive, and what was not sent is given back.
func TestNoPostStartsTooLateAfterARefresh(t *testing.T) {
	t.Parallel()
	const post, invocation = 10 * time.Second, 30 * time.Second
	for name, c := range map[string]struct {
		refresh, lease time.Duration
		deaf           bool
		lastStart      time.Duration // after the start
		stopped        Stopped
	}{
		"Quick":               {time.Second, 3 * time.Minute, false, invocation - post - PostMargin, Drained},
		"BeyondTheInvocation": {time.Hour, 3 * time.Minute, false, invocation - post - PostMargin, TimeUp},
		"UntilTheLastStart":   {16500 * time.Millisecond, 3 * time.Minute, false, invocation - post - PostMargin, TimeUp},
		"BeyondTheLease":      {time.Hour, 17 * time.Second, false, 5 * time.Second, TimeUp},
		"DeafToItsDeadline":   {25 * time.Second, 3 * time.Minute, true, invocation - post - PostMargin, TimeUp},
		"DeafBeyondTheLease":  {10 * time.Second, 17 * time.Second, true, 5 * time.Second, TimeUp},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, w := &slowTable{simTable: newSimTable(40)}, &webhook{refuses: func(event string) bool { return event == "1" || event == "2" }}
				s := simSettings()
				s.HTTPTimeout, s.Lease, s.Concurrency = post, c.lease, 20
				pacer := NewPacer()
				pacer.remembered = 20 // events go on while one waits for the refresh
				d := &Dispatcher{Settings: s, Store: table, Webhook: w, Tokens: slowTokens{refresh: c.refresh, deaf: c.deaf}, Observer: Discard{}, Pacer: pacer}
				started := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), invocation)
				defer cancel()
				r, err := d.Run(ctx, Request{})
				if took := time.Since(started); err != nil || took > invocation-500*time.Millisecond {
					t.Errorf("after %v: %v", took, err)
				}
				for _, at := range w.starts {
					if at.Sub(started) >= c.lastStart {
						t.Errorf("a POST started after %v", at.Sub(started))
					}
				}
				if r.Claimed != r.Succeeded+r.Retried+r.Released || r.Stopped != c.stopped || (r.Released == 0) != (c.stopped == Drained) {
					t.Errorf("report %+v", r)
				}
				if at := table.released.Sub(started); r.Released > 0 && at != c.lastStart {
					t.Errorf("events were given back after %v", at)
				}
				for i, row := range table.rows {
					if row.status == outbox.Delivering {
						t.Errorf("event %d is still claimed", i)
					}
				}
			})
		})
	}
}

// An invocation that can send nothing says so. Nothing is claimed after a start that took
// too long; what a slow claim took is given back.
func TestNoTimeForAPostIsAnError(t *testing.T) {
	t.Parallel()
	const s = time.Second // a POST takes up to 10 s and needs 12 s
	for name, c := range map[string]struct {
		invocation, token, ready, claim, lease time.Duration
		interrupted                            bool
		want                                   string // in the error; empty: none
		claims                                 bool
	}{
		"Equality":                  {invocation: 12 * s, lease: 60 * s, want: "after 0.0 s this invocation has 12.0 s left"},
		"JustAbove":                 {invocation: 12*s + 1, lease: 60 * s, claims: true},
		"AfterASlowSecret":          {invocation: 20 * s, token: 8 * s, lease: 60 * s, want: "after 8.0 s this invocation has 12.0 s left"},
		"AfterASlowSession":         {invocation: 16 * s, ready: 5 * s, lease: 60 * s, want: "after 5.0 s this invocation has 11.0 s left"},
		"AfterASlowClaim":           {invocation: 16 * s, claim: 5 * s, lease: 60 * s, want: "after 5.0 s this invocation has 11.0 s left", claims: true},
		"AfterAClaimOfAShortLease":  {invocation: 60 * s, claim: s, lease: 12 * s, want: "raise N8N_DELIVERY_LEASE_SECONDS", claims: true},
		"SlowAndStillEnough":        {invocation: 30 * s, token: 5 * s, ready: 8 * s, claim: 5 * s, lease: 60 * s, claims: true},
		"InterruptedWhileItClaimed": {invocation: 16 * s, claim: 5 * s, lease: 60 * s, interrupted: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, settings := newSimTable(3), simSettings()
				settings.HTTPTimeout, settings.Lease = 10*s, c.lease
				d := &Dispatcher{Settings: settings, Store: &slowTable{simTable: table, ready: c.ready, claim: c.claim}, Webhook: &webhook{}, Tokens: slowTokens{token: c.token}, Observer: Discard{}, Pacer: NewPacer()}
				ctx, cancel := context.WithTimeout(t.Context(), c.invocation)
				defer cancel()
				if c.interrupted {
					time.AfterFunc(s, cancel)
				}
				r, err := d.Run(ctx, Request{})
				var timeErr *TimeError
				if c.interrupted {
					if errors.As(err, &timeErr) {
						t.Errorf("%v", err)
					}
				} else if errors.As(err, &timeErr) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if claimed := r.Claimed > 0; claimed != c.claims || c.want != "" && r.Released != r.Claimed || table.made != r.Succeeded {
					t.Errorf("report %+v", r)
				}
			})
		})
	}
}

// A POST that takes its whole timeout at the end of the time leaves a second to count what
// is left.
func TestTheBacklogIsCountedAfterABusyInvocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simSettings()
		s.Concurrency = 1
		d := &Dispatcher{Settings: s, Store: &slowTable{simTable: newSimTable(40), count: time.Second}, Webhook: &webhook{takes: simTimeout - 1}, Tokens: simToken{}, Observer: Discard{}, Pacer: NewPacer()}
		ctx, cancel := context.WithTimeout(t.Context(), 2*simTimeout+PostMargin)
		defer cancel()
		if r, err := d.Run(ctx, Request{}); err != nil || r.Stopped != TimeUp || r.Succeeded != 2 || r.BacklogDue != 38 {
			t.Errorf("report %+v, %v", r, err)
		}
	})
}
