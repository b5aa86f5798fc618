package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"outbox-dispatcher/internal/operator"
)

var (
	//go:embed sql/operator_prune_start.sql
	pruneStartSQL string
	//go:embed sql/operator_prune.sql
	pruneSQL string
	//go:embed sql/operator_prune_keys.sql
	pruneKeysSQL string
)

const (
	// pruneBlocks is how much of the table one step reads at most: 8 MB, some
	// ten milliseconds from memory and a tenth of a second from a disk.
	pruneBlocks = 1024
	// tidRanges is the first version of Postgres that reads a range of ctid.
	tidRanges = 140_000
)

// PruneStart begins a walk: in the order of the disk, or in that of the primary
// key where the server is too old for that.
func (s *Store) PruneStart(ctx context.Context, days int) (operator.Walk, error) {
	rows, err := s.askTable(ctx, pruneStartSQL, nil, days, s.table.String())
	if err != nil {
		return operator.Walk{}, err
	}
	if len(rows) == 0 { // dropped since the look
		return operator.Walk{}, &DatabaseError{Text: fmt.Sprintf("the table %s is not there", s.table)}
	}
	var r textReader
	w := operator.Walk{Before: r.instant(rows[0][0])}
	if version := r.integer(rows[0][1]); version >= tidRanges && rows[0][3] == "true" {
		w.End = rows[0][2]
		w.Position = ctidOf(0)
		w.Done = w.End == "0"
	}
	return w, r.err
}

// PruneStep takes the next step.
func (s *Store) PruneStep(ctx context.Context, w operator.Walk, limit int, failed, dry bool) (operator.Walk, int, error) {
	step := s.pruneRange
	if w.End == "" {
		step = s.pruneKeys
	}
	if w.Most > 0 {
		limit = min(limit, w.Most)
	}
	for {
		next, n, err := step(ctx, w, limit, failed, dry)
		// Payloads of many megabytes take their time to delete: fewer at once, and
		// then slowly more again.
		if code(err) == "57014" && ctx.Err() == nil && limit > 1 {
			limit = max(limit/10, 1)
			w.Most = limit
			continue
		}
		next.Most = 2 * w.Most
		return next, n, s.explain(ctx, err)
	}
}

// pruneRange deletes among some blocks. A position is a ctid: everything up to it
// lies behind.
func (s *Store) pruneRange(ctx context.Context, w operator.Walk, limit int, failed, dry bool) (operator.Walk, int, error) {
	var r textReader
	block, offset := splitCtid(w.Position, &r)
	end := r.integer(w.End)
	to := min(block+pruneBlocks, end)
	names := []string{"{lock}", "for update skip locked", "{gone}", "delete from " + s.table.String() + " where ctid = any (array(select place from old)) returning 1"}
	if dry {
		names = []string{"{lock}", "", "{gone}", "select 1 from old"}
	}
	rows, err := s.changeRows(ctx, pruneSQL, names, fmt.Sprintf("(%d,%d)", block, offset), ctidOf(to), limit, w.Before.String(), failed)
	if err != nil {
		return w, 0, err
	}
	if w.Position = ctidOf(to); r.integer(rows[0][1]) == limit {
		w.Position = rows[0][2] // there may be more among these blocks
	}
	block, _ = splitCtid(w.Position, &r)
	w.Part, w.Done = float64(block)/float64(end), block >= end
	return w, r.integer(rows[0][0]), r.err
}

// ctidOf is the ctid before the first row of a block: rows count from 1.
func ctidOf(block int) string { return fmt.Sprintf("(%d,0)", block) }

func splitCtid(ctid string, r *textReader) (block, offset int) {
	if _, err := fmt.Sscanf(ctid, "(%d,%d)", &block, &offset); err != nil && r.err == nil {
		r.err = &DatabaseError{Text: "a ctid from the database cannot be read"}
	}
	return block, offset
}

// pruneKeys deletes among the next limit rows by event_id. A position is the last
// one looked at.
func (s *Store) pruneKeys(ctx context.Context, w operator.Walk, limit int, failed, dry bool) (operator.Walk, int, error) {
	names := []string{"{lock}", "for update of t skip locked", "{gone}", "delete from " + s.table.String() + " t using old o where t.event_id = o.event_id returning 1"}
	if dry {
		names = []string{"{lock}", "", "{gone}", "select 1 from old"}
	}
	after := "$1::text::uuid"
	from := w.Position
	if from == "" {
		from = "00000000-0000-0000-0000-000000000000"
		after = "event_id >= " + after
	} else {
		after = "event_id > " + after
	}
	rows, err := s.changeRows(ctx, pruneKeysSQL, append(names, "{after}", after), from, limit, w.Before.String(), failed)
	if err != nil {
		return w, 0, err
	}
	var r textReader
	if w.Done = r.integer(rows[0][1]) < limit; !w.Done {
		w.Position = rows[0][2]
		// Ids are random: the first four digits tell how far that is.
		first, _ := strconv.ParseUint(w.Position[:4], 16, 32)
		w.Part = float64(first) / 0x10000
	} else {
		w.Part = 1
	}
	return w, r.integer(rows[0][0]), r.err
}
