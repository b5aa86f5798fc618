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
	crashed := execution{ID: "5", Workflow: "plain", Status: "crashed"}
	failed := execution{ID: "4", Workflow: "plain", Status: "success", Event: event, Failed: true}

	type history struct {
		row     row
		ours    execution
		others  []execution
		doneBy  string
		excuses []string
	}
	for name, test := range map[string]struct {
		change func(*history) // of an event that was delivered once
		used   int            // excuses
		fails  bool
	}{
		"DoneOnce":            {change: func(*history) {}},
		"NotSucceeded":        {fails: true, change: func(h *history) { h.row.Status = outbox.Pending }},
		"NamesAnother":        {fails: true, change: func(h *history) { h.row.RunID = "6" }},
		"NamesNone":           {fails: true, change: func(h *history) { h.row.RunID, h.doneBy = "", "" }},
		"NoSuchExecution":     {fails: true, change: func(h *history) { h.ours = execution{} }},
		"AnotherWorkflow":     {fails: true, change: func(h *history) { h.ours.Workflow = "x" }},
		"DidNotWork":          {fails: true, change: func(h *history) { h.ours.Worked = false }},
		"AnotherEvent":        {fails: true, change: func(h *history) { h.ours.Event = map[string]any{} }},
		"ArrivedAltered":      {fails: true, change: func(h *history) { h.row.Payload = map[string]any{} }},
		"Unexplained":         {fails: true, change: func(h *history) { h.others = []execution{again} }},
		"Explained":           {used: 1, change: func(h *history) { h.others, h.excuses = []execution{again}, []string{sentByHand} }},
		"ExplainedOnceOnly":   {fails: true, change: func(h *history) { h.others, h.excuses = []execution{again, again}, []string{sentByHand} }},
		"ExcuseNotNeeded":     {change: func(h *history) { h.excuses = []string{noAnswer} }},
		"FailedBefore":        {used: 1, change: func(h *history) { h.others, h.excuses = []execution{failed}, []string{reportedFailure} }},
		"FailedWithoutExcuse": {fails: true, change: func(h *history) { h.others, h.excuses = []execution{failed}, []string{sentByHand} }},
		"WorkedTwice":         {fails: true, change: func(h *history) { h.others, h.excuses = []execution{worked}, []string{sentByHand} }},
		"CrashedByItself":     {fails: true, change: func(h *history) { h.ours = crashed }},
		"KilledAfterAnswer":   {change: func(h *history) { h.ours, h.excuses = crashed, []string{killedN8N} }},
		"KilledBeforeAnswer": {used: 1, change: func(h *history) {
			h.ours, h.others, h.excuses = crashed, []execution{again}, []string{noAnswer}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := history{row: done, ours: worked, doneBy: "5"}
			test.change(&h)
			s := &story{stage: &stage{plain: workflow{ID: "plain"}}, excuses: map[string][]string{id: h.excuses}}
			used, err := s.accountFor(h.row, h.ours, h.others, h.doneBy)
			if (err != nil) != test.fails || err == nil && len(used) != test.used {
				t.Errorf("got %v and error %v, want %d excuses used and an error: %v", used, err, test.used, test.fails)
			}
		})
	}
}
