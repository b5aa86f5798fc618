package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// execution is one as n8n keeps it.
type execution struct {
	ID       string
	Workflow string
	Status   string         // success, crashed, ...
	Event    map[string]any // what arrived; nil if n8n was killed before it saved that
	Worked   bool           // the node "Your work goes here" ran, and well
	Failed   bool           // ... and its failure was reported
}

func (e execution) eventID() string {
	id, _ := e.Event["event_id"].(string)
	return id
}

// Names of nodes in our workflows.
const (
	webhookNode = "Webhook"
	workNode    = "Your work goes here"
	reportNode  = "Report the failure"
	doneTable   = "outbox_events_done"
)

// settled returns once n8n has saved all that it runs, which it does a moment after
// the answer is out.
func settled(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var unsaved int
		err := conn.QueryRow(ctx, `select count(*) from execution_entity where status in ('new', 'running')`).Scan(&unsaved)
		if err != nil || unsaved == 0 {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%d executions do not end: %w", unsaved, err)
		}
	}
}

// executions reads all that n8n ran from its database.
func executions(ctx context.Context, conn *pgx.Conn) ([]execution, error) {
	rows, err := conn.Query(ctx, `select e.id::text, e."workflowId", e.status, coalesce(d.data, '')
		from execution_entity e left join execution_data d on d."executionId" = e.id
		where e.mode = 'webhook' order by e.id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (execution, error) {
		var e execution
		var data string
		if err := r.Scan(&e.ID, &e.Workflow, &e.Status, &data); err != nil {
			return e, err
		}
		f, err := unflatten(data)
		if err != nil {
			return e, fmt.Errorf("execution %s: %w", e.ID, err)
		}
		e.Event, _ = f.at("resultData", "runData", webhookNode, 0, "data", "main", 0, 0, "json", "body").(map[string]any)
		e.Failed = f.at("resultData", "runData", reportNode) != nil
		e.Worked = f.at("resultData", "runData", workNode) != nil && !e.Failed
		return e, nil
	})
}

// done reads the workflow's own table of done events: event to execution.
func done(ctx context.Context, conn *pgx.Conn) (map[string]string, error) {
	var id string
	if err := conn.QueryRow(ctx, "select id from data_table where name = $1", doneTable).Scan(&id); err != nil {
		return nil, fmt.Errorf("the data table %s: %w", doneTable, err)
	}
	rows, err := conn.Query(ctx, "select event_id, execution_id from "+pgx.Identifier{"data_table_user_" + id}.Sanitize())
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	var event, run string
	_, err = pgx.ForEachRow(rows, []any{&event, &run}, func() error {
		if first, twice := found[event]; twice {
			return fmt.Errorf("n8n did the work for event %s twice, in executions %s and %s", event, first, run)
		}
		found[event] = run
		return nil
	})
	return found, err
}

// flat is JSON as n8n stores it (npm package flatted): a list of values. The
// first is the root, and each text within an object or a list is the place of a
// value in the list.
type flat []any

func unflatten(text string) (flat, error) {
	var f flat
	if text == "" {
		return nil, nil
	}
	return f, json.Unmarshal([]byte(text), &f)
}

// at follows keys and indexes from the root and returns the whole value there;
// nil if there is none.
func (f flat) at(path ...any) any {
	if len(f) == 0 {
		return nil
	}
	value := f[0]
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = f.follow(object[step])
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = f.follow(list[step])
		}
	}
	return f.whole(value)
}

// follow returns the value that a member of an object or a list stands for.
func (f flat) follow(member any) any {
	text, ok := member.(string)
	if !ok {
		return member
	}
	place, err := strconv.Atoi(text)
	if err != nil || place < 0 || place >= len(f) {
		return nil
	}
	return f[place]
}

// whole replaces all places within a value by what is there.
func (f flat) whole(value any) any {
	switch value := value.(type) {
	case map[string]any:
		whole := make(map[string]any, len(value))
		for key, member := range value {
			whole[key] = f.whole(f.follow(member))
		}
		return whole
	case []any:
		whole := make([]any, len(value))
		for i, member := range value {
			whole[i] = f.whole(f.follow(member))
		}
		return whole
	}
	return value
}
