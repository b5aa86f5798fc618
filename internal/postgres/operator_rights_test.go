package postgres_test

import (
	"strings"
	"testing"

	"outbox-dispatcher/internal/operator"
)

// The rights of infra/grants.sql are enough for each role, and no more than enough.
func TestRightsOfTheRoles(t *testing.T) {
	t.Parallel()
	d := gallery(t)
	d.exec("update outbox_events set occurred_at = now() - interval '8 days' where delivery_status = 'succeeded'")
	people := d.open(d.login(d.as("people", "grant select, update, delete on outbox_events to {role}", "grant select, insert, update on outbox_events_control to {role}")))
	dispatcher := d.open(d.login(d.as("dispatcher", "grant select, update on outbox_events to {role}", "grant select on outbox_events_control to {role}")))
	actions := []struct {
		r    operator.Request
		deny string // what the dispatcher's role is told; empty: it may
	}{
		{&operator.Status{}, ""},
		{&operator.List{Limit: 5}, ""},
		{&operator.Show{ID: eventID(1), Payload: true}, ""},
		{&operator.Prune{OlderThanDays: 7, Batch: 10, DryRun: true}, ""},
		{&operator.Pause{}, "lacks a right"},
		{&operator.Resume{}, "lacks a right"},
		{&operator.Prune{OlderThanDays: 7, Batch: 10, Yes: true}, "lacks a right"},
		{&operator.Replay{Choice: operator.Choice{ID: eventID(9)}, Limit: 1, Rate: 1}, ""},
		{&operator.Cancel{Choice: operator.Choice{ID: eventID(1)}, Limit: 1, As: "x", Reason: "why"}, ""},
		{&operator.Reclaim{Limit: 1}, ""},
		{&operator.Reclaim{ID: eventID(8), Force: true}, ""},
		{&operator.Migrate{}, ""}, // nothing is left to do
	}
	for _, a := range actions {
		_, err := (&operator.Operator{Store: people, Audit: ignore}).Do(t.Context(), a.r)
		if err != nil {
			t.Errorf("the operator's role, %s: %v", a.r.Action(), err)
		}
		_, err = (&operator.Operator{Store: dispatcher, Audit: ignore}).Do(t.Context(), a.r)
		if (err == nil) != (a.deny == "") || err != nil && !strings.Contains(err.Error(), a.deny) {
			t.Errorf("the dispatcher's role, %s: %v", a.r.Action(), err)
		}
	}
}
