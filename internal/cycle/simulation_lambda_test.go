package cycle

import (
	"context"
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// simLambda invokes the dispatcher as Lambda does: an instance that is idle is used
// again and remembers its pace, one that is busy gets another beside it.
type simLambda struct {
	paced bool
	table *simTable
	n8n   *simN8n
	lasts time.Duration // what an invocation has; 0: simInvocation

	mu      sync.Mutex
	idle    []*Pacer
	running map[*Pacer]bool
}

func (l *simLambda) invoke(ctx context.Context) {
	if l.lasts == 0 {
		l.lasts = simInvocation
	}
	ctx, cancel := context.WithTimeout(ctx, l.lasts)
	defer cancel()
	p := l.instance()
	defer l.done(p)
	if !l.paced {
		l.rush(ctx)
		return
	}
	d := &Dispatcher{Settings: simSettings(), Store: l.table, Webhook: l.n8n, Tokens: simToken{}, Observer: Discard{}, Pacer: p}
	if _, err := d.Run(ctx, Request{}); err != nil {
		panic(err) // the model has no errors
	}
}

func (l *simLambda) instance() *Pacer {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := NewPacer()
	if n := len(l.idle); n > 0 {
		p, l.idle = l.idle[n-1], l.idle[:n-1]
	}
	if l.running == nil {
		l.running = map[*Pacer]bool{}
	}
	l.running[p] = true
	return p
}

func (l *simLambda) done(p *Pacer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, p)
	l.idle = append(l.idle, p)
}

// window is how many POSTs may be in flight now.
func (l *simLambda) window() (sum int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.running {
		if !l.paced {
			sum += simLimit
			continue
		}
		p.mu.Lock()
		sum += int(p.window)
		p.mu.Unlock()
	}
	return sum
}

// rush is an invocation without pacing: as many POSTs in flight as are allowed,
// whatever the answers say, until nothing is due or the time is up.
func (l *simLambda) rush(ctx context.Context) {
	s := simSettings()
	end, _ := ctx.Deadline()
	queue := make(chan *outbox.Event)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(queue)
	for range s.Concurrency {
		all.Go(func() {
			for e := range queue {
				v := outbox.Judge(e.ID, l.n8n.Post(ctx, "", e.Body))
				_, _ = l.table.Record(ctx, []outbox.Outcome{outbox.Decide(e, v, s.Policy)})
			}
		})
	}
	late := time.After(time.Until(end) - simTimeout - PostMargin)
	for c := (Claim{Limit: s.ClaimLimit}); ; {
		b, _ := l.table.Take(ctx, c) // it has no errors
		if c.Before == "" {
			c.Before = b.Now
		}
		for i := range b.Events {
			select {
			case queue <- &b.Events[i]:
			case <-late:
				_, _ = l.table.Release(ctx, b.Events[i:])
				return
			}
		}
		if b.Drained {
			return
		}
	}
}
