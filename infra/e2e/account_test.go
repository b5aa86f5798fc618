package main

import (
	"testing"

	"outbox-dispatcher/internal/outbox"
)

func TestAccountFor(t *testing.T) {
	t.Parallel()
	const id = "7f1c2d3e-0000-4000-8000-000000000001"
	data := map[string]any{"correlation_id": nil, "aggregate": map[string]any{"id": 7.0}, "data": "x"}
	event := map[string]any{"event_id": id, "event_type": "trip.created", "correlation_id": nil, "aggregate": map[string]any{"id": 7.0}, "data": "x"}
	done := row{ID: id, Type: "trip.created", Payload: data, Status: outbox.Succeeded, Attempts: 1, RunID: "5"}
	worked := execution{ID: "5", Workflow: "plain", Status: "success", Event: event, Worked: true}
	again := execution{ID: "6", Workflow: "plain", Status: "success", Event: event}
	failed := execution{ID: "4", Workflow: "plain", Status: "success", Event: event, Failed: true}

	for name, test := range map[string]struct {
		excuses []string
		change  func(r *row, ours *execution, all *[]execution, doneBy *string)
		used    int
		fails   bool
	}{
		"DoneOnce":            {},
		"NotSucceeded":        {fails: true, change: func(r *row, _ *execution, _ *[]execution, _ *string) { r.Status = outbox.Pending }},
		"NamesAnother":        {fails: true, change: func(r *row, _ *execution, _ *[]execution, _ *string) { r.RunID = "6" }},
		"NamesNone":           {fails: true, change: func(r *row, _ *execution, _ *[]execution, d *string) { r.RunID, *d = "", "" }},
		"NoSuchExecution":     {fails: true, change: func(_ *row, ours *execution, _ *[]execution, _ *string) { *ours = execution{} }},
		"AnotherWorkflow":     {fails: true, change: func(_ *row, ours *execution, _ *[]execution, _ *string) { ours.Workflow = "x" }},
		"DidNotWork":          {fails: true, change: func(_ *row, ours *execution, _ *[]execution, _ *string) { ours.Worked = false }},
		"AnotherEvent":        {fails: true, change: func(_ *row, ours *execution, _ *[]execution, _ *string) { ours.Event = map[string]any{} }},
		"ArrivedAltered":      {fails: true, change: func(r *row, _ *execution, _ *[]execution, _ *string) { r.Payload = map[string]any{} }},
		"Unexplained":         {fails: true, change: func(_ *row, _ *execution, all *[]execution, _ *string) { *all = append(*all, again) }},
		"Explained":           {excuses: []string{sentByHand}, used: 1, change: func(_ *row, _ *execution, all *[]execution, _ *string) { *all = append(*all, again) }},
		"ExplainedOnceOnly":   {excuses: []string{sentByHand}, fails: true, change: func(_ *row, _ *execution, all *[]execution, _ *string) { *all = append(*all, again, again) }},
		"ExcuseNotNeeded":     {excuses: []string{killedN8N}},
		"FailedBefore":        {excuses: []string{reportedFailure}, used: 1, change: func(_ *row, _ *execution, all *[]execution, _ *string) { *all = append(*all, failed) }},
		"FailedWithoutExcuse": {excuses: []string{sentByHand}, fails: true, change: func(_ *row, _ *execution, all *[]execution, _ *string) { *all = append(*all, failed) }},
		"WorkedTwice": {excuses: []string{sentByHand}, fails: true, change: func(_ *row, _ *execution, all *[]execution, _ *string) {
			twice := again
			twice.Worked = true
			*all = append(*all, twice)
		}},
		"KilledAfterItsAnswer": {excuses: []string{killedN8N}, change: func(_ *row, ours *execution, all *[]execution, _ *string) {
			*ours, *all = execution{ID: "5", Workflow: "plain", Status: "crashed"}, nil
		}},
		"CrashedByItself": {fails: true, change: func(_ *row, ours *execution, all *[]execution, _ *string) {
			*ours, *all = execution{ID: "5", Workflow: "plain", Status: "crashed"}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &story{stage: &stage{plain: workflow{ID: "plain"}}, excuses: map[string][]string{id: test.excuses}}
			r, ours, all, doneBy := done, worked, []execution{worked}, "5"
			if test.change != nil {
				test.change(&r, &ours, &all, &doneBy)
			}
			used, err := s.accountFor(r, ours, all, doneBy)
			if (err != nil) != test.fails || err == nil && len(used) != test.used {
				t.Errorf("got %v and error %v, want %d excuses used and an error: %v", used, err, test.used, test.fails)
			}
		})
	}
}
