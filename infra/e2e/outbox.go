package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/outbox"
)

// table is the outbox, with this program in the place of the service that writes
// events into it.
type table struct {
	conn *pgx.Conn
	made int // events inserted so far
}

// row is one event as the table has it now.
type row struct {
	ID       string
	Type     string
	Payload  map[string]any // without the claim token
	Status   outbox.Status
	Attempts int
	RunID    string
}

// insert adds n events of several types and returns their ids.
func (t *table) insert(ctx context.Context, n int) ([]string, error) {
	types := []string{"trip.created", "trip.assigned", "trip.completed", "vehicle.moved", "driver.rested"}
	ids := make([]string, n)
	for i := range ids {
		t.made++
		payload, err := json.Marshal(map[string]any{
			"correlation_id": fmt.Sprintf("request-%d", t.made/3),
			"aggregate":      map[string]any{"type": "trip", "id": t.made},
			"data":           map[string]any{"note": "Größe 🚚 \"quoted\"\n", "km": 12.25, "stops": []int{t.made, 2, 3}, "empty": nil},
		})
		if err != nil {
			return nil, err
		}
		err = t.conn.QueryRow(ctx, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
			values (gen_random_uuid(), $1, clock_timestamp(), $2) returning event_id::text`,
			types[t.made%len(types)], payload).Scan(&ids[i])
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// setData changes what an event carries, as its producer may.
func (t *table) setData(ctx context.Context, id, data string) error {
	tag, err := t.conn.Exec(ctx, `update outbox_events set payload_json = jsonb_set(payload_json, '{data}', $2::jsonb) where event_id = $1::uuid`, id, data)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("there is no event %s", id)
	}
	return err
}

// count tells how many events are in each state.
func (t *table) count(ctx context.Context) (map[outbox.Status]int, error) {
	rows, err := t.rows(ctx)
	counts := map[outbox.Status]int{}
	for _, r := range rows {
		counts[r.Status]++
	}
	return counts, err
}

// rows are all events in the order in which they occurred.
func (t *table) rows(ctx context.Context) ([]row, error) {
	result, err := t.conn.Query(ctx, `select event_id::text, event_type, payload_json - '_delivery_claim_token', delivery_status, attempts, coalesce(external_run_id, '')
		from outbox_events order by occurred_at`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(result, pgx.RowToStructByPos[row])
}

// awaitSucceeded returns once so many events have succeeded.
func (t *table) awaitSucceeded(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		counts, err := t.count(ctx)
		if err != nil || counts[outbox.Succeeded] >= n {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %d events succeeded: %w", n, err)
		}
	}
}
