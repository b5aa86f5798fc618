package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counter is a store of n events that all fit, and fails at the nth change.
type counter struct {
	Store
	n, failAt int
	batches   []int
	delays    []float64
	expired   int
	walks     int
}

func (c *counter) Role(context.Context) (string, error) { return "people", nil }

func (c *counter) Choose(_ context.Context, _ []string, _ Filter, limit int) (Chosen, error) {
	chosen := Chosen{Matched: c.n}
	for i := range min(c.n, limit) {
		chosen.Refs = append(chosen.Refs, Ref{ID: fmt.Sprint(i)})
	}
	return chosen, nil
}

var errAway = errors.New("database: away")

func (c *counter) change(refs []Ref) ([]string, error) {
	c.batches = append(c.batches, len(refs))
	if len(c.batches) == c.failAt {
		return nil, errAway
	}
	var ids []string
	for _, r := range refs[1:] { // the first of each batch is locked
		ids = append(ids, r.ID)
	}
	return ids, nil
}

func (c *counter) Replay(_ context.Context, refs []Ref, delays []float64) ([]string, error) {
	c.delays = append(c.delays, delays...)
	return c.change(refs)
}

func (c *counter) Cancel(_ context.Context, refs []Ref, _, _ string) ([]string, error) {
	return c.change(refs)
}

func (c *counter) Expired(_ context.Context, limit int) (int, error) {
	return min(c.expired, limit), nil
}

func (c *counter) Reclaim(_ context.Context, limit, _ int) (Reclaimed, error) {
	n := min(limit, c.expired)
	c.expired -= n
	c.batches = append(c.batches, n)
	if len(c.batches) == c.failAt {
		return Reclaimed{}, errAway
	}
	return Reclaimed{Pending: n - 1, Failed: 1}, nil
}

func (c *counter) PruneStart(context.Context, int) (Walk, error) { return Walk{}, nil }

func (c *counter) PruneStep(_ context.Context, w Walk, limit int, _, _ bool) (Walk, int, error) {
	if c.walks++; c.walks == c.failAt {
		return w, 0, errAway
	}
	n := min(limit, c.n)
	c.n -= n
	w.Done = c.n == 0
	return w, n, nil
}

// audited keeps what the audit is told.
type audited []Entry

func (a *audited) tell(_ context.Context, e Entry) { *a = append(*a, e) }

func TestChangesComeInBatches(t *testing.T) {
	t.Parallel()
	c := &counter{n: 1201}
	var a audited
	var told []Progress
	o := &Operator{Store: c, Audit: a.tell, Progress: func(p Progress) { told = append(told, p) }, Who: Who{User: "bob", Host: "laptop"}}
	got, err := o.Do(t.Context(), &Replay{Choice: Choice{All: true}, Limit: 1200, Rate: 10, Yes: true})
	if err != nil {
		t.Fatal(err)
	}
	if r := got.(Replayed); r.Matched != 1201 || r.Changed.Changed != 1197 || r.Passed != 3 || r.LastDueInSeconds != 119.9 {
		t.Errorf("%+v", r)
	}
	if fmt.Sprint(c.batches) != "[500 500 200]" || len(c.delays) != 1200 || c.delays[0] != 0 || c.delays[600] != 60 || c.delays[1199] != 119.9 {
		t.Errorf("batches %v, delays %v ... %v", c.batches, c.delays[:2], c.delays[1199])
	}
	if len(told) != 3 || told[2].Done != 1197 || told[2].Of != 1200 || told[2].Part != 1 {
		t.Errorf("progress %+v", told)
	}
	if len(a) != 2 || a[0].Phase != Begun || a[0].Changed != 0 || a[1].Phase != Ended || a[1].Changed != 1197 || len(a[1].IDs) != maxAuditIDs ||
		a[1].Role != "people" || a[1].Who.String() != "bob on laptop" || a[1].What != "replay 1200 of 1201 failed events, 10 a second, so that the last one is due in 1m59s" {
		t.Errorf("audit %+v", a)
	}
}

func TestAChangeThatEndsTooSoonTellsHowFarItCame(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Request{
		"replay":  &Replay{Choice: Choice{All: true}, Limit: 2000, Rate: 5, Yes: true},
		"cancel":  &Cancel{Choice: Choice{All: true}, Limit: 2000, As: "cancelled", Reason: "why", Yes: true},
		"reclaim": &Reclaim{Limit: 2000, Yes: true},
		"prune":   &Prune{OlderThanDays: 7, Batch: 500, Yes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a audited
			o := &Operator{Store: &counter{n: 2000, expired: 2000, failAt: 3}, Audit: a.tell}
			_, err := o.Do(t.Context(), r)
			var partial *PartialError
			if !errors.As(err, &partial) || !errors.Is(err, errAway) || partial.Changed < 998 || !strings.Contains(err.Error(), "database: away (changed before that: ") {
				t.Errorf("%v", err)
			}
			if last := a[len(a)-1]; last.Err != errAway || last.Changed != partial.Changed || last.Action != name {
				t.Errorf("audit %+v", a)
			}
		})
	}
}

func TestReclaimEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	c := &counter{expired: 2000}
	var a audited
	got, err := (&Operator{Store: c, Audit: a.tell}).Do(t.Context(), &Reclaim{Limit: 1100, Yes: true})
	if r := got.(Reclaimed); err != nil || r.Pending != 1097 || r.Failed != 3 || fmt.Sprint(c.batches) != "[500 500 100]" {
		t.Errorf("%+v, %v, batches %v", r, err, c.batches)
	}
}

func TestWhatIsAskedBefore(t *testing.T) {
	t.Parallel()
	var asked []string
	refuse := func(_ context.Context, q Question) error {
		asked = append(asked, q.Text)
		return &RefusedError{"no"}
	}
	for _, c := range []struct {
		events int
		r      Request
		want   string // the question; empty: it is not asked
	}{
		{2, &Replay{Choice: Choice{All: true}, Limit: 10, Rate: 5}, "replay 2 failed events, 5 a second, so that the last one is due in less than a second"},
		{1, &Replay{Choice: Choice{All: true}, Limit: 10, Rate: 5}, ""},
		{5, &Replay{Choice: Choice{All: true}, Limit: 1, Rate: 5}, ""},
		{5, &Replay{Choice: Choice{All: true}, Limit: 10, Rate: 5, Yes: true}, ""},
		{5, &Replay{Choice: Choice{All: true}, Limit: 10, Rate: 5, DryRun: true}, ""},
		{3, &Cancel{Choice: Choice{Filter: Filter{Type: "t"}}, Limit: 10, As: "x", Reason: "why\nnot"}, "cancel 3 pending events of type t as x: why not"},
		{2, &Reclaim{Limit: 10}, "reclaim 2 expired leases"},
		{1, &Reclaim{Limit: 10}, ""},
		{0, &Prune{OlderThanDays: 7, Batch: 1, Failed: true, Limit: 9}, "delete every succeeded and failed event that occurred before 1970-01-01 00:00:00 UTC, 7 days ago, at most 9"},
		{1, &Prune{OlderThanDays: 7, Batch: 1, Limit: 1}, ""},
	} {
		asked = nil
		o := &Operator{Store: &counter{n: c.events, expired: c.events}, Audit: (&audited{}).tell, Confirm: refuse}
		_, err := o.Do(t.Context(), c.r)
		var refused *RefusedError
		if (c.want != "") != errors.As(err, &refused) || strings.Join(asked, "|") != c.want {
			t.Errorf("%+v: asked %q, %v; want %q", c.r, asked, err, c.want)
		}
		if c.want == "" {
			continue
		}
		o.Confirm = nil
		if _, err := o.Do(t.Context(), c.r); !errors.As(err, &refused) || !strings.Contains(err.Error(), `nobody is there to be asked; say yes (--yes, or "yes": true)`) {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}

// Half of the time belongs to others: a pause is as long as the step before it,
// and after a delete no shorter than it was asked for.
func TestPruneRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &Operator{Store: &counter{n: 10}, Audit: (&audited{}).tell}
		began := time.Now()
		got, err := o.Do(t.Context(), &Prune{OlderThanDays: 7, Batch: 2, Pause: Duration(time.Second), Yes: true})
		if p := got.(Pruned); err != nil || p.Deleted != 10 || p.Batches != 5 || time.Since(began) != 4*time.Second || p.DurationMS != 4000 {
			t.Errorf("%+v, %v, within %v", p, err, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), pruneMargin+1500*time.Millisecond)
		defer cancel()
		o := &Operator{Store: &counter{n: 10}, Audit: (&audited{}).tell}
		got, err := o.Do(ctx, &Prune{OlderThanDays: 7, Batch: 2, Pause: Duration(time.Second), Yes: true})
		if p := got.(Pruned); err != nil || p.Deleted != 4 || p.Stopped != OutOfTime {
			t.Errorf("%+v, %v", p, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		var a audited
		o := &Operator{Store: &counter{n: 10}, Audit: a.tell}
		got, err := o.Do(ctx, &Prune{OlderThanDays: 7, Batch: 2, Pause: Duration(time.Second), Yes: true})
		if p := got.(Pruned); !errors.Is(err, errInterrupted) || p.Deleted != 4 || a[len(a)-1].Changed != 4 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestEntryNamesWhoDidIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		who  Who
		want string
	}{
		{Who{}, "people"},
		{Who{User: "bob"}, "people (bob)"},
		{Who{Host: "Lambda f"}, "people (Lambda f)"},
		{Who{User: "bob", Host: "laptop"}, "people (bob on laptop)"},
	} {
		if got := (&Entry{Role: "people", Who: c.who}).by(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
