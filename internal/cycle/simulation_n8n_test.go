package cycle

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// simAlone is what a real n8n takes for an event when it has nothing else to do.
const simAlone = 159 * time.Millisecond

// simN8n is n8n as a queue: it works on a few events at a time and lets the others
// wait, whoever still waits for them. Before up it refuses connections.
type simN8n struct {
	up     time.Time
	each   time.Duration
	jitter func() float64 // nil: each event takes the same

	mu       sync.Mutex
	free     []time.Time // when each of its workers is free again
	worked   time.Duration
	inFlight int
	simSaw
}

// simSaw is what an n8n saw.
type simSaw struct {
	executed     int     // events, also behind a POST that had timed out
	timedOut     int     // POSTs
	mostInFlight int     // POSTs at once
	best         float64 // how many a second it answers while it has work
}

// newSimN8n answers so many a second.
func newSimN8n(rate float64, up time.Time, jitter func() float64) *simN8n {
	workers := max(1, math.Round(rate*simAlone.Seconds()))
	return &simN8n{
		up: up, jitter: jitter, free: make([]time.Time, int(workers)),
		each: time.Duration(workers / rate * float64(time.Second)),
	}
}

func (n *simN8n) saw() simSaw {
	n.mu.Lock()
	defer n.mu.Unlock()
	saw := n.simSaw
	saw.best = float64(len(n.free)) * float64(n.executed) / n.worked.Seconds()
	return saw
}

// Post waits for its turn, or for its timeout.
func (n *simN8n) Post(_ context.Context, _ string, body []byte) outbox.Answer {
	if time.Now().Before(n.up) {
		return outbox.Answer{Host: "n8n", Fault: "connection refused"}
	}
	wait := n.take()
	time.Sleep(min(wait, simTimeout))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inFlight--
	if wait > simTimeout { // n8n goes on with it all the same
		n.timedOut++
		return outbox.Answer{Host: "n8n", Fault: "timeout: no whole answer within N8N_HTTP_TIMEOUT_SECONDS"}
	}
	return outbox.Answer{Host: "n8n", HTTPStatus: 200, Body: fmt.Appendf(nil, `{"ok":true,"event_id":"%s","result":{"execution_id":"1"}}`, body)}
}

// take queues an event and returns when it will be through.
func (n *simN8n) take() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inFlight++
	n.mostInFlight = max(n.mostInFlight, n.inFlight)
	now := time.Now()
	next := 0
	for i := range n.free {
		if n.free[i].Before(n.free[next]) {
			next = i
		}
	}
	takes := n.each
	if n.jitter != nil {
		takes = time.Duration(float64(takes) * n.jitter())
	}
	n.free[next] = slices.MaxFunc([]time.Time{n.free[next], now}, time.Time.Compare).Add(takes)
	n.worked += takes
	n.executed++
	return n.free[next].Sub(now)
}
