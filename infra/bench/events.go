package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// smallBody and memoryBody are the sizes of a body: an ordinary event, and the
// one that the memory is measured with.
const (
	smallBody  = 560
	memoryBody = 4096
)

// event is the nth event of the workload. Its JSON is written as jsonb prints it,
// so that every contender posts the same bytes.
type event struct {
	ID          string
	Occurred    time.Time
	Correlation string
	Aggregate   string
	Data        string
}

const eventType = "vehicle.status_changed"

func eventOf(n, bytes int) event {
	return event{
		ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(n)*2654435761, n), // spread, as real ids are
		// Six digits of microseconds, in order, long ago: all are due.
		Occurred:    time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC).Add(time.Duration(n) * time.Millisecond),
		Correlation: fmt.Sprintf(`"corr-%08d"`, n),
		Aggregate:   fmt.Sprintf(`{"id": "veh-%06d", "type": "vehicle"}`, n%1000),
		Data: fmt.Sprintf(`{"notes": "replace brake pads, check tyres%s", "plate": "1-ABC-%03d", "reason": "scheduled service interval reached", "status": "maintenance", "location": {"lat": 50.8503, "lon": 4.3517, "depot": "BRU-01"}, "odometer_km": %d, "requested_by": "ops@example.test", "previous_status": "available"}`,
			strings.Repeat(" x", max(0, bytes-smallBody)/2), n%1000, 10000+n),
	}
}

// body is the envelope that is posted.
func (e event) body() []byte {
	return fmt.Appendf(nil, `{"event_id":"%s","event_type":"%s","occurred_at":"%s","correlation_id":%s,"aggregate":%s,"data":%s}`,
		e.ID, eventType, e.Occurred.Format("2006-01-02T15:04:05.000000+00:00"), e.Correlation, e.Aggregate, e.Data)
}

func (e event) payload() string {
	return fmt.Sprintf(`{"correlation_id": %s, "aggregate": %s, "data": %s}`, e.Correlation, e.Aggregate, e.Data)
}

// fill leaves exactly the events first to first+n-1 in the table, all due, and
// statistics and disk in a state that every run starts from.
func fill(ctx context.Context, db *pgx.Conn, first, n, bytes int) error {
	if _, err := db.Exec(ctx, "truncate outbox_events"); err != nil {
		return err
	}
	return insert(ctx, db, first, n, bytes, "vacuum analyze outbox_events", "checkpoint")
}

func insert(ctx context.Context, db *pgx.Conn, first, n, bytes int, after ...string) error {
	const batch = 5000
	for ; n > 0; n -= batch {
		var ids, payloads []string
		var occurred []time.Time
		for i := range min(n, batch) {
			e := eventOf(first+i, bytes)
			ids, payloads, occurred = append(ids, e.ID), append(payloads, e.payload()), append(occurred, e.Occurred)
		}
		first += batch
		if _, err := db.Exec(ctx, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
			select id::uuid, $2, at, payload::jsonb from unnest($1::text[], $3::timestamptz[], $4::text[]) as e (id, at, payload)`,
			ids, eventType, occurred, payloads); err != nil {
			return err
		}
	}
	return execAll(ctx, db, after...)
}

func execAll(ctx context.Context, db *pgx.Conn, statements ...string) error {
	for _, sql := range statements {
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
