package cycle_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

const killSessions = `select count(pg_terminate_backend(pid))::int from pg_stat_activity
	where datname = current_database() and application_name = 'outbox-dispatcher'`

// The database throws every session out while a POST is under way: the outcome
// goes through a new one, and nothing is sent twice.
func TestAnOutcomeOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 5)
	s.n8n.OnPost(func(p n8ntest.Post) {
		if p.EventID == id(1) {
			ask[int](s, killSessions)
		}
	})
	if r := s.run(); r.Succeeded != 5 || s.n8n.Count() != 5 {
		t.Errorf("report %+v, %d POSTs", r, s.n8n.Count())
	}
}

// The database stays away until the time is up: the invocation says so, counts
// what it could not record, and sends nothing a second time.
func TestOutcomesThatCannotBeRecordedAreToldAndSentOnceMoreLater(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.timeout(300 * time.Millisecond)
	s.insert(1, 2)
	s.Settings.Concurrency = 1
	store := &away{Store: s.store}
	s.Store = store
	s.n8n.OnPost(func(p n8ntest.Post) {
		if p.Number == 1 {
			store.gone.Store(true)
		}
	})
	started := time.Now()
	r, err := s.try(s.Dispatcher, cycle.Request{}, 4*time.Second)
	var unrecorded *cycle.UnrecordedError
	if !errors.As(err, &unrecorded) || r.Unrecorded == 0 || r.Succeeded+r.Retried+r.Failed > 0 {
		t.Errorf("error %v, report %+v", err, r)
	}
	if took := time.Since(started); took > 3500*time.Millisecond {
		t.Errorf("returned %v before the deadline of 4 s", 4*time.Second-took)
	}
	if s.n8n.Overlaps() > 0 || s.n8n.PostsOf(id(1)) != 1 {
		t.Errorf("sent a second time")
	}
	store.gone.Store(false)
	s.leasesPassed()
	if r := s.run(); r.Succeeded != 2 || s.n8n.PostsOf(id(1)) != 2 {
		t.Errorf("afterwards: report %+v", r)
	}
}

// away is a database that answers nothing while it is gone.
type away struct {
	cycle.Store
	gone atomic.Bool
}

func (a *away) Record(ctx context.Context, group []outbox.Outcome) ([]cycle.Fate, error) {
	if a.gone.Load() {
		return nil, errors.New("away")
	}
	return a.Store.Record(ctx, group)
}

func (a *away) Release(ctx context.Context, events []outbox.Event) ([]cycle.Fate, error) {
	if a.gone.Load() {
		return nil, errors.New("away")
	}
	return a.Store.Release(ctx, events)
}

// The time of the Lambda runs out in the middle of a batch: what is in flight is
// finished and recorded, what is not started stays due, and there is half a
// second left.
func TestNothingIsCutOffAtTheDeadline(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.timeout(2 * time.Second)
	s.Settings.Concurrency = 1
	s.insert(1, 4)
	s.n8n.Script(id(2), n8ntest.Answer{Close: n8ntest.Never})
	started := time.Now()
	r := s.runWith(s.Dispatcher, cycle.Request{}, 5*time.Second)
	if took := time.Since(started); took > 4500*time.Millisecond {
		t.Errorf("took %v of 5 s", took)
	}
	if r.Succeeded != 1 || r.Retried != 1 || r.Released != 2 || r.Stopped != cycle.TimeUp {
		t.Errorf("report %+v", r)
	}
	if got := s.row(2); got.Attempts != 1 || !strings.Contains(got.Error, "timeout") {
		t.Errorf("row %+v", got)
	}
	if got := s.row(3); got.Status != "pending" || got.Attempts != 0 || s.n8n.PostsOf(id(3)) != 0 {
		t.Errorf("row %+v", got)
	}
}

// Told to end (a signal), the dispatcher starts nothing new, finishes what is in
// flight, and gives the rest back.
func TestAnInterruptLosesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 50)
	s.Settings.Concurrency = 2
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s.n8n.SetLatency(100 * time.Millisecond)
	s.n8n.OnPost(func(p n8ntest.Post) {
		if p.EventID == id(5) {
			cancel()
		}
	})
	r, err := s.Run(ctx, cycle.Request{})
	if err != nil || r.Succeeded < 4 || r.Succeeded+r.Released != 50 || r.Succeeded != s.n8n.Count() {
		t.Errorf("error %v, report %+v, %d POSTs", err, r, s.n8n.Count())
	}
	if n := ask[int](s, `select count(*)::int from outbox_events where delivery_status = 'delivering'`); n != 0 {
		t.Errorf("%d events are still leased", n)
	}
}

func TestAPanicIsTheFailureOfThatEventAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 5)
	real := s.Webhook
	s.Webhook = webhookFunc(func(token string, body []byte) outbox.Answer {
		if strings.Contains(string(body), id(3)) {
			panic("a secret: " + token)
		}
		return real.Post(context.Background(), token, body)
	})
	if r := s.run(); r.Succeeded != 4 || r.Retried != 1 {
		t.Errorf("report %+v", r)
	}
	if got := s.row(3); got.Code != "unknownError" || got.Attempts != 1 || strings.Contains(got.Error, "secret") {
		t.Errorf("row %+v", got)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	t.Run("ARotationCostsOneRefusalAndNoAttempt", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 5)
		s.n8n.RequireToken("token-2")
		s.Tokens = &tokens{now: "token-1", next: "token-2"}
		if r := s.run(); r.Succeeded != 5 || s.n8n.Refused() != 1 {
			t.Errorf("report %+v, %d refused", r, s.n8n.Refused())
		}
		if n := ask[int](s, `select max(attempts)::int from outbox_events`); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
	t.Run("ARefusedTokenStopsAfterAFewAndReadsTheSecretOnce", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 50)
		s.n8n.RequireToken("another")
		tk := &tokens{now: "token-1"}
		s.Tokens = tk
		r := s.run()
		if r.Stopped != cycle.EndpointDown || r.Retried != 3 || r.Released != 47 || tk.refreshed != 1 {
			t.Errorf("report %+v, refreshed %d times", r, tk.refreshed)
		}
	})
	t.Run("ATokenThatCannotBeHadClaimsNothing", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 1)
		s.Tokens = noToken{}
		if r, err := s.try(s.Dispatcher, cycle.Request{}, 30*time.Second); err == nil || r.Claimed != 0 {
			t.Errorf("error %v, report %+v", err, r)
		}
		if got := s.row(1); got.Status != "pending" || got.Token {
			t.Errorf("row %+v", got)
		}
	})
}

type noToken struct{}

func (noToken) Token(context.Context) (string, error)   { return "", errors.New("no such secret") }
func (noToken) Refresh(context.Context) (string, error) { return "", errors.New("no such secret") }

func TestPacingOverHTTP(t *testing.T) {
	t.Parallel()
	t.Run("A500ClosesNothing", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 30)
		for n := 2; n <= 20; n++ {
			s.n8n.Script(id(n), n8ntest.Answer{Status: 500, Body: `{"message":"Error in workflow"}`})
		}
		if r := s.run(); r.Succeeded != 11 || r.Retried != 19 || r.Stopped != cycle.Drained {
			t.Errorf("report %+v", r)
		}
	})
	t.Run("AnN8nThatStartsUpEndsTheCycle", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 30)
		s.n8n.ScriptAll(n8ntest.Answer{Body: "n8n is starting up. Please wait"})
		if r := s.run(); r.Retried != 3 || r.Released != 27 || r.Stopped != cycle.EndpointDown {
			t.Errorf("report %+v", r)
		}
	})
	t.Run("ARetryAfterBeyondTheTimeEndsTheCycle", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 30)
		s.n8n.ScriptAll(n8ntest.Answer{Status: 503, Header: map[string]string{"Retry-After": "600"}})
		if r := s.run(); r.Retried != 1 || r.Released != 29 || r.Stopped != cycle.EndpointDown {
			t.Errorf("report %+v", r)
		}
		if got := s.row(1); got.In == nil || *got.In < 590 || *got.In > 600 {
			t.Errorf("row %+v", got)
		}
	})
	t.Run("FirstGoesAlone", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.insert(1, 30)
		s.n8n.SetLatency(50 * time.Millisecond)
		var alone atomic.Bool
		s.n8n.OnPost(func(p n8ntest.Post) {
			if p.EventID == id(1) {
				time.Sleep(100 * time.Millisecond)
				alone.Store(s.n8n.Count() == 1)
			}
		})
		if r := s.run(); r.Succeeded != 30 || !alone.Load() || s.n8n.MaxInFlight() > 10 {
			t.Errorf("report %+v, alone %v, %d in flight", r, alone.Load(), s.n8n.MaxInFlight())
		}
	})
}

// A crowd of failing events does not starve new ones, nor new ones the retries:
// the claim goes by due time.
func TestFailingAndNewEventsShareTheClaims(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Settings.ClaimLimit = 10
	s.insert(1, 40) // old ones that always fail
	for n := 1; n <= 40; n++ {
		s.n8n.Script(id(n), n8ntest.Answer{Status: 500})
	}
	for range 4 {
		s.run()
	}
	// All failed once and are due again a while ago; new ones came meanwhile.
	s.exec(`update outbox_events set next_attempt_at = now() - interval '10 seconds' + substr(event_id::text, 30)::int * interval '1 ms'`)
	s.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 't', now() - interval '20 seconds', $1::jsonb from generate_series(101, 105) n`, payload)
	s.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 't', now() - interval '1 seconds', $1::jsonb from generate_series(201, 205) n`, payload)
	if r := s.run(); r.Succeeded != 5 || r.Retried != 5 {
		t.Errorf("the first claim: %+v", r)
	}
	for range 4 {
		s.run()
	}
	if n := ask[int](s, `select count(*)::int from outbox_events where delivery_status = 'succeeded'`); n != 10 {
		t.Errorf("%d of 10 new events went out", n)
	}
	if n := ask[int](s, `select min(attempts)::int from outbox_events where delivery_status = 'pending'`); n < 2 {
		t.Errorf("a retry starved")
	}
}
