package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/cycle"
)

// lockEvery is how often it is looked who waits for a lock.
const lockEvery = 20 * time.Millisecond

// crew is some dispatchers at once on one table.
type crew struct {
	cell       cell
	workers    int
	done       int
	seconds    float64
	duplicates int
	locks      locks
}

// locks is what was seen in pg_stat_activity.
type locks struct {
	looks int
	waits int            // looks at which a session waited for a lock
	most  int            // sessions that waited at once
	kinds map[string]int // of the locks: sessions that waited, over all looks
	err   error
}

// manyPart lets 1, 2, 4 and 8 dispatchers drain one table.
func manyPart(ctx context.Context, p *place, o options) error {
	cells := []cell{{200, 10}, {20, 10}, {0, 50}}
	if o.quick {
		cells = cells[:2]
	}
	var all []crew
	for _, c := range cells {
		for _, workers := range []int{1, 2, 4, 8} {
			crew, err := p.crew(ctx, c, workers)
			if err != nil {
				return err
			}
			fmt.Printf("%v, %d at once: %.0f/s\n", c, workers, float64(crew.done)/crew.seconds)
			all = append(all, crew)
		}
	}
	return writeMany(p, all)
}

// crew has so many bootstraps drain one table at once.
func (p *place) crew(ctx context.Context, c cell, workers int) (w crew, err error) {
	w = crew{cell: c, workers: workers}
	db, err := p.database(ctx, "many")
	if err != nil {
		return w, err
	}
	defer db.Close(ctx)
	if err := p.sink.reset(c.ms); err != nil {
		return w, err
	}
	functions := make([]*function, workers)
	for i := range functions {
		if functions[i], err = p.start(p.env("many", c.inFlight)...); err != nil {
			return w, err
		}
		defer functions[i].stop()
		// Each learns the pace alone.
		if err := fill(ctx, db, 0, 5*c.inFlight, smallBody); err != nil {
			return w, err
		}
		if _, err := functions[i].invoke(`{"max_cycles":0}`, drainTime); err != nil {
			return w, err
		}
	}
	events := eventsAtZero
	if c.ms > 0 {
		events = min(eventsAtZero, c.events(false)*workers)
	}
	if err := fill(ctx, db, 0, events, smallBody); err != nil {
		return w, err
	}
	if err := p.sink.reset(c.ms); err != nil {
		return w, err
	}
	watch, err := p.watchLocks(ctx, "many")
	if err != nil {
		return w, err
	}
	reports, errs := make([]cycle.Report, workers), make([]error, workers)
	began := time.Now()
	var all sync.WaitGroup
	for i, f := range functions {
		// A batch is the same part of the table for all, or the first would take
		// what there is.
		limit := min(500, max(20, events/workers/4))
		all.Go(func() {
			reports[i], errs[i] = f.invoke(fmt.Sprintf(`{"max_cycles":0,"claim_limit":%d}`, limit), drainTime)
		})
	}
	all.Wait()
	w.seconds = time.Since(began).Seconds()
	if w.locks = watch(); w.locks.err != nil {
		return w, w.locks.err
	}
	for i, r := range reports {
		if errs[i] != nil {
			return w, errs[i]
		}
		w.done += r.Succeeded
	}
	seen, err := p.sink.seen()
	if err != nil {
		return w, err
	}
	w.duplicates = seen.duplicates()
	if w.done != events {
		return w, fmt.Errorf("%d of %d events were delivered", w.done, events)
	}
	return w, nil
}

// watchLocks looks for sessions of a database that wait for a lock, until the
// returned function is called.
func (p *place) watchLocks(ctx context.Context, database string) (stop func() locks, err error) {
	db, err := p.connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	seen := locks{kinds: map[string]int{}}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lockEvery)
		defer tick.Stop()
		for seen.err == nil {
			select {
			case <-end:
				return
			case <-tick.C:
				seen.look(ctx, db, database)
			}
		}
	}()
	return func() locks {
		close(end)
		<-ended
		_ = db.Close(ctx) // nothing hangs on it any more
		return seen
	}, nil
}

func (l *locks) look(ctx context.Context, db *pgx.Conn, database string) {
	var kinds []string
	l.err = db.QueryRow(ctx, `select coalesce(array_agg(wait_event), '{}') from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'`, database).Scan(&kinds)
	l.looks++
	l.most = max(l.most, len(kinds))
	if len(kinds) > 0 {
		l.waits++
	}
	for _, k := range kinds {
		l.kinds[k]++
	}
}

// String tells of the locks in a cell of a table.
func (l locks) String() string {
	if l.waits == 0 {
		return fmt.Sprintf("0 of %d", l.looks)
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(l.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, l.kinds[k]))
	}
	return fmt.Sprintf("%d of %d, at most %d sessions (%s)", l.waits, l.looks, l.most, strings.Join(kinds, ", "))
}

func writeMany(p *place, all []crew) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Several dispatchers on one table\n\n%s on %s; `cd infra/bench && go run . -many`.\n", time.Now().UTC().Format("2 January 2006"), p.machine())
	fmt.Fprintf(&b, "So many warm bootstraps are invoked at once with `max_cycles: 0`. Duplicates are counted by the sink; pg_stat_activity is looked at every %v for sessions that wait for a lock.\n\n", lockEvery)
	fmt.Fprintln(&b, "| n8n answers in | in flight, each | dispatchers | events | events/s | to one | duplicates | looks with a lock wait |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|")
	one := 0.0
	for _, w := range all {
		rate := float64(w.done) / w.seconds
		if w.workers == 1 {
			one = rate
		}
		fmt.Fprintf(&b, "| %d ms | %d | %d | %d | %.0f | %.2f | %d | %s |\n", w.cell.ms, w.cell.inFlight, w.workers, w.done, rate, rate/one, w.duplicates, w.locks)
	}
	fmt.Fprintln(&b, "\nAt 0 ms the two cores are busy with one dispatcher, its Postgres and its sink: more of them share what there is. extend is the lock under which a table's file grows by a page; transactionid or tuple would be a wait for a row.")
	fmt.Print(b.String())
	return save("many.md", b.String())
}
