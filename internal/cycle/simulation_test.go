package cycle

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// What is simulated is the cycle itself, on virtual time (testing/synctest), with
// a table in memory (simulation_table_test.go) and an n8n that is a queue
// (simulation_n8n_test.go).

// series is the file that gets the course of the outage, which infra/bench draws:
//
//	go test ./internal/cycle -run TestPacingThroughAnOutage -args -series FILE
var series = flag.String("series", "", "write the course of the simulated outage to this `file`")

const (
	simTimeout     = 10 * time.Second // of a POST
	simLimit       = 100              // POSTs in flight at most
	simSchedule    = time.Minute
	simInvocation  = 2 * time.Minute // function timeout of the template: invocations overlap
	simMaxAttempts = 100             // by default
)

func simSettings() Settings {
	return Settings{
		Enabled: true, HTTPTimeout: simTimeout, Lease: 3 * time.Minute, MaxBodyBytes: 1 << 20,
		Policy:     outbox.Policy{MaxAttempts: simMaxAttempts, BackoffCap: time.Minute},
		ClaimLimit: 500, ReclaimLimit: 500, ClaimBytes: 1 << 25, Concurrency: simLimit, MaxLostLeases: 5,
	}
}

type simToken struct{}

func (simToken) Token(context.Context) (string, error)   { return "token", nil }
func (simToken) Refresh(context.Context) (string, error) { return "token", nil }

// sample is a moment of an outage.
type sample struct {
	Second   int `json:"second"`
	Window   int `json:"window"`   // POSTs that may be in flight, of all invocations that run
	Attempts int `json:"attempts"` // made so far
	Backlog  int `json:"backlog"`  // events not delivered yet
}

// course is how an outage went.
type course struct {
	Samples     []sample `json:"samples"`
	Events      int      `json:"events"`
	OutageEnds  int      `json:"outage_ends"`      // second
	Invocations int      `json:"invocations"`      // during the outage
	Spent       int      `json:"attempts_spent"`   // during the outage
	MostOfEvent int      `json:"most_of_an_event"` // attempts of the unluckiest event
	Failed      int      `json:"failed"`
	Drain       float64  `json:"drain_seconds"`      // from the end of the outage to the last acknowledgement
	Ideal       float64  `json:"drain_ideal"`        // at the rate of n8n
	TimedOut    int      `json:"timed_out"`          // POSTs
	Doubles     int      `json:"executed_once_more"` // by n8n, behind a POST that timed out
}

// outage plays an n8n that is away for half an hour with 10,000 events waiting and
// then answers 20 a second, and an invocation every minute.
func outage(t *testing.T, paced bool) (c course) {
	const (
		events = 10_000
		rate   = 20
		away   = 30 * time.Minute
		most   = 3 * time.Hour // an end to a simulation that does not drain
	)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		table := newSimTable(events)
		n8n := newSimN8n(rate, began.Add(away), nil)
		lambda := &simLambda{paced: paced, table: table, n8n: n8n}
		seconds := func() int { return int(time.Since(began) / time.Second) }
		c = course{Events: events, OutageEnds: int(away / time.Second), Ideal: events / rate}
		for table.left() > 0 && time.Since(began) < most {
			if time.Since(began) < away {
				c.Invocations++
			}
			go lambda.invoke(context.Background())
			for next := time.Now().Add(simSchedule); time.Now().Before(next); time.Sleep(time.Second) {
				if s := (sample{seconds(), lambda.window(), table.attempts(), table.left()}); s.Second < c.OutageEnds {
					c.Spent = s.Attempts
					c.Samples = append(c.Samples, s)
				} else if s.Backlog > 0 || len(c.Samples) == 0 || c.Samples[len(c.Samples)-1].Backlog > 0 {
					c.Samples = append(c.Samples, s)
				}
			}
		}
		time.Sleep(simInvocation) // what still runs ends
		c.Drain = table.lastSuccess().Sub(began.Add(away)).Seconds()
		c.MostOfEvent, c.Failed = table.mostAttempts(), table.failed()
		saw := n8n.saw()
		c.TimedOut, c.Doubles = saw.timedOut, saw.executed-events
	})
	return c
}

func TestPacingThroughAnOutage(t *testing.T) {
	t.Parallel()
	paced, unpaced := outage(t, true), outage(t, false)
	for name, c := range map[string]course{"with pacing": paced, "without": unpaced} {
		t.Logf("%s: %d attempts spent in %d invocations, at most %d of one event, %d failed; drained in %.0f s (ideal %.0f), %d POSTs timed out, %d events executed once more",
			name, c.Spent, c.Invocations, c.MostOfEvent, c.Failed, c.Drain, c.Ideal, c.TimedOut, c.Doubles)
	}
	if most := 4 * paced.Invocations; paced.Spent > most {
		t.Errorf("%d attempts were spent during the outage, more than %d", paced.Spent, most)
	}
	if paced.Failed > 0 {
		t.Errorf("%d events failed", paced.Failed)
	}
	if paced.Drain > 1.1*paced.Ideal {
		t.Errorf("it took %.0f s to drain, %.0f are ideal", paced.Drain, paced.Ideal)
	}
	if paced.TimedOut > 0 || paced.Doubles > 0 {
		t.Errorf("%d POSTs timed out, %d events were executed once more", paced.TimedOut, paced.Doubles)
	}
	if *series == "" {
		return
	}
	text, err := json.Marshal(map[string]course{"paced": paced, "unpaced": unpaced})
	if err == nil {
		err = os.WriteFile(*series, text, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// The cycle against an n8n that queues: not one POST times out, and n8n is kept as
// busy as it can be.
func TestDrainAgainstAnN8nThatQueues(t *testing.T) {
	t.Parallel()
	const long = 3 * time.Minute
	for name, c := range map[string]struct {
		rate   float64
		jitter func() float64 // factor on the time that an event takes
	}{
		"SevenASecond":              {7, nil},
		"TwentyNineASecond":         {29, nil},
		"FiftyASecond":              {50, nil},
		"SevenASecondUnsteady":      {7, unsteady()},
		"TwentyNineASecondUnsteady": {29, unsteady()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waiting := int(1.5 * c.rate * long.Seconds()) // more than can be delivered
				table := newSimTable(waiting)
				n8n := newSimN8n(c.rate, time.Now(), c.jitter)
				lambda := &simLambda{paced: true, table: table, n8n: n8n, lasts: long + simTimeout + 5*time.Second}
				began := time.Now()
				go lambda.invoke(t.Context())
				time.Sleep(long)
				done := float64(waiting - table.left())
				saw := n8n.saw()
				best := saw.best * time.Since(began).Seconds()
				t.Logf("%.1f %% of what is possible, at most %d in flight", 100*done/best, saw.mostInFlight)
				if saw.timedOut > 0 {
					t.Errorf("%d POSTs timed out", saw.timedOut)
				}
				if done < 0.97*best {
					t.Errorf("%.0f events were delivered, %.0f are possible", done, best)
				}
				time.Sleep(time.Minute) // the invocation ends
			})
		})
	}
}

// unsteady gives factors from a half to two, the same ones each time.
func unsteady() func() float64 {
	random := rand.New(rand.NewPCG(1, 2))
	return func() float64 { return 0.5 + 1.5*random.Float64() }
}
