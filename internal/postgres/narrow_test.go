package postgres

import (
	"sync"
	"testing"
)

// A role that may have one session, or that finds one left, works with that.
func TestOneSessionLeftIsEnough(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	url := f.role("narrow", "grant select, update on outbox_events to {role}", "grant select on outbox_events_control to {role}", "alter role {role} connection limit 1")
	s := f.open(url)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if _, err := s.Backlog(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
