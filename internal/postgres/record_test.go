package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

func recordWritesEachOutcome(t *testing.T, f *fixture) {
	for n := 1; n <= 4; n++ {
		f.put(n, "attempts", "3", "last_error", "'old'", "last_error_code", "'connectionError'", "external_run_id", "'old run'", "lost_leases", "1", "lost_leases_at", "3")
	}
	e := f.take().Events
	before, clock := f.image(4), f.clock()
	if got := f.record(succeeded(e[0]), retried(e[1], 8*time.Second), failed(e[2])); got != "recorded recorded recorded" {
		t.Fatal(got)
	}
	columns := []string{"delivery_status", "attempts", "last_error_code", "external_run_id", "lost_leases", "payload_json::jsonb ? '_delivery_claim_token'"}
	f.check(1, "succeeded 4 null run-7 1 false", columns...)
	f.check(2, "pending 4 connectionError old run 1 false", columns...)
	f.check(3, "failed 4 remoteReportedFailure old run 1 false", columns...)
	f.check(1, "null null", "next_attempt_at", "last_error")
	f.check(2, "true 503 from n8n.example", "next_attempt_at - interval '8 seconds' between "+clock+" and clock_timestamp()", "last_error")
	f.check(3, "null the workflow answered ok: false", "next_attempt_at", "last_error")
	for n := 1; n <= 3; n++ {
		f.check(n, "true", "payload_json::jsonb = '"+payload+"'")
	}
	f.unchanged(4, before)
}

func recordIsFenced(t *testing.T, f *fixture) {
	changes := []struct {
		name, sql string // what somebody did to the row meanwhile
		fate      string
	}{
		{"nothing", "event_type = event_type", "recorded"},
		{"status", "delivery_status = 'pending'", "lost"},
		{"finished", "delivery_status = 'succeeded', attempts = 4, external_run_id = 'another'", "lost"},
		{"attempts", "attempts = attempts + 1", "lost"},
		{"token of another", `payload_json = '{"_delivery_claim_token": "another"}'`, "lost"},
		{"no token", "payload_json = '{}'", "lost"},
		{"a list", "payload_json = '[]'", "lost"},
		{"a list with the token", `payload_json = '["_delivery_claim_token"]'`, "lost"},
		{"null", "payload_json = null", "lost"},
		{"deadline", "next_attempt_at = now() - interval '1 hour'", "recorded"}, // the token decides
	}
	f.exec("alter table outbox_events alter payload_json drop not null")
	for n := range changes {
		f.put(n, "attempts", "3")
	}
	events := f.take().Events
	var want []string
	var outcomes []outbox.Outcome
	images := map[int]string{}
	for n, c := range changes {
		f.exec("update outbox_events set "+c.sql+" where event_id = $1", id(n))
		outcomes, want = append(outcomes, succeeded(events[n])), append(want, c.fate)
		images[n] = f.image(n)
	}
	if got := f.record(outcomes...); got != strings.Join(want, " ") {
		t.Errorf("got  %s\nwant %s", got, strings.Join(want, " "))
	}
	for n, c := range changes {
		if c.fate == "lost" {
			f.unchanged(n, images[n])
		}
	}
	f.exec("delete from outbox_events where event_id = $1", id(0))
	if got := f.record(succeeded(events[0])); got != "lost" {
		t.Errorf("row deleted: %s, want lost", got)
	}
}

func rowsWithoutATokenAreFencedByTheirDeadline(t *testing.T, f *fixture) {
	for n := range 4 {
		f.put(n, "payload_json", "'[]'", "attempts", "3")
	}
	events := f.take().Events
	f.exec("update outbox_events set next_attempt_at = next_attempt_at + interval '1 microsecond' where event_id = $1", id(1))
	f.exec(`update outbox_events set payload_json = '{"data": "mended"}' where event_id = $1`, id(2))
	f.exec("update outbox_events set attempts = 4 where event_id = $1", id(3))
	if got, want := f.record(failed(events[0]), failed(events[1]), failed(events[2]), failed(events[3])), "recorded lost recorded lost"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.check(2, `failed {"data": "mended"}`, "delivery_status", "payload_json")
	if got := f.release(events[1]); got != "lost" {
		t.Errorf("release: %s, want lost", got)
	}
}

func recordKeepsWhatWasEditedMeanwhile(t *testing.T, f *fixture) {
	f.put(1)
	e := f.one()
	f.exec(`update outbox_events set payload_json = (payload_json::jsonb || '{"data": {"n": 1.50}, "new": null}')::text::` + f.value("select format_type(atttypid, null) from pg_attribute where attrelid = 'outbox_events'::regclass and attname = 'payload_json'") + `, event_type = 'edited'`)
	if got := f.record(succeeded(e)); got != "recorded" {
		t.Fatal(got)
	}
	f.check(1, `edited succeeded true`, "event_type", "delivery_status",
		`payload_json::jsonb::text = '{"correlation_id": "c-1", "aggregate": {"id": 7}, "data": {"n": 1.50}, "new": null}'::jsonb::text`)
}

func aLockedRowIsHeldAndRecordedLater(t *testing.T, f *fixture) {
	for n := range 3 {
		f.put(n)
	}
	e := f.take().Events
	busy := f.begin("select from outbox_events where event_id = '" + id(1) + "' for update")
	started := time.Now()
	if got := f.record(succeeded(e[0]), succeeded(e[1])); got != "recorded held" {
		t.Errorf("%s, want recorded held", got)
	}
	if got := f.release(e[1], e[2]); got != "held recorded" {
		t.Errorf("%s, want held recorded", got)
	}
	if waited := time.Since(started); waited > f.store.limits.lock {
		t.Errorf("waited %v for a row", waited)
	}
	f.commit(busy)
	if got := f.record(succeeded(e[1])); got != "recorded" {
		t.Errorf("behind the lock: %s", got)
	}
	// One that took the claim away under the lock.
	f.put(4, "lost_leases", "2")
	taken := f.one(suspectsOnly)
	busy = f.begin(`update outbox_events set payload_json = '{"_delivery_claim_token": "another"}' where event_id = '` + id(4) + "'")
	if got := f.record(succeeded(taken)); got != "held" {
		t.Errorf("%s, want held", got)
	}
	f.commit(busy)
	if got := f.record(succeeded(taken)); got != "lost" {
		t.Errorf("%s, want lost", got)
	}
}

func anOutcomeWrittenAlreadyIsRecorded(t *testing.T, f *fixture) {
	// The commit went through and its answer was lost: the same comes again.
	for n := range 5 {
		f.put(n)
	}
	e := f.take().Events
	outcomes := []outbox.Outcome{succeeded(e[0]), retried(e[1], time.Second), failed(e[2])}
	f.record(outcomes...)
	images := []string{f.image(0), f.image(1), f.image(2)}
	if got, want := f.record(append(outcomes, succeeded(e[3]))...), "recorded recorded recorded recorded"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for n, image := range images {
		f.unchanged(n, image)
	}
	// The outcome of somebody else is not ours, however alike.
	f.exec("update outbox_events set delivery_status = 'succeeded', attempts = 1, external_run_id = 'another', next_attempt_at = null where event_id = $1", id(4))
	if got := f.record(succeeded(e[4])); got != "lost" {
		t.Errorf("%s, want lost", got)
	}
	f.release(e[4])
	f.check(4, "another", "external_run_id")
}

func aRefusedValueHarmsNoOther(t *testing.T, f *fixture) {
	f.exec("alter table outbox_events alter external_run_id type varchar(5)")
	f.exec("alter table outbox_events add check (last_error <> 'not this one')")
	for n := range 5 {
		f.put(n)
	}
	e := f.take().Events
	long, checked := succeeded(e[1]), failed(e[3])
	long.RunID, checked.Error = "sixsix", "not this one"
	if got, want := f.record(succeeded(e[0]), long, retried(e[2], 0), checked), "recorded refused recorded refused"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.check(1, "delivering 0", "delivery_status", "attempts")
	f.check(3, "delivering 0", "delivery_status", "attempts")
	smaller, ok := outbox.Reduce(long)
	if got := f.record(smaller); !ok || got != "recorded" {
		t.Errorf("its smaller form: %s", got)
	}
	f.check(1, "succeeded 1", "delivery_status", "attempts")
}

func releasePutsBackWhatWas(t *testing.T, f *fixture) {
	f.put(1)
	f.put(2, "next_attempt_at", "'2025-01-02 03:04:05.000006Z'", "attempts", "9", "last_error", "'503'", "last_error_code", "'connectionError'",
		"external_run_id", "'r'", "lost_leases", "1", "lost_leases_at", "9", "attempts_base", "2")
	f.put(3, "payload_json", "'[]'", "next_attempt_at", "'-infinity'")
	f.put(4)
	before := []string{f.image(1), f.image(2), f.image(3)}
	events := f.take().Events // 3 2 1 4
	if got := f.release(events[0], events[1], events[2]); got != "recorded recorded recorded" {
		t.Fatal(got)
	}
	for i, image := range before {
		f.unchanged(i+1, image)
	}
	f.check(4, "delivering", "delivery_status")
	// Again, as after a lost answer to the commit: nothing is there to be done.
	if got := f.release(events[1]); got != "lost" {
		t.Errorf("a second release: %s", got)
	}
	f.unchanged(2, before[1])
}

func TestRecordMixedGroupsOf500(t *testing.T) {
	t.Parallel()
	const rows = 500
	f := newFixture(t)
	f.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 't', now() - interval '1 hour', case when n % 7 = 0 then '[]' else '`+payload+`' end::jsonb
		from generate_series(0, $1 - 1) n`, rows)
	events := f.take().Events
	var outcomes []outbox.Outcome
	for n, e := range events {
		outcomes = append(outcomes, []outbox.Outcome{succeeded(e), retried(e, time.Duration(n)*time.Second), failed(e)}[n%3])
		outcomes[n].RunID += fmt.Sprint(n) // each its own
		outcomes[n].Error += fmt.Sprint(n)
	}
	clock := f.clock()
	if got := f.record(outcomes...); got != strings.TrimSuffix(strings.Repeat("recorded ", rows), " ") {
		t.Fatal(got)
	}
	for _, same := range []string{
		"delivery_status = (array['succeeded', 'pending', 'failed'])[n % 3 + 1]",
		"attempts = 1",
		"last_error ~ (n || '$')",
		"n % 3 <> 0 or external_run_id = 'run-7' || n",
		"n % 3 = 1 or next_attempt_at is null",
		"n % 3 <> 1 or next_attempt_at - n * interval '1 second' between " + clock + " and clock_timestamp()",
		"not payload_json ? '_delivery_claim_token'",
	} {
		if got := f.value("select count(*) from (select *, right(event_id::text, 12)::int as n from outbox_events) t where not (" + same + ")"); got != "0" {
			t.Errorf("%s rows without: %s", got, same)
		}
	}
}

// Two groups over the same rows in the opposite order, and nobody waits.
func TestRecordInOppositeOrders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const rows = 100
	f.fill(rows)
	events := f.take().Events
	forth, back := make([]outbox.Outcome, rows), make([]outbox.Outcome, rows)
	for i, e := range events {
		forth[i], back[rows-1-i] = succeeded(e), succeeded(e)
	}
	other := f.open(f.url)
	done := make(chan error)
	go func() {
		_, err := other.Record(t.Context(), back)
		done <- err
	}()
	fates := f.record(forth...)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.Contains(fates, "lost") {
		t.Errorf("lost: %s", fates)
	}
	if got := f.value("select count(*) from outbox_events where delivery_status = 'succeeded' and attempts = 1"); got != fmt.Sprint(rows) {
		t.Errorf("%s rows succeeded", got)
	}
}
