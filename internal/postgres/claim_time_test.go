package postgres

import (
	"strconv"
	"strings"
	"testing"

	"outbox-dispatcher/internal/outbox"
)

func TestOccurredAtOfAnyYear(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	times := []struct{ sql, wire string }{
		{"-infinity", "0001-01-01T00:00:00+00:00"},
		{"4714-11-24 00:00:00 BC", "-4713-11-24T00:00:00+00:00"}, // the first of Postgres
		{"0044-03-15 12:00:00.000001 BC", "-0043-03-15T12:00:00.000001+00:00"},
		{"0001-12-31 23:59:59 BC", "0000-12-31T23:59:59+00:00"},
		{"0001-01-01 00:00:00", "0001-01-01T00:00:00+00:00"},
		{"1900-02-28 23:59:59.9", "1900-02-28T23:59:59.900000+00:00"},
		{"2024-02-29 00:00:00.123456+05:30", "2024-02-28T18:30:00.123456+00:00"},
		{"9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999+00:00"},
		{"20000-02-29 00:00:00", "20000-02-29T00:00:00+00:00"},
		{"294276-12-31 23:59:59.999999", outbox.Infinity.Wire()}, // the last of Postgres
		{"infinity", "9999-12-31T23:59:59.999999+00:00"},
	}
	for n, at := range times {
		f.put(n, "occurred_at", "'"+at.sql+"'")
	}
	events := f.take().Events
	if len(events) != len(times) {
		t.Fatalf("claimed %s, want all", numbers(events))
	}
	for i, e := range events {
		if number(e.ID) != i {
			t.Fatalf("claimed %s, want them by time", numbers(events))
		}
		if want := `"occurred_at":"` + times[i].wire + `"`; !strings.Contains(string(e.Body), want) {
			t.Errorf("%s: %s, want %s", times[i].sql, e.Body, want)
		}
	}
}

func TestOddSettingsOfTheRoleChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	url := f.role("odd", "grant select, update on outbox_events to {role}", "grant select on outbox_events_control to {role}")
	role := f.value("select rolname from pg_roles where rolname like 'odd_%' and rolname like '%' || current_database()")
	for _, setting := range []string{
		"timezone = 'America/New_York'", "datestyle = 'German, DMY'", "intervalstyle = 'sql_standard'", "extra_float_digits = -15",
		"bytea_output = 'escape'", "lc_messages = 'C'", "xmloption = 'document'", "statement_timeout = '1min'", "lock_timeout = '1min'",
		"enable_indexscan = off", "enable_nestloop = off", "plan_cache_mode = 'force_generic_plan'",
	} {
		f.exec("alter role " + role + " set " + setting)
	}
	f.store = f.open(url)
	// The hour that New York has twice.
	f.put(1, "occurred_at", "'2025-11-02 05:30:00.25Z'", "next_attempt_at", "'2025-11-02 06:30:00.000001Z'")
	f.put(2, "occurred_at", "'2025-11-02 06:30:00Z'")
	f.put(3, "next_attempt_at", "now() + interval '1 minute'")
	f.put(4, "delivery_status", "'delivering'", "next_attempt_at", "now() + interval '1 minute'")

	batch := f.take(reclaiming(10))
	if got, want := numbers(batch.Events), "2 1"; got != want || batch.Reclaimed.Returned != 0 {
		t.Fatalf("claimed %s, reclaimed %d; want %s and 0", got, batch.Reclaimed.Returned, want)
	}
	two, one := batch.Events[0], batch.Events[1]
	if want := "2025-11-02T05:30:00.250000+00:00"; !strings.Contains(string(one.Body), want) {
		t.Errorf("%s, want %s", one.Body, want)
	}
	clock := f.clock()
	if got := f.release(one) + " " + f.record(retried(two, 8e9)); got != "recorded recorded" {
		t.Fatal(got)
	}
	f.check(1, "pending true", "delivery_status", "next_attempt_at = '2025-11-02 06:30:00.000001Z'")
	f.check(2, "pending true", "delivery_status", "next_attempt_at - interval '8 seconds' between "+clock+" and clock_timestamp()")
	if age := batch.Backlog.OldestDueAge; age != 0 {
		t.Errorf("the oldest is due for %v, though nothing is", age)
	}
}

// A role whose sessions are serializable would fail where rows change under it.
func TestAnotherIsolationLevelIsRefused(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		f := newFixture(t)
		f.exec("do $$ begin execute format('alter database %I set default_transaction_isolation = ''" + level + "''', current_database()); end $$")
		err := f.open(f.url).Ready(t.Context())
		if err == nil || !strings.Contains(err.Error(), `"`+level+`"`) || !strings.Contains(err.Error(), "alter role") {
			t.Errorf("%v; want the level named, and what to do", err)
		}
	}
}

func TestTimesAreReadToTheMicrosecond(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rows, err := f.store.exchange(t.Context(), `select at::text, (extract(epoch from at) * 1000000)::bigint::text
		from (select timestamptz '4714-11-24 00:00:00 BC' + random() * random() * (timestamptz '200000-01-01' - timestamptz '4714-11-24 00:00:00 BC')
			+ floor(random() * 1000000) * interval '1 microsecond' as at from generate_series(1, 3000)) t`)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		got, err := parseTime(row[0])
		if err != nil || strconv.FormatInt(int64(got), 10) != row[1] {
			t.Errorf("%s: %d, %v; want %s", row[0], got, err, row[1])
		}
	}
}
