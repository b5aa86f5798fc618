package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/pgtest"
)

// The walks of TestModel take one step after the other. Here everybody works at
// the same time, so that statements meet inside Postgres: only what holds in any
// order is looked at.

// ledger is what everybody tells of what he does. A lease is noted as over before
// the statement that ends it, and as live behind the one that began it, so that
// two live ones are no matter of order.
type ledger struct {
	mu       sync.Mutex
	live     map[string]string // event -> token of who has the lease
	posts    map[string]int
	recorded map[string]int
	lost     map[string]int // outcomes of POSTs that the fence dropped
	faults   []string
}

func (l *ledger) begin(id, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.live[id]; other != "" {
		l.faults = append(l.faults, fmt.Sprintf("two live leases: %s with %s and %s", id, other, token))
	}
	l.live[id] = token
}

func (l *ledger) end(id, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live[id] == token {
		delete(l.live, id)
	}
}

func (l *ledger) count(what map[string]int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what[id]++
}

// fault notes what an error says; a statement that meets a lock is none.
func (l *ledger) fault(err error) {
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.faults = append(l.faults, err.Error())
	}
}

// any returns a live lease.
func (l *ledger) any() (id, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, token = range l.live {
		break
	}
	return id, token
}

func TestTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "jsonb", nil)
	l := &ledger{live: map[string]string{}, posts: map[string]int{}, recorded: map[string]int{}, lost: map[string]int{}}
	url := w.db.conn.Config().ConnString()
	exec := func(sql string, args ...any) {
		if _, err := w.db.conn.Exec(context.Background(), sql, args...); err != nil {
			t.Error(err)
		}
	}
	// What becomes of each row, so that lost leases can be counted.
	exec(`create table lost (event_id uuid);
		create function note() returns trigger language plpgsql as $$ begin
			if new.attempts < old.attempts then raise exception 'attempts fell'; end if;
			if old.delivery_status = 'succeeded' and new.delivery_status <> 'succeeded' then raise exception 'a final row changed'; end if;
			if old.delivery_status = 'delivering' and new.last_error_code in ('staleLeaseRecovered', 'leaseLostRepeatedly') and new.attempts = old.attempts
				and new.lost_leases > 0 and (new.lost_leases, new.lost_leases_at) is distinct from (old.lost_leases, old.lost_leases_at) then
				insert into lost values (new.event_id);
			end if;
			return new;
		end $$;
		create trigger note before update on outbox_events for each row execute function note()`)
	for n := range 60 {
		exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json) values ($1, 't', now(), '{"correlation_id": 1, "aggregate": 2, "data": 3}')`,
			fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
	}

	until := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup
	for _, worker := range w.workers {
		all.Go(func() {
			for seed := uint64(1); time.Now().Before(until); seed++ {
				l.fault(worker.do(func(ctx context.Context, s cycle.Store) error {
					return l.turn(ctx, s, rand.New(rand.NewPCG(20250102, seed)))
				}))
			}
		})
	}
	for _, play := range []func(context.Context, *pgx.Conn, *ledger) error{passTime, holdRows, produce} {
		conn := pgtest.Conn(t, url)
		all.Go(func() {
			for time.Now().Before(until) {
				l.fault(play(t.Context(), conn, l))
			}
		})
	}
	all.Wait()

	// The end: nothing but a worker and an n8n that acknowledges.
	for range 12 {
		exec(`update outbox_events set next_attempt_at = now() - interval '1 second' where next_attempt_at is not null`)
		clear(l.live)
		for _, suspects := range []bool{false, true} {
			l.fault(w.workers[0].do(func(ctx context.Context, s cycle.Store) error {
				return l.cycle(ctx, s, cycle.Claim{Limit: 100, Reclaim: cycle.Reclaim{Limit: 100, MaxLostLeases: 100}, Suspects: suspects},
					func(outbox.Event) string { return "acknowledged" })
			}))
		}
	}
	for _, fault := range l.faults {
		t.Error(fault)
	}
	rows, _ := w.db.conn.Query(t.Context(), `select e.event_id::text, delivery_status, attempts, coalesce(payload_json ? '_delivery_claim_token', false),
		(select count(*)::int from lost where lost.event_id = e.event_id) from outbox_events e`)
	var id, status string
	var attempts, lostLeases, posts int
	var token bool
	_, err := pgx.ForEachRow(rows, []any{&id, &status, &attempts, &token, &lostLeases}, func() error {
		posts += l.posts[id]
		if most := attempts + lostLeases + l.lost[id]; status != "succeeded" || token || attempts != l.recorded[id] || l.posts[id] > most {
			t.Errorf("%s is %s, token %v, attempts %d of %d recorded, %d POSTs of %d explained: %d leases and %d outcomes were lost",
				id, status, token, attempts, l.recorded[id], l.posts[id], most, lostLeases, l.lost[id])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d POSTs", posts)
}

// turn is an invocation that goes wrong in some way now and then.
func (l *ledger) turn(ctx context.Context, s cycle.Store, r *rand.Rand) error {
	c := cycle.Claim{Limit: 1 + r.IntN(8), Reclaim: cycle.Reclaim{Limit: r.IntN(5), MaxLostLeases: 100}, Suspects: r.IntN(4) == 0}
	return l.cycle(ctx, s, c, func(outbox.Event) string {
		return []string{"acknowledged", "refused", "refused", "refused", "crash", "crash", "release"}[r.IntN(7)]
	})
}

// cycle claims and does with each event what happens says.
func (l *ledger) cycle(ctx context.Context, s cycle.Store, c cycle.Claim, happens func(outbox.Event) string) error {
	c.Bytes, c.MaxBody, c.Lease = 32<<20, 15<<20, lease
	batch, err := s.Take(ctx, c)
	if err != nil {
		return err
	}
	var outcomes []outbox.Outcome
	var unsent []outbox.Event
	for _, e := range batch.Events {
		l.begin(e.ID, e.Claim.Token)
	}
	for _, e := range batch.Events {
		body, what := `{"ok":false}`, happens(e)
		switch what {
		case "release":
			unsent = append(unsent, e)
			continue
		case "acknowledged":
			body = fmt.Sprintf(`{"ok":true,"event_id":%q,"result":{"execution_id":%q}}`, e.ID, e.Claim.Token)
		}
		l.count(l.posts, e.ID)
		if what == "crash" { // sent, and nobody hears of it
			continue
		}
		verdict := outbox.Judge(e.ID, outbox.Answer{HTTPStatus: 200, Body: []byte(body), RetryAfter: time.Hour})
		outcomes = append(outcomes, outbox.Decide(&e, verdict, outbox.Policy{MaxAttempts: 1000, BackoffCap: time.Hour}))
	}
	for len(outcomes) > 0 {
		for _, o := range outcomes {
			l.end(o.EventID, o.Claim.Token)
		}
		fates, err := s.Record(ctx, outcomes)
		if err != nil {
			return err
		}
		outcomes = l.settle(outcomes, fates)
	}
	for len(unsent) > 0 {
		for _, e := range unsent {
			l.end(e.ID, e.Claim.Token)
		}
		fates, err := s.Release(ctx, unsent)
		if err != nil {
			return err
		}
		var held []outbox.Event
		for i, fate := range fates {
			if fate == cycle.Held {
				held = append(held, unsent[i])
			}
		}
		unsent = held
	}
	return nil
}

// settle counts what became of outcomes and returns those to try again.
func (l *ledger) settle(outcomes []outbox.Outcome, fates []cycle.Fate) (held []outbox.Outcome) {
	for i, fate := range fates {
		switch fate {
		case cycle.Held:
			held = append(held, outcomes[i])
		case cycle.Recorded:
			l.count(l.recorded, outcomes[i].EventID)
		default:
			l.count(l.lost, outcomes[i].EventID)
		}
	}
	return held
}

// passTime lets a lease run out, and what waits become due.
func passTime(ctx context.Context, conn *pgx.Conn, l *ledger) error {
	if id, token := l.any(); id != "" && rand.IntN(3) == 0 {
		l.end(id, token)
		if _, err := conn.Exec(ctx, `update outbox_events set next_attempt_at = now() - interval '1 second'
			where event_id = $1 and delivery_status = 'delivering' and payload_json ->> '_delivery_claim_token' = $2`, id, token); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, `update outbox_events set next_attempt_at = now() - interval '1 second' where event_id in
		(select event_id from outbox_events where delivery_status = 'pending' and next_attempt_at > now() limit 5 for update skip locked)`)
	time.Sleep(2 * time.Millisecond)
	return err
}

// holdRows is a session that holds a few rows for a while.
func holdRows(ctx context.Context, conn *pgx.Conn, _ *ledger) error {
	_, err := conn.Exec(ctx, `begin; select from outbox_events where delivery_status <> 'succeeded' order by random() limit 5 for update skip locked; select pg_sleep(0.005); rollback`)
	time.Sleep(5 * time.Millisecond)
	return err
}

// produce writes into events that may be out.
func produce(ctx context.Context, conn *pgx.Conn, _ *ledger) error {
	_, err := conn.Exec(ctx, `update outbox_events set payload_json = jsonb_set(payload_json, '{data}', to_jsonb(random())) where event_id in
		(select event_id from outbox_events order by random() limit 2 for update skip locked)`)
	time.Sleep(3 * time.Millisecond)
	return err
}
