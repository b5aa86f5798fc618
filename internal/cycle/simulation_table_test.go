package cycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// simTable is the table in memory: the rules of claim, record and release, without
// what a simulation does not meet (leases that run out, payloads, other writers).
type simTable struct {
	mu   sync.Mutex
	rows []simRow
	made int // attempts
	last time.Time
	open int // rows that are neither succeeded nor failed
}

type simRow struct {
	status   outbox.Status
	attempts int
	due      int64 // nanoseconds since 1970
}

var _ Store = (*simTable)(nil)

// newSimTable has n events, all due.
func newSimTable(n int) *simTable {
	t := &simTable{rows: make([]simRow, n), open: n}
	for i := range t.rows {
		t.rows[i] = simRow{status: outbox.Pending, due: time.Now().UnixNano() + int64(i-n)}
	}
	return t
}

func (t *simTable) Ready(context.Context) error { return nil }

func (t *simTable) Take(_ context.Context, c Claim) (Batch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	before := now.UnixNano()
	if c.Before != "" {
		var err error
		if before, err = strconv.ParseInt(c.Before, 10, 64); err != nil {
			return Batch{}, err
		}
	}
	type place struct {
		due int64
		row int
	}
	var due []place
	for i := range t.rows {
		if r := &t.rows[i]; r.due <= before && r.status == outbox.Pending && !c.Suspects {
			due = append(due, place{r.due, i})
		}
	}
	slices.SortFunc(due, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.row, b.row))
	})
	due = due[:min(len(due), c.Limit)]
	b := Batch{Now: strconv.FormatInt(now.UnixNano(), 10), Sent: now, Clock: outbox.Micros(now.UnixMicro()), Drained: len(due) < c.Limit}
	for _, d := range due {
		i := d.row
		t.rows[i].status = outbox.Delivering
		// The model of n8n takes the id for the whole body.
		id := fmt.Sprintf("%036d", i)
		b.Events = append(b.Events, outbox.Event{ID: id, Body: []byte(id), Attempts: t.rows[i].attempts})
	}
	return b, nil
}

func (t *simTable) Record(_ context.Context, group []outbox.Outcome) ([]Fate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range group {
		r := t.row(o.EventID)
		r.status, r.attempts, r.due = o.Status, o.Attempts+1, time.Now().Add(o.Delay).UnixNano()
		t.made++
		if o.Status == outbox.Pending {
			continue
		}
		t.open--
		if o.Status == outbox.Succeeded {
			t.last = time.Now()
		}
	}
	return make([]Fate, len(group)), nil
}

func (t *simTable) Release(_ context.Context, events []outbox.Event) ([]Fate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		t.row(e.ID).status = outbox.Pending
	}
	return make([]Fate, len(events)), nil
}

func (t *simTable) row(id string) *simRow {
	i, _ := strconv.Atoi(id) // it was made from a number
	return &t.rows[i]
}

func (t *simTable) Backlog(context.Context) (Backlog, error) { return Backlog{Due: t.left()}, nil }

func (t *simTable) Due(context.Context, int) ([]DueEvent, Backlog, error) {
	return nil, Backlog{}, nil // no dry run is simulated
}

// left is how many events are not delivered yet.
func (t *simTable) left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

func (t *simTable) attempts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made
}

func (t *simTable) lastSuccess() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

func (t *simTable) mostAttempts() (most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		most = max(most, r.attempts)
	}
	return most
}

func (t *simTable) failed() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		if r.status == outbox.Failed {
			n++
		}
	}
	return n
}
