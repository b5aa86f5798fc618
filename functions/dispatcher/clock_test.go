package main_test

import (
	"fmt"
	"testing"
	"time"

	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/pgtest"
)

// The function's clock and zone decide nothing about rows: it is in Kolkata, and the
// database, in New York, is far from it, or in the hour that New York has twice.
func TestTheFunctionMayHaveAnotherClock(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{
		"TenMinutesBehind":     "now() + interval '10 minutes'",
		"TenMinutesAhead":      "now() - interval '10 minutes'",
		"WhenNewYorkTurnsBack": "timestamptz '2025-11-02 05:59:59Z'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			// The clocks of Postgres, where a name without a schema leads to these.
			p.exec(t, `create schema clock; create table clock.off as select `+database+` - pg_catalog.now() as by`)
			for _, clock := range []string{"now", "statement_timestamp", "clock_timestamp"} {
				p.exec(t, fmt.Sprintf(`create function clock.%[1]s() returns timestamptz language sql as 'select pg_catalog.%[1]s() + by from clock.off'`, clock))
			}
			p.exec(t, `do $$ begin
				execute format('alter database %I set search_path = clock, pg_catalog, public', current_database());
				execute format('alter database %I set timezone = ''America/New_York''', current_database());
			end $$`)
			p.db = pgtest.Conn(t, p.url)
			const good = 200
			p.insert(t, 4+good)
			set := func(n int, columns string) {
				p.exec(t, `update outbox_events set `+columns+` where event_id = $1`, id(n))
			}
			set(1, `delivery_status = 'delivering', next_attempt_at = clock_timestamp() + interval '1 minute'`) // a live lease
			set(2, `delivery_status = 'delivering', next_attempt_at = clock_timestamp() - interval '1 second'`)
			set(3, `next_attempt_at = clock_timestamp() + interval '1 minute'`)
			p.n8n.Script(id(4), n8ntest.Answer{Status: 500})
			p.exec(t, `create table began as select clock_timestamp() as at`)

			f := lambdatest.Start(t, p.path, p.env("TZ=Asia/Kolkata")...)
			r := f.Invoke(`{}`, 20*time.Second)
			if got := report(t, r.Body); got.Reclaimed != 1 || got.Succeeded != good+1 || got.Retried != 1 || got.Lost != 0 || got.Claimed != good+2 {
				t.Errorf("report %s", r.Body)
			}
			if p.n8n.PostsOf(id(1)) != 0 || p.count(t, `event_id = '`+id(1)+`' and delivery_status = 'delivering' and lost_leases = 0`) != 1 {
				t.Error("a live lease was taken over")
			}
			if p.n8n.PostsOf(id(3)) != 0 {
				t.Error("an event was sent before it was due")
			}
			if p.count(t, `event_id = '`+id(4)+`' and next_attempt_at - interval '2 seconds' between (select at from began) and clock_timestamp()`) != 1 {
				t.Error("the next attempt is not two seconds on by the clock of the database")
			}
		})
	}
}
