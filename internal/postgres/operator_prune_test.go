package postgres_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
)

// prune does a prune and returns what it did.
func (d *desk) prune(p operator.Prune) operator.Pruned {
	d.t.Helper()
	if p.Batch == 0 {
		p.Batch = 1000
	}
	p.Yes = true
	o := &operator.Operator{Store: d.store, Audit: ignore}
	r, err := o.Do(d.t.Context(), &p)
	if err != nil {
		d.t.Fatalf("prune: %v", err)
	}
	return r.(operator.Pruned)
}

func (d *desk) left() string {
	d.t.Helper()
	return d.value("select coalesce(string_agg(ltrim(right(event_id::text, 12), '0'), ' ' order by event_id), '') from " + d.table.String())
}

// shelf has old and young events of every status.
func shelf(d *desk) {
	day := func(n string) string { return "now() - interval '" + n + "'" }
	d.put(1, "delivery_status", "'succeeded'", "occurred_at", day("31 days"))
	d.put(2, "delivery_status", "'succeeded'", "occurred_at", day("30 days 1 minute"))
	d.put(3, "delivery_status", "'succeeded'", "occurred_at", day("29 days 23 hours 59 minutes")) // just too young
	d.put(4, "delivery_status", "'failed'", "occurred_at", day("31 days"))
	d.put(5, "occurred_at", day("31 days"))
	d.put(6, "delivery_status", "'delivering'", "occurred_at", day("31 days"))
	d.put(7, "delivery_status", "'archived'", "occurred_at", day("31 days")) // somebody else's
	d.put(8, "delivery_status", "'failed'", "occurred_at", day("29 days"))
}

func TestPrune(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prune   operator.Prune
		deleted int
		left    string
		stopped operator.Stopped
	}{
		{"SucceededAndOldAlone", operator.Prune{OlderThanDays: 30}, 2, "3 4 5 6 7 8", operator.Complete},
		{"FailedOnlyWhenAsked", operator.Prune{OlderThanDays: 30, Failed: true}, 3, "3 5 6 7 8", operator.Complete},
		{"CountsInADryRun", operator.Prune{OlderThanDays: 30, DryRun: true}, 2, "1 2 3 4 5 6 7 8", operator.Complete},
		{"OneByOne", operator.Prune{OlderThanDays: 30, Batch: 1}, 2, "3 4 5 6 7 8", operator.Complete},
		{"NoMoreThanAskedFor", operator.Prune{OlderThanDays: 30, Limit: 1}, 1, "2 3 4 5 6 7 8", operator.AtLimit},
		{"NothingThatOld", operator.Prune{OlderThanDays: 32}, 0, "1 2 3 4 5 6 7 8", operator.Complete},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, make := range []func(testing.TB) *desk{newDesk, jsonDesk} {
				d := make(t)
				shelf(d)
				r := d.prune(c.prune)
				if r.Deleted != c.deleted || r.Stopped != c.stopped || d.left() != c.left {
					t.Errorf("deleted %d (%s), left %s; want %d (%s), left %s", r.Deleted, r.Stopped, d.left(), c.deleted, c.stopped, c.left)
				}
			}
		})
	}

	t.Run("OfAnEmptyTable", func(t *testing.T) {
		t.Parallel()
		if r := newDesk(t).prune(operator.Prune{OlderThanDays: 7}); r.Deleted != 0 || r.Stopped != operator.Complete {
			t.Errorf("%+v", r)
		}
	})

	t.Run("WaitsForNoLock", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		shelf(d)
		d.locked(1)
		if r := d.prune(operator.Prune{OlderThanDays: 30}); r.Deleted != 1 || d.left() != "1 3 4 5 6 7 8" {
			t.Errorf("%+v, left %s", r, d.left())
		}
	})

	t.Run("ByKeysOnAnOldServer", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			failed, dry bool
			limit       int
			left        string
		}{
			{false, false, 1, "3 4 5 6 7 8"}, {false, false, 3, "3 4 5 6 7 8"}, {true, false, 100, "3 5 6 7 8"}, {false, true, 2, "1 2 3 4 5 6 7 8"},
		} {
			d := newDesk(t)
			shelf(d)
			w, err := d.store.PruneStart(t.Context(), 30)
			if err != nil {
				t.Fatal(err)
			}
			w.Position, w.End, w.Done = "", "", false // as PruneStart says it there
			deleted := 0
			for steps := 0; !w.Done; steps++ {
				var n int
				if w, n, err = d.store.PruneStep(t.Context(), w, c.limit, c.failed, c.dry); err != nil || steps > 20 {
					t.Fatalf("step %d: %v", steps, err)
				}
				deleted += n
			}
			if want := 2; d.left() != c.left || c.failed == (deleted == want) || w.Part != 1 {
				t.Errorf("%+v: deleted %d, left %s, part %g", c, deleted, d.left(), w.Part)
			}
		}
	})

	t.Run("EndsWithoutAnErrorBeforeItsTimeIsUp", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		shelf(d)
		ctx, cancel := contextWithTimeout(t, 5*time.Second) // less than a prune leaves
		defer cancel()
		r, err := (&operator.Operator{Store: d.store, Audit: ignore}).Do(ctx, &operator.Prune{OlderThanDays: 30, Batch: 1, Yes: true})
		if p := r.(operator.Pruned); err != nil || p.Stopped != operator.OutOfTime || p.Deleted != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// What is referred to from another table cannot be deleted: that is one clear
// error, and what was deleted before stays deleted and is told.
func TestPruneOfAnEventThatIsReferredTo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	shelf(d)
	d.exec("create table refers (event_id uuid references outbox_events); insert into refers values ('" + eventID(2) + "')")
	var told []operator.Entry
	o := &operator.Operator{Store: d.store, Audit: keep(&told)}
	r, err := o.Do(t.Context(), &operator.Prune{OlderThanDays: 30, Batch: 1, Yes: true})
	if err == nil || !strings.Contains(err.Error(), "foreign key") || r.(operator.Pruned).Deleted != 1 || d.left() != "2 3 4 5 6 7 8" {
		t.Errorf("%+v, %v, left %s", r, err, d.left())
	}
	if len(told) != 2 || told[0].Phase != operator.Begun || told[1].Changed != 1 || told[1].Err == nil {
		t.Errorf("audit %+v", told)
	}
}

// Twenty thousand rows go while a dispatcher claims and records.
func TestPruneBesideADispatcher(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, attempts)
		select gen_random_uuid(), 'order.placed', now() - interval '40 days' + n * interval '1 second', '` + deskPayload + `', 'succeeded', 1 from generate_series(1, 20000) n`)
	d.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select gen_random_uuid(), 'order.placed', now() - interval '40 days', '` + deskPayload + `' from generate_series(1, 2000) n`)
	dispatcher := d.open(d.url)
	var work sync.WaitGroup
	work.Go(func() {
		for done := 0; done < 2000; {
			batch, err := dispatcher.Take(t.Context(), cycle.Claim{Limit: 100, Bytes: 1 << 20, MaxBody: 1 << 20, Lease: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			fates, err := dispatcher.Record(t.Context(), acknowledged(batch.Events))
			if err != nil {
				t.Error(err)
				return
			}
			done += len(fates)
		}
	})
	var told []operator.Progress
	o := &operator.Operator{Store: d.store, Audit: ignore, Progress: func(p operator.Progress) { told = append(told, p) }}
	r, err := o.Do(t.Context(), &operator.Prune{OlderThanDays: 30, Batch: 1000, Yes: true})
	work.Wait()
	if err != nil {
		t.Fatal(err)
	}
	p := r.(operator.Pruned)
	if p.Deleted < 20_000 || p.Batches < 20 || p.Stopped != operator.Complete {
		t.Errorf("%+v", p)
	}
	// What succeeded meanwhile lies behind or before the walk.
	if got := d.value("select count(*) filter (where delivery_status <> 'succeeded')::text from outbox_events"); got != "0" {
		t.Errorf("%s events are not succeeded", got)
	}
	last := 0.0
	for _, p := range told {
		if p.Part < last || p.Part > 1 {
			t.Errorf("progress fell from %g to %g", last, p.Part)
		}
		last = p.Part
	}
	if last != 1 || len(told) < 20 {
		t.Errorf("%d times progress, the last %g", len(told), last)
	}
}
