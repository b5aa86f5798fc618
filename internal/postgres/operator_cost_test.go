package postgres_test

import (
	"testing"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/postgres"
)

// What people look at costs the same however large the table is: blocks of the
// table are counted, as the server's own statistics have them.
func TestWhatPeopleDoReadsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	// Nobody has analyzed the table: plans must not hang on that.
	d.exec(`alter table outbox_events set (autovacuum_enabled = false);
		insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, attempts, last_error_code)
		select gen_random_uuid(), 'order.placed', now() - n * interval '1 second', '` + deskPayload + `',
			case when n % 200 = 0 then 'failed' when n % 200 = 1 then 'pending' when n % 20000 = 2 then 'delivering' else 'succeeded' end,
			1, case when n % 400 = 0 then 'connectionError' when n % 200 = 0 then 'malformedPayload' end
		from generate_series(1, 60000) n`)
	d.put(1, "delivery_status", "'failed'")

	// blocks of the table that f reads or finds in memory.
	blocks := func(f func(s *postgres.Store) error) (n int) {
		t.Helper()
		count := func() (n int) {
			t.Helper()
			const sql = "select heap_blks_read + heap_blks_hit from pg_statio_user_tables where relname = 'outbox_events'"
			if err := d.QueryRow(t.Context(), sql).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		d.settled()
		before := count()
		s := d.open(d.url)
		if err := f(s); err != nil {
			t.Fatal(err)
		}
		s.Close() // a session hands its statistics in when it ends
		d.settled()
		return count() - before
	}
	list := func(l operator.List) func(*postgres.Store) error {
		return func(s *postgres.Store) error {
			_, err := (&operator.Operator{Store: s}).Do(t.Context(), &l)
			return err
		}
	}
	for _, c := range []struct {
		name string
		most int // blocks; the table has some 1,400
		do   func(*postgres.Store) error
	}{
		// 300 failed, 300 pending and 3 delivering events, each in a block of its
		// own, or two where it was looked at and shown.
		{"ListOfWhatIsNotDone", 700, list(operator.List{Limit: 20})},
		{"ListOfPendingByDueTime", 60, list(operator.List{Status: operator.Words{"pending"}, Limit: 20})},
		{"ListOfOneCode", 200, list(operator.List{Status: operator.Words{"failed"}, Filter: operator.Filter{Code: "connectionError"}, Limit: 20})},
		{"ListOfLeases", 10, list(operator.List{Status: operator.Words{"delivering"}, Limit: 20})},
		{"ListOfSucceeded", 60, list(operator.List{Status: operator.Words{"succeeded"}, Limit: 20})},
		// It ends after 20,000 events, and looks once more where that was.
		{"ListOfSucceededThatFindsNothing", 41_000, list(operator.List{Status: operator.Words{"succeeded"}, Filter: operator.Filter{Type: "none"}, Limit: 20})},
		{"Show", 320, func(s *postgres.Store) error { _, err := s.Event(t.Context(), eventID(1)); return err }},
		{"Choose", 200, func(s *postgres.Store) error {
			_, err := s.Choose(t.Context(), []string{"failed"}, operator.Filter{Code: "connectionError"}, 100)
			return err
		}},
		{"Find", 10, func(s *postgres.Store) error { _, err := s.Find(t.Context(), []string{eventID(1)}); return err }},
		{"Expired", 10, func(s *postgres.Store) error { _, err := s.Expired(t.Context(), 1000); return err }},
		{"Replay", 20, func(s *postgres.Store) error {
			_, err := s.Replay(t.Context(), []operator.Ref{{ID: eventID(1)}}, []float64{0})
			return err
		}},
		{"Cancel", 20, func(s *postgres.Store) error {
			_, err := s.Cancel(t.Context(), []operator.Ref{{ID: eventID(1)}}, "cancelled", "why")
			return err
		}},
	} {
		if n := blocks(c.do); n > c.most {
			t.Errorf("%s reads %d blocks, more than %d", c.name, n, c.most)
		}
	}

	// A prune reads each block once to look, and again what it deletes.
	size := 0
	if err := d.QueryRow(t.Context(), "select pg_relation_size('outbox_events') / 8192").Scan(&size); err != nil {
		t.Fatal(err)
	}
	n := blocks(func(s *postgres.Store) error {
		o := &operator.Operator{Store: s, Audit: ignore}
		_, err := o.Do(t.Context(), &operator.Prune{OlderThanDays: 7, Batch: 1000, DryRun: true})
		return err
	})
	if n > size+200 {
		t.Errorf("a prune that finds nothing reads %d blocks of a table that has %d", n, size)
	}
}
