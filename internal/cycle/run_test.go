package cycle_test

import (
	"sync"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("DeliversWhatIsDueAndRecordsIt", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 20)
		r := s.run()
		if r.Claimed != 20 || r.Succeeded != 20 || r.Cycles != 1 || r.Stopped != cycle.Drained || r.BacklogDue != 0 {
			t.Errorf("report %+v", r)
		}
		got := s.row(7)
		if got.Status != "succeeded" || got.Attempts != 1 || got.RunID != "run-"+id(7) || got.In != nil || got.Token {
			t.Errorf("row %+v", got)
		}
		if n := ask[int](s, `select count(*)::int from outbox_events where payload_json <> $1::jsonb`, payload); n != 0 {
			t.Errorf("%d payloads changed", n)
		}
	})

	t.Run("TriesAFailingEventOnceAnInvocation", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 3)
		s.Settings.MaxCycles, s.Settings.ClaimLimit = 0, 1
		s.Settings.Policy.BackoffCap = time.Millisecond // due again at once
		s.n8n.ScriptAll(n8ntest.Answer{Body: `{"ok":false}`})
		r := s.run()
		if r.Retried != 3 || r.Cycles != 3 || r.Stopped != cycle.Drained {
			t.Errorf("report %+v", r)
		}
		if got := s.row(1); got.Attempts != 1 || got.Code != "remoteReportedFailure" {
			t.Errorf("row %+v", got)
		}
	})

	t.Run("StopsAtTheCycleLimitAndTellsWhatIsLeft", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 9)
		two, three := 2, 3
		r := s.runWith(s.Dispatcher, cycle.Request{MaxCycles: &two, ClaimLimit: &three}, 30*time.Second)
		if r.Claimed != 6 || r.Cycles != 2 || r.Stopped != cycle.CycleLimit || r.BacklogDue != 3 || r.OldestDueAgeSeconds < 3500 {
			t.Errorf("report %+v", r)
		}
	})

	t.Run("DrainsToTheEndWhenAskedTo", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 103)
		s.Settings.MaxCycles, s.Settings.ClaimLimit = 0, 10
		if r := s.run(); r.Succeeded != 103 || r.Cycles != 11 || r.Stopped != cycle.Drained {
			t.Errorf("report %+v", r)
		}
		if s.n8n.Count() != 103 {
			t.Errorf("%d POSTs for 103 events", s.n8n.Count())
		}
	})

	t.Run("DoesNothingWhenDisabled", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 1)
		s.Settings.Enabled = false
		if r := s.run(); r.Enabled || r.Stopped != cycle.Disabled || r.Claimed != 0 || s.n8n.Count() != 0 {
			t.Errorf("report %+v, %d POSTs", r, s.n8n.Count())
		}
	})

	t.Run("ClaimsNothingWhilePaused", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 2)
		s.exec(`insert into outbox_events_control (paused) values (true)`)
		if r := s.run(); r.Stopped != cycle.Paused || r.Claimed != 0 || r.BacklogDue != 2 {
			t.Errorf("report %+v", r)
		}
		s.exec(`update outbox_events_control set paused = false`)
		if r := s.run(); r.Succeeded != 2 {
			t.Errorf("after the pause: report %+v", r)
		}
	})

	t.Run("NoticesAPauseThatCameWithItsTable", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.exec(`drop table outbox_events_control`)
		s.insert(1, 1)
		s.run()
		s.exec(`create table outbox_events_control (only_row boolean primary key default true, paused boolean not null);
			insert into outbox_events_control (paused) values (true)`)
		s.insert(2, 2)
		if r := s.run(); r.Stopped != cycle.Paused || r.Claimed != 0 {
			t.Errorf("report %+v", r)
		}
	})

	t.Run("ShowsWhatIsDueInADryRunAndTouchesNothing", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 3)
		before := ask[string](s, `select string_agg(o::text, '' order by event_id) from outbox_events o`)
		r := s.runWith(s.Dispatcher, cycle.Request{DryRun: true}, 30*time.Second)
		if r.Claimed != 0 || r.DryRun == nil || len(r.DryRun.Due) != 3 || r.DryRun.Due[0].EventID != id(1) || r.BacklogDue != 3 {
			t.Errorf("report %+v", r)
		}
		if after := ask[string](s, `select string_agg(o::text, '' order by event_id) from outbox_events o`); after != before || s.n8n.Count() != 0 {
			t.Errorf("the dry run changed the table or sent something")
		}
	})

	t.Run("LingersForWhatComesLater", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 1)
		s.Settings.Linger = 6 * time.Second
		s.n8n.OnPost(func(p n8ntest.Post) {
			if p.EventID == id(1) {
				s.insert(2, 2)
			}
		})
		if r := s.run(); r.Succeeded != 2 || r.Cycles != 2 {
			t.Errorf("report %+v", r)
		}
	})
}

// Ten instances at once share a thousand events: each is sent once.
func TestManyInvocationsShareTheWork(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 1000)
	s.n8n.SetLatency(20 * time.Millisecond)
	var wg sync.WaitGroup
	var mu sync.Mutex
	claimed := 0
	for range 10 {
		d, _ := s.another()
		d.Settings.MaxCycles, d.Settings.ClaimLimit = 0, 20
		wg.Go(func() {
			// A claim can come back short because another holds the locks for a
			// moment; then the next tick goes on.
			for range 20 {
				r, err := s.try(d, cycle.Request{}, 30*time.Second)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				claimed += r.Claimed
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if s.n8n.Count() != 1000 || claimed != 1000 {
		t.Errorf("%d POSTs and %d claims for 1000 events", s.n8n.Count(), claimed)
	}
	for event, posts := range s.n8n.Counts() {
		if posts != 1 {
			t.Errorf("%d POSTs of %s", posts, event)
		}
	}
	if n := ask[int](s, `select count(*)::int from outbox_events where delivery_status = 'succeeded' and attempts = 1`); n != 1000 {
		t.Errorf("%d of 1000 succeeded", n)
	}
}

// While POSTs are out no session of the dispatcher is busy, and one session is
// enough for all it does.
func TestNoSessionIsHeldWhileAPostIsOut(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.url += "&pool_max_conns=1"
	d, _ := s.another()
	s.insert(1, 5)
	watch := make(chan int, 100)
	s.n8n.SetLatency(200 * time.Millisecond)
	s.n8n.OnPost(func(p n8ntest.Post) {
		if p.EventID != id(1) { // the first goes alone
			return
		}
		// The answer waits for us; the claim was over before the POST.
		for range 20 {
			watch <- ask[int](s, `select count(*)::int from pg_stat_activity
				where datname = current_database() and application_name = 'outbox-dispatcher' and (state <> 'idle' or xact_start is not null)`)
			time.Sleep(10 * time.Millisecond)
		}
		close(watch)
	})
	if r := s.runWith(d, cycle.Request{}, 30*time.Second); r.Succeeded != 5 {
		t.Errorf("report %+v", r)
	}
	for busy := range watch {
		if busy != 0 {
			t.Errorf("%d sessions were busy while a POST was out", busy)
		}
	}
}
