package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// The limit of SQL: the least that a claim and an outcome have to say, on our
// table with our indexes.
const (
	floorClaim = `
		with due as materialized (
			select event_id from outbox_events
			where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
			  and coalesce(next_attempt_at, occurred_at) <= now()
			order by coalesce(next_attempt_at, occurred_at), event_id
			limit $1 for update skip locked)
		update outbox_events t
		set delivery_status = 'delivering', next_attempt_at = now() + interval '60 seconds',
		    payload_json = t.payload_json || jsonb_build_object('_delivery_claim_token', gen_random_uuid()::text)
		from due where t.event_id = due.event_id
		returning t.event_id::text, t.event_type, t.occurred_at, t.payload_json::text, t.attempts, t.payload_json ->> '_delivery_claim_token'`
	floorOutcome = `
		update outbox_events t
		set delivery_status = 'succeeded', attempts = t.attempts + 1, next_attempt_at = null, last_error = null, last_error_code = null,
		    external_run_id = o.run, payload_json = t.payload_json - '_delivery_claim_token'
		from unnest($1::uuid[], $2::text[], $3::text[], $4::int[]) as o (id, token, run, attempts)
		where t.event_id = o.id and t.delivery_status = 'delivering' and t.attempts = o.attempts
		  and t.payload_json ->> '_delivery_claim_token' = o.token`
	// floorBatch is our claim limit, floorSessions the size of our pool.
	floorBatch    = 500
	floorSessions = 2
)

// floorRole claims and records, and posts nothing.
func floorRole(j job) (func() (done, failed int, err error), error) {
	ctx := context.Background()
	var sessions [floorSessions]*pgx.Conn
	for i := range sessions {
		var err error
		if sessions[i], err = pgx.Connect(ctx, j.Database); err != nil {
			return nil, err
		}
	}
	return func() (int, int, error) {
		var done atomic.Int64
		errs := make(chan error, len(sessions))
		box := time.Now().Add(j.Box)
		var all sync.WaitGroup
		for _, db := range sessions {
			all.Go(func() {
				for time.Now().Before(box) {
					n, err := claimAndRecord(ctx, db)
					if err != nil {
						errs <- err
					}
					if n == 0 {
						return
					}
					done.Add(n)
				}
			})
		}
		all.Wait()
		close(errs)
		return int(done.Load()), 0, <-errs
	}, nil
}

func claimAndRecord(ctx context.Context, db *pgx.Conn) (int64, error) {
	rows, err := db.Query(ctx, floorClaim, floorBatch)
	if err != nil {
		return 0, err
	}
	var ids, tokens, runs []string
	var attempts []int32
	for rows.Next() {
		var id, typ, payload, token string
		var occurred time.Time
		var n int32
		if err := rows.Scan(&id, &typ, &occurred, &payload, &n, &token); err != nil {
			return 0, err
		}
		ids, tokens, runs, attempts = append(ids, id), append(tokens, token), append(runs, "run"), append(attempts, n)
	}
	if rows.Err() != nil || len(ids) == 0 {
		return 0, rows.Err()
	}
	tag, err := db.Exec(ctx, floorOutcome, ids, tokens, runs, attempts)
	return tag.RowsAffected(), err
}
