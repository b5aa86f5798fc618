package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"outbox-dispatcher/internal/testkit/pgtest"
)

// background starts a migration and returns what tells of its lines, and of its
// end.
func (f *fixture) background() (said chan string, ended chan error) {
	said, ended = make(chan string, 100), make(chan error, 1)
	store := f.open(f.url)
	go func() { ended <- store.Migrate(f.t.Context(), func(line string) { said <- line }) }()
	return said, ended
}

// await waits until a line with this in it was said.
func (f *fixture) await(said chan string, part string) {
	f.t.Helper()
	patience := time.After(20 * time.Second)
	for {
		select {
		case line := <-said:
			if strings.Contains(line, part) {
				return
			}
		case <-patience:
			f.t.Fatalf("it did not say %q", part)
		}
	}
}

const waitsForALock = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ilike $1)"

func TestMigrateBesideLiveTraffic(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t).service()
	f.fill(1000)
	reader := f.begin("select count(*) from outbox_events")
	writer := f.begin("update outbox_events set event_type = 'busy' where event_id = '" + id(1) + "'")

	// The service inserts all the while, and no insert waits for long.
	ctx, cancel := context.WithCancel(t.Context())
	longest := make(chan time.Duration, 1)
	service := pgtest.Conn(t, f.url)
	go func() {
		var worst time.Duration
		for ctx.Err() == nil {
			started := time.Now()
			if _, err := service.Exec(t.Context(), "insert into outbox_events (event_id, event_type, occurred_at, payload_json) values (gen_random_uuid(), 't', now(), '{}')"); err != nil {
				t.Error(err)
				break
			}
			worst = max(worst, time.Since(started))
			time.Sleep(time.Millisecond)
		}
		longest <- worst
	}()

	said, ended := f.background()
	f.await(said, "the table is in use; trying again")
	before := f.value("select count(*) from outbox_events")
	f.eventually("an insert goes through behind the step back", "select count(*) > $1::int from outbox_events", before)
	f.commit(reader)
	f.commit(writer)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	cancel()
	if worst := <-longest; worst > 5*time.Second {
		t.Errorf("an insert took %v", worst)
	}
	f.works()
}

func TestMigrateBuildsIndexesBesideAWriter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(1)
	f.exec("drop index outbox_events_dispatch_due")
	writer := f.begin("update outbox_events set event_type = 'busy'")
	_, ended := f.background()
	f.eventually("the index waits for the writer", waitsForALock, "create index concurrently%")
	f.put(2) // and nobody waits for the index
	if got := numbers(f.take().Events); got != "2" {
		t.Errorf("claimed %q", got)
	}
	f.commit(writer)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.works()
}

func TestMigrateRebuildsAnIndexWhoseBuildWasKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(1)
	f.exec("drop index outbox_events_dispatch_due, outbox_events_dispatch_lease")
	writer := f.begin("update outbox_events set event_type = 'busy'")
	_, ended := f.background()
	f.eventually("the index waits for the writer", waitsForALock, "create index concurrently%")
	f.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query ilike 'create index concurrently%'")
	err := <-ended
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P01" {
		t.Fatalf("the killed one: %v", err)
	}
	if got := f.value("select string_agg(indexrelid::regclass::text, ' ') from pg_index where not indisvalid"); got != "outbox_events_dispatch_due" {
		t.Fatalf("invalid indexes: %s", got)
	}
	f.commit(writer)
	said := f.migrate()
	if !strings.Contains(said, "dropping the invalid index public.outbox_events_dispatch_due") || strings.Count(said, "building") != 2 {
		t.Errorf("it said:\n%s", said)
	}
	f.works()
}

func TestTwoMigrationsAtOnce(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t)
	var all []chan error
	for range 4 {
		_, ended := f.background()
		all = append(all, ended)
	}
	for _, ended := range all {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	f.works()
	if got := f.value("select count(*) from pg_index where indrelid = 'outbox_events'::regclass"); got != "6" {
		t.Errorf("%s indexes, want the key and 5", got)
	}
}

func TestAMigrationWaitsForTheOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("drop index outbox_events_dispatch_due")
	writer := f.begin("update outbox_events set event_type = 'busy'", "insert into outbox_events (event_id, event_type, occurred_at, payload_json) values (gen_random_uuid(), 't', now(), '{}')")
	_, first := f.background()
	f.eventually("the index waits for the writer", waitsForALock, "create index concurrently%")
	said, second := f.background()
	f.await(said, "waiting for another migration to end")
	f.commit(writer)
	for _, ended := range []chan error{first, second} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	f.works()
}

func TestMigrateOfARoleWithTimeLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(1)
	f.exec("drop index outbox_events_dispatch_due")
	f.exec("do $$ begin execute format('alter database %I set lock_timeout = 100', current_database()); execute format('alter database %I set statement_timeout = 100', current_database()); end $$")
	writer := f.begin("update outbox_events set event_type = 'busy'")
	_, ended := f.background()
	f.eventually("the index waits for the writer", "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ilike 'create index concurrently%' and now() - query_start > interval '200 milliseconds')")
	f.commit(writer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMigrateEndsWhenToldTo(t *testing.T) {
	t.Parallel()
	f := emptyFixture(t).service()
	busy := f.begin("lock table outbox_events in share mode")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.store.Migrate(ctx, func(string) {}) }()
	f.eventually("it waits for the lock", waitsForALock, "alter table%")
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "told to end") {
		t.Errorf("%v", err)
	}
	f.commit(busy)
	f.migrate() // the lock of the other is gone with its session
	f.works()
}
