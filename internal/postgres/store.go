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

	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

var (
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
	//go:embed sql/lapsed.sql
	lapsedSQL string
)

var _ cycle.Store = (*Store)(nil)

const (
	ordinary = "(lost_leases < 2 or lost_leases_at <> attempts)"
	suspects = "(lost_leases >= 2 and lost_leases_at = attempts)"

	orderByDue  = "coalesce(next_attempt_at, occurred_at), event_id"
	orderByLost = "lost_leases, coalesce(next_attempt_at, occurred_at), event_id"
)

// Store is the outbox table behind a pool of sessions. It is safe for
// concurrent use. Its errors are of type *DatabaseError: one sentence that says what is
// wrong and what to do.
type Store struct {
	pool      *pgxpool.Pool
	connector *Connector
	table     config.Table
	limits    limits

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
	return &Store{pool: pool, connector: c, table: d.Table, limits: limitsByDefault}, nil
}

// Close closes the sessions.
func (s *Store) Close() { s.pool.Close() }

// Ready opens a session and looks at the table, once in the life of the store.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.look(ctx)
	return err
}

// Take reclaims, claims and tells the backlog in one round trip.
func (s *Store) Take(ctx context.Context, c cycle.Claim) (cycle.Batch, error) {
	for used := (chances{}); ; {
		shape, err := s.look(ctx)
		if err != nil {
			return cycle.Batch{}, err
		}
		batch, err := s.take(ctx, c, shape, ordinaryTake)
		if isData(err) {
			batch, err = s.takeCarefully(ctx, c, shape)
		}
		switch {
		case !used.shape && (isShape(err) || err == nil && batch.Paused && !shape.control):
			// The table is not what it was: look at it and try once more.
			used.shape = true
			s.forget()
		case s.again(err, &used):
		case code(err) == "57014" && c.Limit > 1:
			// Payloads too large for the time that a claim has, or a database too busy
			// for them: one row at a time still goes out.
			c.Limit = 1
		default:
			return batch, s.explain(ctx, err)
		}
	}
}

// mode is how a claim treats payloads.
type mode struct {
	document string   // SQL for the payload as jsonb
	among    []string // event_ids; nil: all
	whom     []string // event_ids of the reclaim; nil: all
	keep     bool     // reclaim leaves payloads alone
	part     bool     // claims, and tells no backlog
}

const (
	readable   = "d.payload_json::jsonb"
	unreadable = "null::jsonb"
)

var ordinaryTake = mode{document: readable}

func (s *Store) take(ctx context.Context, c cycle.Claim, shape *shape, m mode) (batch cycle.Batch, err error) {
	which, order := ordinary, orderByDue
	if c.Suspects {
		which, order = suspects, orderByLost
	}
	if m.among != nil {
		which += " and " + oneOf(m.among)
	}
	names := []string{"{which}", which, "{order}", order, "{document}", m.document}
	if m.whom != nil {
		names = append(names, "{whom}", oneOf(m.whom))
	}
	text := shape.replacer(names...)
	claimed := claimedRows{maxBody: c.MaxBody}
	var facts backlogFacts
	counted := cycle.BacklogCap
	if c.Uncounted {
		counted = 0
	}
	statements := []statement{
		{sql: text.Replace(claimSQL), args: []any{c.Limit, c.Bytes, c.MaxBody, c.Lease.Seconds(), c.Before}, row: claimed.add},
		{sql: text.Replace(backlogSQL), args: []any{counted}, row: facts.add},
	}
	if m.part {
		statements = statements[:1]
	}
	if c.Reclaim.Limit > 0 {
		reclaim := statement{
			sql: text.Replace(reclaimSQL), args: []any{c.Reclaim.Limit, c.Reclaim.MaxLostLeases, m.keep},
			row: func(row [][]byte) error {
				if string(row[0]) == string(outbox.Failed) {
					batch.Reclaimed.Failed++
				} else {
					batch.Reclaimed.Returned++
				}
				return nil
			},
			done: c.Reclaim.Done,
		}
		statements = append([]statement{reclaim}, statements...)
	}
	batch.Sent, err = s.send(ctx, s.limits.claim, statements...)
	if err != nil {
		return batch, err
	}
	batch.Events, batch.CutByBytes = claimed.inOrder(), claimed.cut
	for i := range batch.Events {
		batch.Events[i].Claim.Suspect = c.Suspects
	}
	batch.Backlog, batch.SuspectsDue, batch.Paused = facts.backlog, facts.suspects, facts.paused
	batch.Now, batch.Clock = facts.now, facts.clock
	batch.Drained = len(batch.Events) < c.Limit && !batch.CutByBytes
	return batch, nil
}

func oneOf(ids []string) string { return "event_id = any ('{" + strings.Join(ids, ",") + "}')" }

// takeCarefully claims in smaller parts, after a payload turned out to be one
// that Postgres cannot read: that row is claimed as it is, without a token, and
// the others go their way.
func (s *Store) takeCarefully(ctx context.Context, c cycle.Claim, shape *shape) (cycle.Batch, error) {
	// Reclaim alone first: it may be what met the payload.
	none := mode{document: unreadable, among: []string{}}
	all, err := s.take(ctx, c, shape, none)
	if isData(err) {
		all, err = s.reclaimParts(ctx, c, shape, none)
	}
	if err != nil || all.Paused {
		return all, err
	}
	c.Reclaim = cycle.Reclaim{}
	rows, err := s.exchange(ctx, shape.replacer().Replace(dueSQL), c.Limit)
	if err != nil {
		return all, err
	}
	var ids []string
	for _, row := range rows {
		if suspect := row[4] == "true"; suspect == c.Suspects && len(ids) < c.Limit {
			ids = append(ids, row[0])
		}
	}
	err = s.takeParts(ctx, &all, c, shape, ids)
	if facts, unknown := s.backlog(ctx, shape); unknown == nil {
		all.Backlog, all.SuspectsDue = facts.backlog, facts.suspects
	}
	if len(all.Events) > 0 { // these go out; the rest is due as before
		err = nil
	}
	all.Drained = len(all.Events) < c.Limit && !all.CutByBytes
	return all, err
}

// reclaimParts takes rows back in smaller parts, after one of them turned out to
// be unreadable, or not to be changed at all: a constraint that came later, or a
// trigger, forbids it. Such a one stays as it is, and the others go their way.
func (s *Store) reclaimParts(ctx context.Context, c cycle.Claim, shape *shape, m mode) (cycle.Batch, error) {
	rows, err := s.exchange(ctx, shape.replacer().Replace(lapsedSQL), c.Reclaim.Limit)
	if err != nil {
		return cycle.Batch{}, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row[0]
	}
	var reclaimed cycle.Reclaimed
	reclaim := func(part []string) error {
		m.whom = part
		batch, err := s.take(ctx, c, shape, m)
		reclaimed.Returned += batch.Reclaimed.Returned
		reclaimed.Failed += batch.Reclaimed.Failed
		return err
	}
	bad, _, err := inParts(ids, reclaim)
	if err != nil {
		return cycle.Batch{}, err
	}
	m.keep = true // an unreadable payload is no reason to leave the row
	unchangeable, _, err := inParts(eventIDs(bad), reclaim)
	if err != nil {
		return cycle.Batch{}, err
	}
	c.Reclaim = cycle.Reclaim{}
	all, err := s.take(ctx, c, shape, m)
	all.Reclaimed, all.Unchangeable = reclaimed, unchangeable
	return all, err
}

// takeParts adds to all what can be claimed among ids: as it is where Postgres can
// read it, without a token where it cannot. The error is that of a row that nobody
// can change, if there is one, or what ended the claim.
func (s *Store) takeParts(ctx context.Context, all *cycle.Batch, c cycle.Claim, shape *shape, ids []string) error {
	claim := func(document string) func([]string) error {
		return func(part []string) error {
			return s.takePart(ctx, all, c, shape, mode{document: document, among: part, part: true})
		}
	}
	bad, _, err := inParts(ids, claim(readable))
	if err != nil {
		return err
	}
	unchangeable, last, err := inParts(eventIDs(bad), claim(unreadable))
	all.Unchangeable = append(all.Unchangeable, unchangeable...)
	if err != nil {
		return err
	}
	return last
}

// inParts calls do with ids, part by part. A part with a row that is refused is
// halved and one without is followed by a larger one, so that one bad row costs
// some twenty statements, and a crowd of them one each. It returns the rows that
// were refused alone, with the last refusal, and any other error that ended it.
func inParts(ids []string, do func(part []string) error) (refused []cycle.Unchangeable, last, err error) {
	for size := len(ids); len(ids) > 0; {
		part := ids[:min(size, len(ids))]
		err := do(part)
		switch {
		case err == nil:
			size = 2 * len(part)
		case !isData(err):
			return refused, last, err
		case len(part) > 1:
			size = len(part) / 2
			continue
		default:
			refused, last = append(refused, cycle.Unchangeable{EventID: part[0], Reason: refusal(err)}), err
		}
		ids = ids[len(part):]
	}
	return refused, last, nil
}

func eventIDs(of []cycle.Unchangeable) (ids []string) {
	for _, u := range of {
		ids = append(ids, u.EventID)
	}
	return ids
}

// takePart adds to all what can be claimed in this mode.
func (s *Store) takePart(ctx context.Context, all *cycle.Batch, c cycle.Claim, shape *shape, m mode) error {
	if c.Bytes -= bodyBytes(all.Events); c.Bytes <= 0 {
		all.CutByBytes = true
	}
	if all.CutByBytes || len(m.among) == 0 {
		return nil
	}
	part, err := s.take(ctx, c, shape, m)
	if err != nil {
		return err
	}
	all.Events, all.CutByBytes = append(all.Events, part.Events...), part.CutByBytes
	return nil
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
	if isShape(err) {
		s.forget()
		if shape, err = s.look(ctx); err != nil {
			return nil, err
		}
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
