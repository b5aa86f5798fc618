package postgres

import (
	"strconv"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
)

// What a session keeps ties it to its client: RDS Proxy then gives it to nobody
// else.
func TestASessionKeepsNothingOfWhatItDid(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "pool_max_conns=1")
	f.fill(3)
	f.leased(11, ago)
	events := f.take(reclaiming(10)).Events
	f.record(succeeded(events[0]), failed(events[1]))
	f.record(succeeded(events[0])) // looks whether it is there
	f.release(events[2])
	if _, _, err := f.store.Due(t.Context(), 10); err != nil {
		t.Error(err)
	}
	if _, err := f.store.Status(t.Context()); err != nil {
		t.Error(err)
	}
	conn, err := f.store.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	results, err := conn.Conn().PgConn().Exec(t.Context(), `
		select 'statement ' || statement from pg_prepared_statements where statement not like '%pg_prepared_statements%'
		union all select 'cursor ' || name from pg_cursors where name <> ''
		union all select 'setting ' || name from pg_settings where source = 'session'
		union all select 'channel ' || channel from pg_listening_channels() channel
		union all select 'table ' || relname from pg_class where relpersistence = 't'
		union all select 'lock' from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range results[0].Rows {
		t.Errorf("the session keeps the %s", row[0])
	}
}

// The first address of a host leads nowhere, such as one of IPv6 in a network that
// drops it: there is time for the next.
func TestAnAddressThatLeadsNowhereLeavesTimeForTheNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(1)
	nowhere := listener(t, silence)
	at := f.Config()
	s := openStore(t, "host=127.0.0.1,"+at.Host+" port="+strconv.Itoa(nowhere)+","+strconv.Itoa(int(at.Port))+" dbname="+at.Database+" user="+at.User+
		" password="+word(at.Password)+" connect_timeout=1", config.Table{Name: "outbox_events"}, &Connector{})
	began := time.Now()
	batch, err := s.Take(t.Context(), ask())
	if took := time.Since(began); err != nil || numbers(batch.Events) != "0" || took > 5*time.Second {
		t.Errorf("claimed %q after %v: %v", numbers(batch.Events), took, err)
	}
}
