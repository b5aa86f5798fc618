package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"outbox-dispatcher/internal/outbox"
)

// account holds the table against what n8n ran. Each event succeeded; its
// external_run_id is an execution of ours that did the work for this very event,
// with what the row holds; and whatever else n8n ran has one of the excuses.
func (s *story) account(ctx context.Context) (string, error) {
	rows, err := s.outbox.rows(ctx)
	if err != nil {
		return "", err
	}
	if err := settled(ctx, s.n8nData); err != nil {
		return "", err
	}
	ran, err := executions(ctx, s.n8nData)
	if err != nil {
		return "", err
	}
	doneBy, err := done(ctx, s.n8nData)
	if err != nil {
		return "", err
	}
	if len(doneBy) != len(rows) {
		return "", fmt.Errorf("the outbox has %d events and n8n's table of done ones %d", len(rows), len(doneBy))
	}
	byEvent, byID := map[string][]execution{}, map[string]execution{}
	unsaved := 0 // executions that n8n was killed in: it cannot tell what of
	for _, e := range ran {
		byID[e.ID] = e
		if e.eventID() != "" {
			byEvent[e.eventID()] = append(byEvent[e.eventID()], e)
		} else {
			unsaved++
		}
	}

	var errs []error
	explained := map[string]int{}
	killed := 0 // executions that a row names and n8n did not save
	spare := 0  // excuses for other unsaved executions
	for _, r := range rows {
		ours := byID[r.RunID]
		others := slices.DeleteFunc(byEvent[r.ID], func(e execution) bool { return e.ID == ours.ID })
		delete(byEvent, r.ID)
		used, err := s.accountFor(r, ours, others, doneBy[r.ID])
		if err != nil {
			errs = append(errs, fmt.Errorf("event %s (%s, %d attempts, external_run_id %q): %w", r.ID, r.Status, r.Attempts, r.RunID, err))
		}
		for _, excuse := range used {
			explained[excuse]++
		}
		if ours.ID != "" && ours.eventID() == "" {
			killed++
		}
		spare += count(s.excuses[r.ID], noAnswer) - count(used, noAnswer)
	}
	if unsaved -= killed; unsaved > spare {
		errs = append(errs, fmt.Errorf("n8n cannot tell what %d executions were, and %d POSTs got no answer", unsaved, spare))
	}
	explained[noAnswer] += unsaved
	if len(byEvent) > 0 {
		errs = append(errs, fmt.Errorf("n8n ran events that the table does not have: %v", slices.Collect(maps.Keys(byEvent))))
	}

	text := fmt.Sprintf("%d executions: %d named by the rows", len(ran), len(rows))
	if killed > 0 {
		text += fmt.Sprintf(" (%d: %s)", killed, killedN8N)
	}
	for _, reason := range slices.Sorted(maps.Keys(explained)) {
		if explained[reason] > 0 {
			text += fmt.Sprintf(", %d because %s", explained[reason], reason)
		}
	}
	return text, errors.Join(errs...)
}

// accountFor does so for one event: ours is the execution that the row names, others
// are all of this event that n8n saved beside it, doneBy is the one that n8n's own
// table names. It returns the excuses that the others needed.
func (s *story) accountFor(r row, ours execution, others []execution, doneBy string) (used []string, err error) {
	excuses := s.excuses[r.ID]
	switch {
	case r.Status != outbox.Succeeded:
		return nil, errors.New("it has not succeeded")
	case r.RunID == "" || r.RunID != doneBy:
		return nil, fmt.Errorf("n8n remembers execution %q", doneBy)
	case ours.ID == "" || ours.Workflow != s.plain.ID && ours.Workflow != s.failing.ID:
		return nil, fmt.Errorf("that is no execution of ours: %+v", ours)
	case ours.Status != "success":
		// It did the work, or n8n would not remember it, and was killed since.
		if count(excuses, noAnswer)+count(excuses, killedN8N) == 0 {
			return nil, fmt.Errorf("that execution is %s", ours.Status)
		}
	case ours.eventID() != r.ID || !ours.Worked:
		return nil, fmt.Errorf("that execution did not do the work for it: %+v", ours)
	case ours.Event["event_type"] != r.Type || !reflect.DeepEqual(payload(ours.Event), r.Payload):
		return nil, fmt.Errorf("n8n got %v for %v", ours.Event, r.Payload)
	}
	for _, e := range others {
		if e.Worked && e.Status == "success" {
			return nil, fmt.Errorf("execution %s did the work as well", e.ID)
		}
		at := slices.IndexFunc(excuses, func(excuse string) bool { return (excuse == reportedFailure) == e.Failed && excuse != killedN8N })
		if at < 0 {
			return nil, fmt.Errorf("nothing explains execution %s: %+v", e.ID, e)
		}
		used = append(used, excuses[at])
		excuses = slices.Delete(slices.Clone(excuses), at, at+1)
	}
	return used, nil
}

// payload is what of an envelope stands in the row's payload.
func payload(event map[string]any) map[string]any {
	return map[string]any{"correlation_id": event["correlation_id"], "aggregate": event["aggregate"], "data": event["data"]}
}

func count(excuses []string, reason string) (n int) {
	for _, e := range excuses {
		if e == reason {
			n++
		}
	}
	return n
}
