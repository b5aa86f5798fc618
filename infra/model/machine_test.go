package model

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// machine is one check: a table that starts empty, its model, and what the
// workers have in their hands.
type machine struct {
	*world
	t      *rapid.T
	events []*event
	before []row // as the last look found them, one for each of events
	now    int64 // the database's clock at the last look
	seq    int64 // tells moments and texts from one another
	paused bool
	hands  map[*worker][]*claim // in order
	done   map[*worker][]*claim // whose fate is known
	tokens map[string]bool      // that were ever given

	mayChange map[*event]string // final rows and rows of strangers that this step may touch, and why
	again     int               // each POST reaches n8n so many times more than the worker knows
	looked    bool              // at the table, behind this step
	only      string            // names of the steps to take; empty: all
	unlocked  bool              // nobody locks a row
	broken    string            // the first thing that did not hold
}

// newMachine empties the table.
func newMachine(t *rapid.T, w *world) *machine {
	m := &machine{world: w, t: t, hands: map[*worker][]*claim{}, done: map[*worker][]*claim{}, tokens: map[string]bool{}}
	m.exec(`delete from outbox_events`)
	m.exec(`delete from outbox_events_control`)
	t.Cleanup(func() { _, _ = w.db.locks.Exec(context.Background(), `rollback`) }) // a check may end with a row locked
	m.look()
	return m
}

// walk takes random steps.
func (m *machine) walk() {
	steps := map[string]func(*rapid.T){}
	for _, s := range []struct {
		name   string
		weight int // what the workers do most, so that they meet each other
		step   func()
	}{
		{"insert", 1, m.insert}, {"claim", 4, m.claim}, {"deliver", 4, m.deliver}, {"record", 3, m.record}, {"record again", 1, m.recordAgain},
		{"release", 2, m.release}, {"crash", 1, m.crash}, {"lease runs out", 4, m.leaseRunsOut}, {"delay passes", 2, m.delayPasses},
		{"replay", 1, m.replay}, {"producer edits", 1, m.edit}, {"stranger marks", 1, m.mark}, {"stranger gives back", 1, m.giveBack},
		{"park", 1, m.park}, {"unpark", 2, m.unpark}, {"lock", 1, m.lock}, {"unlock", 3, m.unlock}, {"pause", 1, m.pause},
	} {
		if m.only != "" && !strings.Contains(m.only, s.name) {
			continue
		}
		for n := range s.weight {
			steps[fmt.Sprintf("%s (%d)", s.name, n)] = m.step(s.step)
		}
	}
	whole := m.t
	m.t.Repeat(steps)
	m.t = whole
}

// step makes an action of rapid of a step: it is taken, and the table is looked at.
func (m *machine) step(step func()) func(*rapid.T) {
	return func(t *rapid.T) {
		m.t, m.mayChange, m.looked = t, map[*event]string{}, false
		if step(); !m.looked {
			m.look()
		}
	}
}

// fail ends the check: rule does not hold.
func (m *machine) fail(rule, format string, args ...any) {
	m.t.Helper()
	m.broken = rule + ": " + fmt.Sprintf(format, args...)
	m.t.Fatalf("%s", m.broken)
}

func (m *machine) exec(sql string, args ...any) {
	m.t.Helper()
	if _, err := m.db.conn.Exec(context.Background(), sql, args...); err != nil {
		m.t.Fatalf("%s: %v", sql, err)
	}
}

// change runs an update of one row by somebody who is no dispatcher.
func (m *machine) change(e *event, set string, args ...any) {
	m.t.Helper()
	m.exec(`update outbox_events set `+set+` where event_id = $1`, append([]any{e.id}, args...)...)
}

// past is a moment that has passed, another one each time.
func (m *machine) past() instant {
	m.seq++
	return at(time.Date(2020, 1, 1, 0, 0, int(m.seq), 0, time.UTC).UnixMicro())
}

// one draws one of the events that fit, and skips the step if none does.
func (m *machine) one(fits func(*event) bool) *event {
	var some []*event
	for _, e := range m.events {
		if !e.locked && fits(e) {
			some = append(some, e)
		}
	}
	if len(some) == 0 {
		m.t.Skip("no such event")
	}
	return rapid.SampledFrom(some).Draw(m.t, "event")
}

func (e *event) String() string { return fmt.Sprintf("#%d", e.n) }

func (c *claim) String() string {
	return fmt.Sprintf("claim of %v at attempts %d", c.event, c.given.Attempts)
}

func (w *worker) String() string {
	if w.off == 0 {
		return "the worker whose clock is right"
	}
	return fmt.Sprintf("the worker whose clock is off by %v", w.off)
}

// TestModel is the proof: no random walk breaks a rule.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"jsonb", "json"} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, payload, nil)
			rapid.Check(t, func(rt *rapid.T) {
				m := newMachine(rt, w)
				m.walk()
				m.finish()
			})
		})
	}
}
