package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"outbox-dispatcher/internal/operator"
)

// Every protocol mode of pgx gives the same, since poolers ask for some of them.
func TestWhatPeopleDoInEveryProtocolMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"simple_protocol", "exec", "describe_exec", "cache_describe", "cache_statement"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := gallery(t)
			d.store = d.open(d.with("default_query_exec_mode=" + mode))
			hour := operator.Duration(time.Hour)
			all := operator.Filter{Code: "connectionError", Type: "order.cancelled", Text: "403", Aggregate: "id=7", OlderThan: hour, NewerThan: 100 * hour}
			if got := d.list(operator.List{Limit: 1, Filter: all}); got != "9" {
				t.Errorf("list: %s", got)
			}
			if got := d.list(operator.List{Limit: 1, Status: operator.Words{"pending"}}); got != "5 | 1 | 2 | 3 | 4" {
				t.Errorf("list in pages: %s", got)
			}
			if got := d.list(operator.List{Limit: 1, Status: operator.Words{"succeeded"}}); got != "12 | 13" {
				t.Errorf("list by id: %s", got)
			}
			if got := d.list(operator.List{Limit: 2, Filter: operator.Filter{DueFor: operator.Duration(4 * time.Minute)}, Sort: "-attempts"}); got != "2 5 | 1" {
				t.Errorf("list of what is due: %s", got)
			}
			c, err := d.store.Choose(t.Context(), []string{"failed"}, operator.Filter{}, 10)
			if err != nil || len(c.Refs) != 3 {
				t.Fatalf("choose: %+v, %v", c, err)
			}
			ids, err := d.store.Replay(t.Context(), c.Refs, []float64{0, 0.5, 1e6})
			if err != nil || sortedNumbers(ids) != "9 10 11" {
				t.Errorf("replay: %v, %v", ids, err)
			}
			if ids, err = d.store.Cancel(t.Context(), d.refs(1), "cancelled", `it's "so"`); err != nil || numbers(ids) != "1" {
				t.Errorf("cancel: %v, %v", ids, err)
			}
			if done, err := d.store.TakeBack(t.Context(), eventID(8), true, "why"); !done || err != nil {
				t.Errorf("take back: %v, %v", done, err)
			}
			if r, err := d.store.Reclaim(t.Context(), 10, 5); err != nil || r.Pending != 1 {
				t.Errorf("reclaim: %+v, %v", r, err)
			}
			if e, err := d.store.Event(t.Context(), eventID(5)); err != nil || e.State != operator.Suspect {
				t.Errorf("event: %+v, %v", e, err)
			}
			if _, err := d.store.SetPause(t.Context(), operator.PauseState{Paused: true, ChangedBy: "x"}); err != nil {
				t.Errorf("pause: %v", err)
			}
			if s, err := d.store.Session(t.Context()); err != nil || s.Role == "" {
				t.Errorf("session: %+v, %v", s, err)
			}
			if i, err := d.store.Inspect(t.Context(), []string{"postgres"}); err != nil || len(i.Indexes) != 5 || len(i.Rights) != 1 {
				t.Errorf("inspect: %+v, %v", i, err)
			}
			d.exec("update outbox_events set occurred_at = now() - interval '8 days' where delivery_status = 'succeeded'")
			if p := d.prune(operator.Prune{OlderThanDays: 7}); p.Deleted != 2 {
				t.Errorf("prune: %+v", p)
			}
			w, err := d.store.PruneStart(t.Context(), 7)
			if err != nil {
				t.Fatal(err)
			}
			w.Position, w.End = "", "" // by keys
			if _, n, err := d.store.PruneStep(t.Context(), w, 10, true, false); err != nil {
				t.Errorf("prune by keys: %s, %v", fmt.Sprint(n), err)
			}
		})
	}
}
