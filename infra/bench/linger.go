package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	lingerSchedule = time.Minute
	lingerTicks    = 3
	lingerSeconds  = 50                     // fills the schedule, as the template says
	lingerEvery    = 500 * time.Millisecond // between two commits, on average
	// lingerTimeout is the function timeout that the template asks for with a linger.
	lingerTimeout = 2 * time.Minute
)

// lingerPart measures the time from a commit to the acknowledgement, with a
// schedule of a minute, in real time: nothing is scaled.
func lingerPart(ctx context.Context, p *place, o options) error {
	if err := p.sink.reset(20); err != nil {
		return err
	}
	commits := &commits{at: map[string]time.Time{}}
	ticks := lingerTicks
	if o.quick {
		ticks = 1
	}
	settings := []int{0, lingerSeconds}
	ids := make([][]string, len(settings))
	errs := make([]error, len(settings))
	var all sync.WaitGroup
	for i, linger := range settings { // side by side, on a table each
		all.Go(func() { ids[i], errs[i] = p.promptness(ctx, i, linger, ticks, commits) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	seen, err := p.sink.seen()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# From commit to acknowledgement\n\n%s on %s; `cd infra/bench && go run . -linger`.\n", time.Now().UTC().Format("2 January 2006"), p.machine())
	fmt.Fprintf(&b, "A schedule of %v over %d ticks, nothing scaled; commits at random times, one in %v on average; n8n answers in 20 ms. The time from the commit to when the sink answers, in seconds.\n\n", lingerSchedule, ticks, lingerEvery)
	fmt.Fprintln(&b, "| DISPATCH_LINGER_SECONDS | events | median | 95 % | longest |\n|---|---|---|---|---|")
	for i, linger := range settings {
		var waited []float64
		for _, id := range ids[i] {
			answered, ok := seen.When[id]
			if !ok {
				return fmt.Errorf("event %s was not delivered", id)
			}
			waited = append(waited, answered.Sub(commits.of(id)).Seconds())
		}
		s := sorted(waited)
		fmt.Fprintf(&b, "| %d | %d | %.1f | %.1f | %.1f |\n", linger, len(s), median(s), s[len(s)*95/100], s[len(s)-1])
	}
	fmt.Fprintf(&b, "\nWhat lingering costs: %d s of every minute are paid, $%.2f a month with %.0f MB on arm64, against $%.2f.\n",
		lingerSeconds, 43800*(lingerSeconds*memoryGB*dollarsPerGBSecond+dollarsPerRequest), memoryGB*1024, 43800*(0.1*memoryGB*dollarsPerGBSecond+dollarsPerRequest))
	fmt.Print(b.String())
	return save("linger.md", b.String())
}

// commits are the times of commits, by event.
type commits struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (c *commits) note(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[id] = time.Now()
}

func (c *commits) of(id string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[id]
}

// promptness runs a dispatcher on a schedule while events are committed, and
// returns their ids.
func (p *place) promptness(ctx context.Context, number, linger, ticks int, commits *commits) (ids []string, err error) {
	database := fmt.Sprintf("linger_%d", number)
	db, err := p.database(ctx, database)
	if err != nil {
		return nil, err
	}
	defer db.Close(ctx)
	f, err := p.start(p.env(database, 10, "DISPATCH_MAX_CYCLES=0", fmt.Sprintf("DISPATCH_LINGER_SECONDS=%d", linger))...)
	if err != nil {
		return nil, err
	}
	defer f.stop()

	invoked := make(chan error, 1)
	go func() {
		// One more tick at the end takes what is left.
		for next := time.Now(); ticks >= 0; ticks-- {
			time.Sleep(time.Until(next))
			if _, err := f.invoke(`{}`, lingerTimeout); err != nil {
				invoked <- err
				return
			}
			next = next.Add(lingerSchedule)
		}
		invoked <- nil
	}()
	random := rand.New(rand.NewPCG(1, uint64(number)))
	for end := time.Now().Add(time.Duration(ticks) * lingerSchedule); time.Now().Before(end); {
		first := (number+1)<<20 + len(ids)
		if err := insert(ctx, db, first, 1, smallBody); err != nil {
			return nil, err
		}
		id := eventOf(first, smallBody).ID
		commits.note(id)
		ids = append(ids, id)
		time.Sleep(time.Duration(random.ExpFloat64() * float64(lingerEvery)))
	}
	return ids, <-invoked
}
