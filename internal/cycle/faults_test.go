package cycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// The faults of the Python thread that this program replaces. Each test is named
// after what must hold.

func TestAnExecutionIDThatPostgresCannotStoreIsOneFailedAttempt(t *testing.T) {
	t.Parallel()
	for name, runID := range map[string]string{"NUL": `"run\u0000x"`, "LoneSurrogate": `"run-\ud800"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.insert(1, 5)
			s.n8n.Script(id(1), n8ntest.Answer{Body: n8ntest.AckWith(runID)})
			if r := s.run(); r.Succeeded != 4 || r.Retried != 1 {
				t.Errorf("report %+v", r)
			}
			if got := s.row(1); got.Status != "pending" || got.Attempts != 1 || got.Code != "malformedResponse" {
				t.Errorf("row %+v", got)
			}
		})
	}
}

func TestAPayloadThatCannotBeSentHarmsNoOther(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.exec(`alter table outbox_events alter payload_json drop not null`)
	s.insert(1, 10)
	for n, payload := range map[int]any{1: `[1]`, 2: `"s"`, 3: `7`, 4: `null`, 5: nil, 6: `{"aggregate": 1, "data": 2}`} {
		s.exec(`update outbox_events set payload_json = $2::jsonb where event_id = $1`, id(n), payload)
	}
	s.exec(`update outbox_events set occurred_at = 'infinity' where event_id = $1`, id(7))
	s.exec(`update outbox_events set occurred_at = '20000-01-01' where event_id = $1`, id(8))
	s.exec(`update outbox_events set payload_json = jsonb_set(payload_json, '{data}', (repeat('[', 3000) || repeat(']', 3000))::jsonb) where event_id = $1`, id(9))
	if r := s.run(); r.Succeeded != 4 || r.Retried != 6 || s.n8n.Count() != 4 {
		t.Errorf("report %+v, %d POSTs", r, s.n8n.Count())
	}
	for n := 1; n <= 6; n++ {
		if got := s.row(n); got.Status != "pending" || got.Attempts != 1 || got.Code != "malformedPayload" || got.Token {
			t.Errorf("event %d: %+v", n, got)
		}
	}
	if got := s.row(6); !strings.Contains(got.Error, `"correlation_id"`) {
		t.Errorf("the missing key is not named: %q", got.Error)
	}
}

// A worker whose lease was taken over keeps to the token of its own claim: its
// outcome is dropped, and the new owner's is the one that counts.
func TestALostLeaseCannotBeRecordedByItsOldOwner(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 1)
	newOwner, _ := s.another()
	s.n8n.OnPost(func(p n8ntest.Post) {
		if p.Number > 1 {
			return
		}
		s.leasesPassed()
		if r := s.runWith(newOwner, cycle.Request{}, 30*time.Second); r.Reclaimed != 1 || r.Succeeded != 1 {
			t.Errorf("the new owner's report %+v", r)
		}
		s.exec(`update outbox_events set external_run_id = 'of the new owner'`)
	})
	if r := s.run(); r.Lost != 1 || r.Succeeded != 0 {
		t.Errorf("the old owner's report %+v", r)
	}
	if got := s.row(1); got.Status != "succeeded" || got.Attempts != 1 || got.RunID != "of the new owner" {
		t.Errorf("row %+v", got)
	}
}

// Events of one batch share a lease. What cannot be sent before it ends is given
// back, and nobody sends an event that another is sending.
func TestNoPostStartsThatTheLeaseDoesNotOutlive(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 8)
	s.timeout(time.Second)
	s.Settings.Lease, s.Settings.Concurrency = 5*time.Second, 1 // timeout + 4 s: POSTs may start for 3 s or less
	s.n8n.SetLatency(700 * time.Millisecond)
	r := s.run()
	if r.Succeeded == 0 || r.Released == 0 || r.Stopped != cycle.TimeUp {
		t.Errorf("report %+v", r)
	}
	for n := r.Succeeded + 1; n <= 8; n++ {
		if got := s.row(n); got.Status != "pending" || got.Attempts != 0 || got.In != nil || got.Token || got.Code != "" {
			t.Errorf("event %d was not given back as it was: %+v", n, got)
		}
	}
	if s.n8n.Overlaps() != 0 || s.n8n.Count() != r.Succeeded {
		t.Errorf("%d POSTs, %d overlaps", s.n8n.Count(), s.n8n.Overlaps())
	}
}

func TestALockedRowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 20)
	locker := s.connect()
	s.n8n.OnPost(func(p n8ntest.Post) {
		if p.EventID == id(1) {
			locker.exec(`begin; select 1 from outbox_events where event_id = '` + id(1) + `' for update`)
		}
		if p.EventID == id(20) { // the last: the others are through
			deadline := time.Now().Add(5 * time.Second)
			for time.Now().Before(deadline) && ask[int](s, `select count(*)::int from outbox_events where delivery_status = 'succeeded'`) < 18 {
				time.Sleep(5 * time.Millisecond)
			}
			locker.exec(`rollback`)
		}
	})
	if r := s.run(); r.Succeeded != 20 || r.Lost != 0 {
		t.Errorf("report %+v", r)
	}
}

func TestARowThatStaysLockedIsToldAndSentOnceMore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.timeout(200 * time.Millisecond)
	s.insert(1, 3)
	locker := s.connect()
	s.n8n.OnPost(func(p n8ntest.Post) {
		if p.EventID == id(1) && p.Number == 1 {
			locker.exec(`begin; select 1 from outbox_events where event_id = '` + id(1) + `' for update`)
		}
	})
	r, err := s.try(s.Dispatcher, cycle.Request{}, 4*time.Second)
	if err == nil || r.Unrecorded != 1 || r.Succeeded != 2 {
		t.Errorf("error %v, report %+v", err, r)
	}
	// A last try may still be on its way, and would find the row free.
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && ask[int](s, `select count(*)::int from pg_stat_activity
		where datname = current_database() and application_name = 'outbox-dispatcher' and state = 'active'`) > 0; {
		time.Sleep(5 * time.Millisecond)
	}
	locker.exec(`rollback`)
	s.leasesPassed()
	if r := s.run(); r.Reclaimed != 1 || r.Succeeded != 1 || s.n8n.PostsOf(id(1)) != 2 {
		t.Errorf("report %+v, %d POSTs", r, s.n8n.PostsOf(id(1)))
	}
}

func TestAnAnswerThatDripsIsCutOffAtTheTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.timeout(300 * time.Millisecond)
	s.insert(1, 3)
	s.n8n.Script(id(2), n8ntest.Answer{Body: n8ntest.Ack, Drip: 50 * time.Millisecond})
	started := time.Now()
	r := s.run()
	if r.Succeeded != 2 || r.Retried != 1 || time.Since(started) > 5*time.Second {
		t.Errorf("report %+v after %v", r, time.Since(started))
	}
	if got := s.row(2); got.Code != "connectionError" || !strings.Contains(got.Error, "timeout") {
		t.Errorf("row %+v", got)
	}
}

func TestAnOutageSparesTheBacklog(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 200)
	s.n8n.Down()
	r := s.run()
	if r.Stopped != cycle.EndpointDown || r.Retried != 3 || r.Released != 197 {
		t.Errorf("report %+v", r)
	}
	if n := ask[int](s, `select sum(attempts)::int from outbox_events`); n != 3 {
		t.Errorf("the outage cost %d attempts", n)
	}
	if err := s.n8n.Up(); err != nil {
		t.Fatal(err)
	}
	s.delayPassed()
	if r := s.run(); r.Succeeded != 200 || r.Stopped != cycle.Drained {
		t.Errorf("after the outage: report %+v", r)
	}
}

// An event whose worker dies again and again comes to an end, and those that
// shared its batches go out.
func TestAnEventThatKillsItsWorkerComesToAnEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 11)
	const killer = 6
	posts := 0
	for range 10 {
		// A worker that dies at the killer: it claims, delivers what comes before,
		// and is gone with its claims.
		dying, store := s.another()
		dying.Settings.Concurrency = 1
		dying.Store = &mortal{Store: store, killer: id(killer)}
		dying.Webhook = &deadly{Webhook: dying.Webhook, killer: id(killer), posts: &posts}
		r, _ := s.try(dying, cycle.Request{}, 20*time.Second)
		s.leasesPassed()
		if r.LeaseLostFailed > 0 {
			break
		}
	}
	if got := s.row(killer); got.Status != "failed" || got.Code != "leaseLostRepeatedly" || got.Token || got.Attempts != 0 {
		t.Errorf("the killer: %+v", got)
	}
	if posts > 5 {
		t.Errorf("the killer was sent %d times", posts)
	}
	if n := ask[int](s, `select count(*)::int from outbox_events where delivery_status = 'succeeded'`); n != 10 {
		t.Errorf("%d of the 10 others went out", n)
	}
}

// Only the database says what time it is: a lease lives by its clock, and a
// process whose time zone is another writes the same rows.
func TestOnlyTheDatabaseClockDecidesAboutRows(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 3)
	// One lease that ran out a second ago, one that has a second left, one event
	// that is due in a second, all by the clock of the database.
	s.exec(`update outbox_events set delivery_status = 'delivering', next_attempt_at = clock_timestamp() - interval '1 second' where event_id = $1`, id(1))
	s.exec(`update outbox_events set delivery_status = 'delivering', next_attempt_at = clock_timestamp() + interval '20 seconds' where event_id = $1`, id(2))
	s.exec(`update outbox_events set next_attempt_at = clock_timestamp() + interval '20 seconds' where event_id = $1`, id(3))
	s.exec(`do $$ begin execute format('alter database %I set timezone = ''Asia/Kathmandu''', current_database()); end $$`)
	s.n8n.ScriptAll(n8ntest.Answer{Status: 500})
	if r := s.run(); r.Reclaimed != 1 || r.Claimed != 1 || r.Retried != 1 {
		t.Errorf("report %+v", r)
	}
	if got := s.row(1); got.In == nil || *got.In < 1 || *got.In > 2 {
		t.Errorf("the next attempt is not 2 s ahead by the database clock: %+v", got)
	}
}

func TestNumbersAndSecretsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 1)
	const data = `{"big": 9007199254740993, "exact": 0.10, "huge": 1e400, "text": "<a>&é😀"}`
	s.exec(`update outbox_events set payload_json = jsonb_set(payload_json, '{data}', $1::jsonb)`, data)
	stored := ask[string](s, `select payload_json::text from outbox_events`)
	s.n8n.Script(id(1), n8ntest.Answer{Status: 404, Body: `{"code":404,"message":"The requested webhook \"POST 4f9c-hook\" is not registered."}`})
	s.aim(s.Dispatcher, strings.Replace(s.n8n.URL(), "http://", "http://bot:hunter2@", 1)+"/4f9c-hook?token=abc1")
	s.run()
	got := s.row(1)
	for _, secret := range []string{"hunter2", "4f9c-hook", "abc1", "token-1"} {
		if strings.Contains(got.Error, secret) {
			t.Errorf("last_error shows %q: %s", secret, got.Error)
		}
	}
	if after := ask[string](s, `select payload_json::text from outbox_events`); after != stored {
		t.Errorf("the payload changed to %s", after)
	}
	body := string(s.n8n.Posts()[0].Body)
	sent := ask[string](s, `select (payload_json -> 'data')::text from outbox_events`)
	if !strings.Contains(body, fmt.Sprintf(`"data":%s}`, sent)) {
		t.Errorf("sent %.200s", body)
	}
}
