package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// bareRole is the limit of HTTP: the same bodies and the same checks, from
// memory, with no database.
func bareRole(j job) (func() (done, failed int, err error), error) {
	ids, bodies := make([]string, j.Events), make([][]byte, j.Events)
	for i := range bodies {
		e := eventOf(i, j.Bytes)
		ids[i], bodies[i] = e.ID, e.body()
	}
	p := newPoster(j.Webhook, j.InFlight)
	return func() (int, int, error) {
		var next, done, failed atomic.Int64
		box := time.Now().Add(j.Box)
		var all sync.WaitGroup
		for range j.InFlight {
			all.Go(func() {
				for time.Now().Before(box) {
					i := int(next.Add(1)) - 1
					if i >= j.Events {
						return
					}
					if _, err := p.post(context.Background(), ids[i], bodies[i]); err != nil {
						failed.Add(1)
					} else {
						done.Add(1)
					}
				}
			})
		}
		all.Wait()
		return int(done.Load()), int(failed.Load()), nil
	}, nil
}
