package postgres

import (
	"context"
	_ "embed"
	"strings"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

var (
	//go:embed sql/operator_choose.sql
	chooseSQL string
	//go:embed sql/operator_expired.sql
	expiredSQL string
	//go:embed sql/operator_replay.sql
	replaySQL string
	//go:embed sql/operator_cancel.sql
	cancelSQL string
	//go:embed sql/operator_takeback.sql
	takeBackSQL string
)

// chooseRows is how many rows a choice looks at: more failed events than that
// are no longer a matter of one command.
const chooseRows = 1_000_000

// Choose returns events that fit, the oldest first.
func (s *Store) Choose(ctx context.Context, statuses []string, f operator.Filter, limit int) (operator.Chosen, error) {
	args := sqlArguments{chooseRows, limit}
	var parts []tablePart
	for _, word := range statuses {
		parts = append(parts, partsOf(word, f, &args)...)
	}
	fit, err := filterSQL(f, &args)
	if err != nil {
		return operator.Chosen{}, err
	}
	var looked []string
	for _, p := range parts {
		looked = append(looked, "(select event_id, event_type, attempts, last_error_code, occurred_at, ("+fit+") as fits from {table} where "+p.where+" limit $1::int)")
	}
	sql := strings.ReplaceAll(chooseSQL, "{looked}", strings.Join(looked, " union all "))
	rows, err := s.askTable(ctx, sql, nil, args...)
	if err != nil {
		return operator.Chosen{}, aggregateError(err)
	}
	var c operator.Chosen
	var r textReader
	for _, row := range rows {
		c.Matched, c.Capped = r.integer(row[5]), row[6] == "true"
		if row[0] == "" {
			continue // none fits
		}
		c.Refs = append(c.Refs, operator.Ref{ID: row[0], Type: row[1], Attempts: r.integer(row[2]), Code: row[3], OccurredAt: r.instant(row[4])})
	}
	return c, r.err
}

// columns of events that are to be changed.
func refColumns(events []operator.Ref) (ids []string, attempts []int32) {
	for _, e := range events {
		ids = append(ids, e.ID)
		attempts = append(attempts, int32(e.Attempts))
	}
	return ids, attempts
}

// Replay makes failed events pending.
func (s *Store) Replay(ctx context.Context, events []operator.Ref, delays []float64) ([]string, error) {
	ids, attempts := refColumns(events)
	rows, err := s.changeRows(ctx, replaySQL, nil, ids, attempts, delays)
	return firstColumn(rows), s.explain(ctx, err)
}

// Cancel makes pending events failed.
func (s *Store) Cancel(ctx context.Context, events []operator.Ref, code, text string) ([]string, error) {
	ids, attempts := refColumns(events)
	rows, err := s.changeRows(ctx, cancelSQL, nil, ids, attempts, code, text)
	return firstColumn(rows), s.explain(ctx, err)
}

// Expired counts leases that ran out.
func (s *Store) Expired(ctx context.Context, limit int) (int, error) {
	rows, err := s.askTable(ctx, expiredSQL, nil, limit)
	if err != nil {
		return 0, err
	}
	var r textReader
	return r.integer(rows[0][0]), r.err
}

// Reclaim gives expired leases back, by the statement of the dispatcher.
func (s *Store) Reclaim(ctx context.Context, limit, maxLost int) (operator.Reclaimed, error) {
	rows, err := s.changeRows(ctx, reclaimSQL, nil, limit, maxLost, false)
	if isData(err) { // a payload that Postgres cannot read is left as it is
		rows, err = s.changeRows(ctx, reclaimSQL, nil, limit, maxLost, true)
	}
	var r operator.Reclaimed
	for _, status := range firstColumn(rows) {
		if status == string(outbox.Failed) {
			r.Failed++
		} else {
			r.Pending++
		}
	}
	return r, s.explain(ctx, err)
}

// TakeBack makes one delivering event pending.
func (s *Store) TakeBack(ctx context.Context, id string, force bool, text string) (bool, error) {
	const stripped = "case when jsonb_typeof(t.payload_json::jsonb) = 'object' then (t.payload_json::jsonb - '" + outbox.TokenKey + "')::{json} else t.payload_json end"
	rows, err := s.changeRows(ctx, strings.ReplaceAll(takeBackSQL, "{stripped}", stripped), nil, id, force, text)
	if isData(err) {
		rows, err = s.changeRows(ctx, takeBackSQL, []string{"{stripped}", "t.payload_json"}, id, force, text)
	}
	return len(rows) > 0, s.explain(ctx, err)
}
