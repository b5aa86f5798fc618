package postgres_test

import (
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
)

// claims asks whether a dispatcher gets the one event that is due; it gives it
// back.
func (d *desk) claims(s cycle.Store) bool {
	d.t.Helper()
	batch, err := s.Take(d.t.Context(), cycle.Claim{Limit: 10, Bytes: 1 << 20, MaxBody: 1 << 20, Lease: time.Minute})
	if err != nil {
		d.t.Fatal(err)
	}
	if batch.Paused == (len(batch.Events) > 0) {
		d.t.Errorf("paused %v, and %d events", batch.Paused, len(batch.Events))
	}
	if len(batch.Events) > 0 {
		if _, err := s.Release(d.t.Context(), batch.Events); err != nil {
			d.t.Fatal(err)
		}
	}
	return !batch.Paused
}

func TestPause(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put(1)
	dispatcher := d.open(d.url) // a warm one, which has looked at the table
	if !d.claims(dispatcher) {
		t.Fatal("paused from the start")
	}
	before, err := d.store.SetPause(t.Context(), operator.PauseState{Paused: true, Reason: "n8n is down", ChangedBy: "bob"})
	if err != nil || before != (operator.PauseState{}) {
		t.Errorf("before %+v, %v", before, err)
	}
	if d.claims(dispatcher) || d.claims(d.open(d.url)) {
		t.Error("a pause stops not every dispatcher, warm or cold, at once")
	}
	o, err := d.store.Overview(t.Context())
	if err != nil || !o.Paused || o.Pause == nil || o.Pause.Reason != "n8n is down" || o.Pause.ChangedBy != "bob" || o.Pause.ChangedAt == nil {
		t.Errorf("%+v, %v", o.Pause, err)
	}
	before, err = d.store.SetPause(t.Context(), operator.PauseState{ChangedBy: "eve"})
	if err != nil || !before.Paused || before.Reason != "n8n is down" || before.ChangedBy != "bob" || before.ChangedAt == nil {
		t.Errorf("before %+v, %v", before, err)
	}
	if !d.claims(dispatcher) {
		t.Error("it is still paused")
	}
	if o, err = d.store.Overview(t.Context()); err != nil || o.Paused || o.Pause != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestPauseOfATableThatWasNotMigrated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec("drop table outbox_events_control")
	_, err := d.store.SetPause(t.Context(), operator.PauseState{Paused: true})
	if err == nil || !strings.Contains(err.Error(), "operator migrate") {
		t.Errorf("error %v", err)
	}
	if err := d.store.Migrate(t.Context(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.SetPause(t.Context(), operator.PauseState{Paused: true}); err != nil {
		t.Errorf("after the migration: %v", err)
	}
}

func TestOverview(t *testing.T) {
	t.Parallel()
	d := gallery(t)
	o, err := d.store.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Due != 3 || o.Later != 1 || o.Suspects != 1 || o.Leased != 1 || o.Expired != 1 || o.Parked != 1 || o.Statuses["failed"] != 3 ||
		o.Statuses["succeeded"] != 2 || o.Statuses["paused"] != 1 || o.Estimated || len(o.FailedBy) != 3 || o.OldestDueAgeSeconds < 5390 {
		t.Errorf("%+v", o)
	}
}
