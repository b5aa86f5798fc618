package postgres

import (
	"context"
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
)

//go:embed sql/status.sql
var statusSQL string

// Status is the state of the table as an operator sees it first. All counts are
// exact but Succeeded and Other of a large table.
type Status struct {
	Table string `json:"table"`
	// Statuses counts rows by delivery_status, those of others included. In a
	// large table the succeeded ones are an estimate, and those of others are
	// counted with them.
	Statuses            map[string]int64 `json:"statuses"`
	Estimated           bool             `json:"estimated"`
	Due                 int64            `json:"due"`      // pending, to be sent now
	Later               int64            `json:"later"`    // pending, waiting for their next attempt
	Suspects            int64            `json:"suspects"` // pending, lost several leases in a row
	Leased              int64            `json:"leased"`   // delivering, somebody works on them
	Expired             int64            `json:"expired"`  // delivering, the lease ran out
	Parked              int64            `json:"parked"`   // delivering without a deadline
	FailedBy            []FailedBy       `json:"failed_by_code"`
	OldestDueAgeSeconds float64          `json:"oldest_due_age_seconds"`
	Paused              bool             `json:"paused"`
}

// FailedBy counts failed events of one code.
type FailedBy struct {
	Code  string `json:"code"`
	Count int64  `json:"count"`
}

// exactBelow is the size in bytes up to which rows are counted one by one. Above
// it a count would read the whole table, and the statistics have to do.
const exactBelow = 256 << 20

// Status counts what is where.
func (s *Store) Status(ctx context.Context) (Status, error) {
	shape, err := s.look(ctx)
	if err != nil {
		return Status{}, err
	}
	st := Status{Table: s.table.String()}
	rows, err := s.exchange(ctx, shape.replacer().Replace(statusSQL))
	if err != nil {
		return st, s.explain(ctx, err)
	}
	counts := map[string]int64{}
	failed := map[string]int64{}
	for _, row := range rows {
		n, _ := strconv.ParseInt(row[1], 10, 64)
		if code, ok := strings.CutPrefix(row[0], "failed:"); ok {
			failed[code] = n
			counts["failed"] += n
			continue
		}
		counts[row[0]] = n
	}
	st.Due, st.Later, st.Suspects = counts["due"], counts["later"], counts["suspects"]
	st.Leased, st.Expired, st.Parked = counts["leased"], counts["expired"], counts["parked"]
	for _, code := range slices.Sorted(maps.Keys(failed)) {
		st.FailedBy = append(st.FailedBy, FailedBy{code, failed[code]})
	}
	slices.SortStableFunc(st.FailedBy, func(a, b FailedBy) int { return int(b.Count - a.Count) })
	st.Statuses = map[string]int64{
		"pending": st.Due + st.Later + st.Suspects, "delivering": st.Leased + st.Expired + st.Parked, "failed": counts["failed"],
	}
	if err := s.done(ctx, shape, &st); err != nil {
		return st, s.explain(ctx, err)
	}
	facts, err := s.backlog(ctx, shape)
	st.OldestDueAgeSeconds, st.Paused = facts.backlog.OldestDueAge.Seconds(), facts.paused && shape.control
	return st, err
}

// done counts the other statuses, or takes what the statistics leave for them.
func (s *Store) done(ctx context.Context, shape *shape, st *Status) error {
	rows, err := s.exchange(ctx, "select pg_relation_size(c.oid)::text, greatest(c.reltuples, 0)::bigint::text from pg_class c where c.oid = to_regclass($1)", s.table.String())
	if err != nil {
		return err
	}
	size, _ := strconv.ParseInt(rows[0][0], 10, 64)
	if st.Estimated = size > exactBelow; st.Estimated {
		total, _ := strconv.ParseInt(rows[0][1], 10, 64)
		for _, n := range st.Statuses {
			total -= n
		}
		st.Statuses["succeeded"] = max(total, 0)
		return nil
	}
	st.Statuses["succeeded"] = 0
	rows, err = s.exchange(ctx, shape.replacer().Replace(`select delivery_status::text, count(*)::text from {table}
		where delivery_status not in ('pending', 'delivering', 'failed') group by delivery_status`))
	for _, row := range rows {
		st.Statuses[row[0]], _ = strconv.ParseInt(row[1], 10, 64)
	}
	return err
}
