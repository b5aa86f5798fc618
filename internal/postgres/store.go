// Package postgres keeps the rows. It carries out what the domain decides and
// decides nothing itself.
//
// Each step is one statement in sql/, with a header that a DBA can read. Each is
// sent together with the settings that bound it, as one transaction and one
// round trip. Everything travels as text, so that every protocol mode of pgx and
// every pooler in between gives the same result.
package postgres

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

var (
	//go:embed sql/settings.sql
	settingsSQL string
	//go:embed sql/reclaim.sql
	reclaimSQL string
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/record.sql
	recordSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/fate.sql
	fateSQL string
	//go:embed sql/backlog.sql
	backlogSQL string
	//go:embed sql/due.sql
	dueSQL string
)

var _ cycle.Store = (*Store)(nil)

const (
	// claimTimeout bounds a claim and a reclaim. They take milliseconds; ten
	// seconds are for payloads of many megabytes and a database that is busy.
	claimTimeout = 10 * time.Second
	// recordTimeout bounds one try to write outcomes. It is tried again.
	recordTimeout = 5 * time.Second
	// lockTimeout bounds the wait for a lock on the whole table.
	lockTimeout = 2 * time.Second
	// answerMargin is how much longer the client waits than the server may take,
	// so that it is the server who gives up, and the answer says so.
	answerMargin = 2 * time.Second
)

const (
	ordinary = "(lost_leases < 2 or lost_leases_at <> attempts)"
	suspects = "(lost_leases >= 2 and lost_leases_at = attempts)"

	orderByDue  = "coalesce(next_attempt_at, occurred_at), event_id"
	orderByLost = "lost_leases, coalesce(next_attempt_at, occurred_at), event_id"
)

// Store is the outbox table behind a pool of sessions. It is safe for
// concurrent use. Its errors are of type *Error: one sentence that says what is
// wrong and what to do.
type Store struct {
	pool      *pgxpool.Pool
	connector *Connector
	table     config.Table

	mu    sync.Mutex
	shape *shape // of the table; nil until it was looked at
}

// Open returns the store for the settings. Nothing is sent before it is used. An
// error is a *config.SettingsError.
func Open(d config.Database, c *Connector) (*Store, error) {
	pool, err := c.Pool(d)
	if err != nil {
		return nil, err
	}
	return &Store{pool: pool, connector: c, table: d.Table}, nil
}

// Close closes the sessions.
func (s *Store) Close() { s.pool.Close() }

// again reports whether a call that met err is worth a second try: the session
// was dead, or the login may have been rotated.
func (s *Store) again(err error) bool {
	refused := code(err) == "28P01" || code(err) == "28000"
	if !isSession(err) && !(refused && s.connector.renew()) {
		return false
	}
	s.pool.Reset()
	return true
}

// Ready opens a session and looks at the table, once in the life of the store.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.look(ctx)
	return err
}

// Take reclaims, claims and tells the backlog in one round trip.
func (s *Store) Take(ctx context.Context, c cycle.Claim) (cycle.Batch, error) {
	for first := true; ; first = false {
		shape, err := s.look(ctx)
		if err != nil {
			return cycle.Batch{}, err
		}
		batch, err := s.take(ctx, c, shape, ordinaryTake)
		switch {
		case isData(err):
			batch, err = s.takeCarefully(ctx, c, shape)
		case first && isShape(err), first && err == nil && batch.Paused && !shape.control:
			// The table is not what it was: look at it and try once more.
			s.forget()
			continue
		case first && s.again(err):
			continue
		}
		return batch, s.explain(ctx, err)
	}
}

// mode is how a claim treats payloads.
type mode struct {
	which    string // rows
	document string // SQL for the payload as jsonb
	keep     bool   // reclaim leaves payloads alone
}

var ordinaryTake = mode{which: ordinary, document: "d.payload_json::jsonb"}

func (s *Store) take(ctx context.Context, c cycle.Claim, shape *shape, m mode) (batch cycle.Batch, err error) {
	order := orderByDue
	if c.Suspects {
		order = orderByLost
		if m.which == ordinary {
			m.which = suspects
		}
	}
	text := shape.replacer("{which}", m.which, "{order}", order, "{document}", m.document)
	b := bounded(claimTimeout)
	if c.Reclaim.Limit > 0 {
		b.Queue(text.Replace(reclaimSQL), c.Reclaim.Limit, c.Reclaim.MaxLostLeases, m.keep)
	}
	b.Queue(text.Replace(claimSQL), c.Limit, c.Bytes, c.MaxBody, c.Lease.Seconds(), c.Before)
	b.Queue(text.Replace(backlogSQL), cycle.BacklogCap)

	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return batch, err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, claimTimeout+answerMargin)
	defer cancel()
	batch.Sent = time.Now()
	results := conn.SendBatch(ctx, b)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	if _, err := results.Exec(); err != nil {
		return batch, err
	}
	if c.Reclaim.Limit > 0 {
		err := each(results, func(row [][]byte) error {
			if string(row[0]) == string(outbox.Failed) {
				batch.Reclaimed.Failed++
			} else {
				batch.Reclaimed.Returned++
			}
			return nil
		})
		if err != nil {
			return batch, err
		}
		if c.Reclaim.Done != nil {
			c.Reclaim.Done()
		}
	}
	if batch.Events, batch.CutByBytes, err = readEvents(results, c.MaxBody); err != nil {
		return batch, err
	}
	var facts backlogFacts
	if err := facts.read(results); err != nil {
		return batch, err
	}
	batch.Backlog, batch.SuspectsDue, batch.Paused = facts.backlog, facts.suspects, facts.paused
	batch.Now, batch.Clock = facts.now, facts.clock
	batch.Drained = len(batch.Events) < c.Limit && !batch.CutByBytes
	return batch, nil
}

// takeCarefully claims row by row, after a payload turned out to be one that
// Postgres cannot read: that row is claimed as it is, without a token, and the
// others go their way.
func (s *Store) takeCarefully(ctx context.Context, c cycle.Claim, shape *shape) (cycle.Batch, error) {
	// Reclaim alone first: it may be what met the payload.
	all, err := s.take(ctx, c, shape, mode{which: "false", document: "null::jsonb", keep: true})
	if err != nil || all.Paused {
		return all, err
	}
	due, _, err := s.Due(ctx, c.Limit)
	if err != nil {
		return all, err
	}
	c.Reclaim = cycle.Reclaim{}
	limit := c.Limit
	c.Limit = 1
	for _, row := range due {
		if row.Suspect != c.Suspects {
			continue
		}
		which := "event_id = '" + row.EventID + "'"
		one, err := s.take(ctx, c, shape, mode{which: which, document: "d.payload_json::jsonb", keep: true})
		if isData(err) {
			one, err = s.take(ctx, c, shape, mode{which: which, document: "null::jsonb", keep: true})
		}
		if err != nil {
			if len(all.Events) > 0 { // these go out; the rest is due as before
				break
			}
			return all, err
		}
		all.Events = append(all.Events, one.Events...)
		all.Backlog, all.SuspectsDue = one.Backlog, one.SuspectsDue
		if all.CutByBytes = bodyBytes(all.Events) >= c.Bytes; all.CutByBytes || len(all.Events) == limit {
			break
		}
	}
	all.Drained = len(all.Events) < limit && !all.CutByBytes
	return all, nil
}

// Record writes outcomes. A value that the database refuses does no harm to the
// rest of the group.
func (s *Store) Record(ctx context.Context, group []outbox.Outcome) ([]cycle.Fate, error) {
	return s.write(ctx, len(group), func(ctx context.Context, shape *shape, from, to int) ([]cycle.Fate, error) {
		return s.record(ctx, shape, group[from:to])
	})
}

// Release gives events back untried.
func (s *Store) Release(ctx context.Context, events []outbox.Event) ([]cycle.Fate, error) {
	return s.write(ctx, len(events), func(ctx context.Context, shape *shape, from, to int) ([]cycle.Fate, error) {
		return s.release(ctx, shape, events[from:to])
	})
}

// write writes a group at once, or row by row if a value in it is refused.
func (s *Store) write(ctx context.Context, n int, some func(ctx context.Context, shape *shape, from, to int) ([]cycle.Fate, error)) ([]cycle.Fate, error) {
	shape, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	fates, err := some(ctx, shape, 0, n)
	if s.again(err) {
		fates, err = some(ctx, shape, 0, n)
	}
	if !isData(err) {
		return fates, s.explain(ctx, err)
	}
	fates = make([]cycle.Fate, n)
	for i := range fates {
		one, err := some(ctx, shape, i, i+1)
		switch {
		case isData(err):
			fates[i] = cycle.Refused
		case err != nil:
			return nil, s.explain(ctx, err)
		default:
			fates[i] = one[0]
		}
	}
	return fates, nil
}

func (s *Store) record(ctx context.Context, shape *shape, group []outbox.Outcome) ([]cycle.Fate, error) {
	var f fence
	n := len(group)
	status, code, text, run := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	delay := make([]float64, n)
	for i, o := range group {
		f.add(o.EventID, o.Attempts, o.Claim)
		status[i], code[i], text[i], run[i], delay[i] = string(o.Status), string(o.Code), o.Error, o.RunID, o.Delay.Seconds()
	}
	written, err := s.exchange(ctx, shape.replacer().Replace(recordSQL), f.ids, f.attempts, f.tokens, f.deadlines, status, code, text, run, delay)
	if err != nil {
		return nil, err
	}
	return s.fates(ctx, shape, f, written, status, text, run)
}

func (s *Store) release(ctx context.Context, shape *shape, events []outbox.Event) ([]cycle.Fate, error) {
	var f fence
	due := make([]string, len(events))
	for i, e := range events {
		f.add(e.ID, e.Attempts, e.Claim)
		due[i] = e.Claim.Due
	}
	written, err := s.exchange(ctx, shape.replacer().Replace(releaseSQL), f.ids, f.attempts, f.tokens, f.deadlines, due)
	if err != nil {
		return nil, err
	}
	// A row that is pending and not ours any more was given back: nothing of an
	// outcome can be found in it, so that no status is looked for.
	none := make([]string, len(events))
	return s.fates(ctx, shape, f, written, none, none, none)
}

// fence is what a row must still carry to be written, in columns.
type fence struct {
	ids, tokens, deadlines []string
	attempts               []int32
}

func (f *fence) add(id string, attempts int, c outbox.Claim) {
	f.ids = append(f.ids, id)
	f.attempts = append(f.attempts, int32(attempts))
	f.tokens = append(f.tokens, c.Token)
	f.deadlines = append(f.deadlines, c.Deadline)
}

// fates tells what became of each row. Only if some were not written are they
// looked at once more.
func (s *Store) fates(ctx context.Context, shape *shape, f fence, written [][]string, status, text, run []string) ([]cycle.Fate, error) {
	fates := make([]cycle.Fate, len(f.ids))
	if len(written) == len(f.ids) {
		return fates, nil
	}
	done := make(map[string]bool, len(written))
	for _, row := range written {
		done[row[0]] = true
	}
	rows, err := s.exchange(ctx, shape.replacer().Replace(fateSQL), f.ids, f.attempts, f.tokens, f.deadlines, status, text, run)
	if err != nil {
		return nil, err
	}
	looked := make(map[string]cycle.Fate, len(rows))
	for _, row := range rows {
		switch {
		case row[1] == "true":
			looked[row[0]] = cycle.Recorded
		case row[2] == "true":
			looked[row[0]] = cycle.Held
		default:
			looked[row[0]] = cycle.Lost
		}
	}
	for i, id := range f.ids {
		if done[id] {
			continue
		}
		fate, there := looked[id]
		if !there { // the row was deleted
			fate = cycle.Lost
		}
		fates[i] = fate
	}
	return fates, nil
}

// Backlog tells what waits.
func (s *Store) Backlog(ctx context.Context) (cycle.Backlog, error) {
	shape, err := s.look(ctx)
	if err != nil {
		return cycle.Backlog{}, err
	}
	facts, err := s.backlog(ctx, shape)
	return facts.backlog, err
}

func (s *Store) backlog(ctx context.Context, shape *shape) (facts backlogFacts, err error) {
	rows, err := s.exchange(ctx, shape.replacer().Replace(backlogSQL), cycle.BacklogCap)
	if err != nil {
		return facts, s.explain(ctx, err)
	}
	err = facts.parse(rows[0])
	return facts, err
}

// Due shows what a claim would take, suspects last.
func (s *Store) Due(ctx context.Context, limit int) ([]cycle.DueEvent, cycle.Backlog, error) {
	backlog, err := s.Backlog(ctx)
	if err != nil {
		return nil, backlog, err
	}
	shape, err := s.look(ctx)
	if err != nil {
		return nil, backlog, err
	}
	rows, err := s.exchange(ctx, shape.replacer().Replace(dueSQL), limit)
	if err != nil {
		return nil, backlog, s.explain(ctx, err)
	}
	due := make([]cycle.DueEvent, 0, min(len(rows), limit))
	for _, row := range rows[:min(len(rows), limit)] {
		attempts, _ := strconv.Atoi(row[2])
		age, _ := strconv.ParseFloat(row[3], 64)
		due = append(due, cycle.DueEvent{EventID: row[0], EventType: row[1], Attempts: attempts, AgeSeconds: age, Suspect: row[4] == "true"})
	}
	return due, backlog, nil
}

// exchange runs one statement with its bounds, in one round trip.
func (s *Store) exchange(ctx context.Context, sql string, args ...any) (rows [][]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout+answerMargin)
	defer cancel()
	b := bounded(recordTimeout)
	b.Queue(sql, args...)
	results := s.pool.SendBatch(ctx, b)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	err = each(results, func(row [][]byte) error {
		texts := make([]string, len(row))
		for i, v := range row {
			texts[i] = string(v)
		}
		rows = append(rows, texts)
		return nil
	})
	return rows, err
}

// bounded begins a batch with the settings that bound it.
func bounded(statement time.Duration) *pgx.Batch {
	b := &pgx.Batch{}
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	b.Queue(settingsSQL, ms(statement), ms(lockTimeout))
	return b
}

// each calls f with the raw columns of each row of the next result. They are
// valid within f alone; a null is nil.
func each(results pgx.BatchResults, f func(row [][]byte) error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.RawValues()); err != nil {
			return err
		}
	}
	return rows.Err()
}

func bodyBytes(events []outbox.Event) (n int64) {
	for _, e := range events {
		n += int64(len(e.Body))
	}
	return n
}

// replacer puts the names of the table into SQL text, and more pairs.
func (s *shape) replacer(more ...string) *strings.Replacer {
	return strings.NewReplacer(append(more, s.names...)...)
}
