package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

const (
	// invocationsOfAnHour with a schedule of four a minute.
	invocationsOfAnHour = 240
	// longPost and the lease are as short as they may be, so that what n8n never
	// answers and what dies with a rival comes round within the run.
	longPost  = time.Second
	leaseOfIt = longPost + 2500*time.Millisecond
	// patience is how many quiet invocations may be needed at the end.
	patience = 60
)

// longRun is an hour on one warm instance, without the waiting.
type longRun struct {
	*place
	random  *rand.Rand
	events  int
	samples []sample

	mu       sync.Mutex
	faults   map[string]int
	striking sync.WaitGroup
}

// runLong plays it and prints what it found. It reports whether all of it held.
func runLong(ctx context.Context, out io.Writer, bootstrap string, seed uint64, invocations int) (ok bool, err error) {
	started := time.Now()
	err = within(func(s *scope) error {
		server, err := startPostgres(ctx, s)
		if err != nil {
			return err
		}
		p, err := newPlace(s, server, bootstrap, leaseOfIt,
			"N8N_HTTP_TIMEOUT_SECONDS="+seconds(longPost), "N8N_BACKOFF_CAP_SECONDS=0.1", "N8N_MAX_ATTEMPTS=10000", "DISPATCH_MAX_LOST_LEASES=1000")
		if err != nil {
			return err
		}
		p.n8n.ForgetBodies()
		r := &longRun{place: p, random: rand.New(rand.NewPCG(seed, seed)), faults: map[string]int{}}
		fmt.Fprintf(out, "\nlong run: %d invocations of one instance, frozen between them, seed %d\n", invocations, seed)
		for n := range invocations {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := r.invocation(n); err != nil {
				return fmt.Errorf("invocation %d: %w", n+1, err)
			}
		}
		ok, err = r.end(out)
		return err
	})
	if err != nil {
		return false, err
	}
	flat, err := runInside(ctx, out, seed)
	fmt.Fprintf(out, "in %v\n", time.Since(started).Round(100*time.Millisecond))
	return ok && flat, err
}

// invocation: events come, something goes wrong, the instance works, is looked at
// and frozen.
func (r *longRun) invocation(n int) error {
	more := 1 + r.random.IntN(20)
	if n%24 == 2 { // a burst every now and then; the first belongs to the warm-up
		more = 300
	}
	if err := r.insert(r.events+1, r.events+more); err != nil {
		return err
	}
	r.events += more
	pid := r.function.PID()
	undo := r.disturb()
	r.n8n.ScriptFunc(moods(r.random.Uint64()))
	result := r.function.Invoke(`{"max_cycles":0}`, enough)
	r.striking.Wait()
	if err := undo(); err != nil {
		return err
	}
	for _, err := range r.strikeTroubles {
		return err
	}
	if result.Died || result.TimedOut || pid != 0 && pid != r.function.PID() {
		return fmt.Errorf("the instance died: %+v; faults so far %v; the end of its log:\n%s", result, r.faults, tail(r.function.Output()))
	}
	s, err := take(r.function.PID())
	if err != nil {
		return err
	}
	r.samples = append(r.samples, s)
	r.function.Freeze()
	time.Sleep(time.Duration(20+r.random.IntN(60)) * time.Millisecond)
	if r.random.IntN(20) == 0 {
		r.note("connections died in the freeze")
		r.toPostgres.deaden()
		r.toN8N.deaden()
		time.Sleep(1100 * time.Millisecond) // no freeze is shorter; a session that idled for a second is asked before it is used
	}
	r.function.Thaw()
	return nil
}

func (r *longRun) note(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[fault]++
}

// disturb lets something go wrong in the next invocation, or nothing. undo is
// called behind it.
func (r *longRun) disturb() (undo func() error) {
	undo = func() error { return nil }
	at := 1 + r.random.IntN(10) // of the POSTs; there may be fewer
	strike := func(fault string, f func()) {
		var posts atomic.Int64
		r.n8n.OnPost(func(n8ntest.Post) {
			if posts.Add(1) == int64(at) {
				r.striking.Add(1)
				defer r.striking.Done()
				r.note(fault)
				f()
			}
		})
	}
	r.n8n.OnPost(func(n8ntest.Post) {})
	switch p := r.random.IntN(100); {
	case p < 5:
		strike("sessions terminated", func() {
			r.trouble(r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outbox-dispatcher'`))
		})
	case p < 9:
		strike("reset on the way to Postgres", r.toPostgres.reset)
	case p < 11:
		strike("Postgres restarted", func() { r.trouble(r.postgres.Restart(context.Background())) })
	case p < 12:
		strike("Postgres killed", func() {
			r.trouble(r.postgres.Kill())
			r.trouble(r.postgres.Restart(context.Background()))
		})
	case p < 16:
		strike("n8n down", r.n8n.Down)
		return r.n8nUp
	case p < 20:
		strike("reset on the way to n8n", r.toN8N.reset)
	case p < 25:
		strike("a rival killed", r.rival.Kill)
		done := make(chan lambdatest.Result, 1)
		go func() { done <- r.rival.Invoke(`{"max_cycles":0}`, 10*time.Second) }()
		return func() error {
			r.rival.Kill() // had it no POST at that time
			<-done
			return nil
		}
	}
	return undo
}

// moods of n8n: most POSTs are acknowledged, the others meet everything that it
// and what stands before it have in store.
func moods(seed uint64) func(n8ntest.Post) *n8ntest.Answer {
	moods := []n8ntest.Answer{
		{Status: 500, Body: `{"message":"Error in workflow"}`},
		{Status: 404, Body: `{"code":404,"message":"The requested webhook is not registered."}`},
		{Status: 503, Header: map[string]string{"Retry-After": "1"}},
		{Status: 524, Body: "<html>timeout</html>", Repeat: 10_000},
		{Status: 302, Header: map[string]string{"Location": "http://127.0.0.1:1/"}},
		{Body: `{"ok":false}`},
		{Body: "n8n is starting up. Please wait"},
		{Body: n8ntest.AckWith(`"\u0000"`)},
		{Body: " ", Repeat: 2 << 20},
		{Body: `{"ok":true`},
		{Body: n8ntest.Ack, Drip: 5 * time.Millisecond},
		{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", Close: n8ntest.Reset},
		{Close: n8ntest.FIN}, {Close: n8ntest.Reset}, {Close: n8ntest.Never},
	}
	return func(p n8ntest.Post) *n8ntest.Answer {
		// By the event and its number, so that the order of POSTs changes nothing.
		h := fnv.New64a()
		fmt.Fprint(h, p.EventID, p.Number)
		r := rand.New(rand.NewPCG(seed, h.Sum64()))
		if r.IntN(25) > 0 {
			return nil
		}
		return &moods[r.IntN(len(moods))]
	}
}

// end lets the rest go out in peace, and judges.
func (r *longRun) end(out io.Writer) (ok bool, err error) {
	r.n8n.OnPost(func(n8ntest.Post) {})
	r.n8n.ScriptFunc(nil)
	var fates []fate
	for n := 0; ; n++ {
		report, err := r.invoke(r.function)
		if err != nil {
			return false, err
		}
		if fates, err = r.fates(); err != nil {
			return false, err
		}
		left := 0
		for _, f := range fates {
			if f.Status != "succeeded" {
				left++
			}
		}
		if left == 0 {
			break
		}
		if n == patience {
			return false, errors.New("events are left after many quiet invocations")
		}
		if report.Claimed == 0 {
			time.Sleep(500 * time.Millisecond) // leases of the dead run out by the clock
		}
	}
	v := judge(fates, r.events, r.dropped())
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(r.faults)) {
		faults = append(faults, fmt.Sprintf("%s (%d)", name, r.faults[name]))
	}
	fmt.Fprintf(out, "faults: %s\n", strings.Join(faults, ", "))
	fmt.Fprintf(out, "events %d, lost %d, stuck %d, POSTs beyond the first %d, each of them after a failed attempt, a lost lease or a lost outcome\n", v.events, v.lost, v.stuck, v.duplicates)
	for _, problem := range v.problems {
		fmt.Fprintf(out, "    DOES NOT HOLD: %s\n", problem)
	}
	return printFlat(out, r.samples) && len(v.problems) == 0, nil
}

// dropped is how many outcomes the fence dropped. A rival lives no longer than its
// first batch, and drops none.
func (r *longRun) dropped() (n int) {
	for line := range strings.Lines(r.function.Output()) {
		var report cycle.Report
		if strings.Contains(line, `"lease_lost_failed"`) && json.Unmarshal([]byte(line), &report) == nil {
			n += report.Lost
		}
	}
	return n
}

// tail is the end of a log.
func tail(log string) string { return log[max(0, len(log)-3000):] }
