package cycle

import (
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

const (
	ok       = outbox.Healthy
	own      = outbox.EventFault
	endpoint = outbox.EndpointFault
)

// drive starts as many POSTs as the pacer allows and answers them all at once,
// round by round. It returns how many each round had.
type drive struct {
	p   *Pacer
	now time.Time
}

func newDrive(limit int) *drive {
	d := &drive{p: NewPacer(), now: time.Unix(1000, 0)}
	d.p.begin(limit, 10*time.Second)
	return d
}

// round answers everything that may start with s after took.
func (d *drive) round(s outbox.Signal, took time.Duration) (n int) {
	for {
		if turn, _ := d.p.take(d.now); turn != start {
			break
		}
		n++
	}
	for range n {
		d.p.done(s, d.now, took, 0)
	}
	d.now = d.now.Add(took)
	return n
}

func (d *drive) rounds(s outbox.Signal, took time.Duration, n int) (sizes []int) {
	for range n {
		sizes = append(sizes, d.round(s, took))
	}
	return sizes
}

func same(t *testing.T, got, want []int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("rounds %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("rounds %v, want %v", got, want)
		}
	}
}

func TestPacer(t *testing.T) {
	const fast, slow = 20 * time.Millisecond, 3 * time.Second // of 10 s, a quarter is 2.5 s

	t.Run("FirstPostGoesAloneAndTheWindowDoubles", func(t *testing.T) {
		same(t, newDrive(50).rounds(ok, fast, 8), []int{1, 2, 4, 8, 16, 32, 50, 50})
	})
	t.Run("NeverLeavesTheLimit", func(t *testing.T) {
		same(t, newDrive(1).rounds(ok, fast, 3), []int{1, 1, 1})
	})
	t.Run("ThreeFaultsInARowAreTheEnd", func(t *testing.T) {
		same(t, newDrive(50).rounds(endpoint, fast, 5), []int{1, 1, 1, 0, 0})
	})
	t.Run("AnEventsOwnFaultClosesNothingAndBreaksTheRow", func(t *testing.T) {
		d := newDrive(50)
		d.rounds(endpoint, fast, 2)
		d.round(own, fast)
		same(t, d.rounds(endpoint, fast, 4), []int{1, 1, 1, 0})
	})
	t.Run("AWindowThatDiesInFlightEndsWithIt", func(t *testing.T) {
		d := newDrive(50)
		d.rounds(ok, fast, 4)
		same(t, d.rounds(endpoint, fast, 3), []int{16, 0, 0})
	})
	t.Run("AFaultHalvesTheWindowOnceARound", func(t *testing.T) {
		d := newDrive(64)
		d.rounds(ok, fast, 7) // 64
		for range 64 {
			d.p.take(d.now)
		}
		d.p.done(endpoint, d.now, fast, 0)
		d.p.done(endpoint, d.now, fast, 0)
		for range 62 {
			d.p.done(ok, d.now, fast, 0)
		}
		d.now = d.now.Add(fast)
		if n := d.round(ok, fast); n < 32 || n > 34 {
			t.Errorf("after two faults in one round of 64 there were %d in flight", n)
		}
	})
	t.Run("SlowAnswersShrinkTheWindowAndItComesBackSlowly", func(t *testing.T) {
		d := newDrive(100)
		d.rounds(ok, fast, 6) // 32
		d.round(ok, slow)     // 64 that were slow
		after := d.rounds(ok, fast, 3)
		if after[0] < 40 || after[0] > 46 || after[2] > after[0]+3 {
			t.Errorf("after a slow round of 64 the rounds were %v", after)
		}
	})
	t.Run("RemembersTheWindowForTheNextInvocation", func(t *testing.T) {
		d := newDrive(50)
		d.rounds(ok, fast, 6)
		d.p.end()
		d.p.begin(50, 10*time.Second)
		same(t, d.rounds(ok, fast, 3), []int{1, 50, 50})
	})
	t.Run("RemembersAnEndpointThatWasDown", func(t *testing.T) {
		d := newDrive(50)
		d.rounds(ok, fast, 6)
		for range 3 {
			d.round(endpoint, fast)
		}
		d.p.end()
		d.p.begin(50, 10*time.Second)
		if n := d.rounds(ok, fast, 3); n[1] > 26 {
			t.Errorf("after an outage the rounds were %v", n)
		}
	})
	t.Run("AnIdleInvocationForgetsNothing", func(t *testing.T) {
		d := newDrive(50)
		d.rounds(ok, fast, 7)
		d.p.end()
		d.p.begin(50, 10*time.Second)
		d.p.end()
		d.p.begin(50, 10*time.Second)
		same(t, d.rounds(ok, fast, 2), []int{1, 50})
	})
	t.Run("HoldsForARetryAfter", func(t *testing.T) {
		d := newDrive(50)
		d.p.take(d.now)
		d.p.done(endpoint, d.now, fast, 5*time.Second)
		if turn, wait := d.p.take(d.now.Add(time.Second)); turn != later || wait != 4*time.Second+fast {
			t.Errorf("turn %v, wait %v", turn, wait)
		}
		if turn, _ := d.p.take(d.now.Add(6 * time.Second)); turn != start {
			t.Errorf("after the wait: turn %v", turn)
		}
	})
	t.Run("AWindowThatIsNotUsedDoesNotGrow", func(t *testing.T) {
		d := newDrive(50)
		for range 40 { // one at a time
			d.p.take(d.now)
			d.p.done(ok, d.now, fast, 0)
		}
		if d.p.window > 3 {
			t.Errorf("the window grew to %v with one in flight", d.p.window)
		}
	})
}

// n8nModel answers so many events a second, however many are in flight.
func TestPacerAgainstAnN8nThatQueues(t *testing.T) {
	for _, rate := range []float64{2, 7, 29} {
		p := NewPacer()
		const timeout, limit = 10 * time.Second, 100
		now := time.Unix(0, 0)
		p.begin(limit, timeout)
		type post struct{ started, ends time.Time }
		var queue []post
		free := now // when n8n has worked off what it has
		timedOut, done := 0, 0
		for now.Before(time.Unix(300, 0)) {
			for {
				if turn, _ := p.take(now); turn != start {
					break
				}
				if free.Before(now) {
					free = now
				}
				free = free.Add(time.Duration(float64(time.Second) / rate))
				queue = append(queue, post{now, free})
			}
			next := queue[0]
			queue = queue[1:]
			now = next.ends
			took := next.ends.Sub(next.started)
			if took > timeout {
				timedOut++
			}
			done++
			p.done(outbox.Healthy, next.started, took, 0)
		}
		if timedOut > 0 {
			t.Errorf("%v answers/s: %d POSTs timed out", rate, timedOut)
		}
		if got := float64(done) / 300; got < rate*0.97 {
			t.Errorf("%v answers/s: only %.2f/s were got", rate, got)
		}
	}
}
