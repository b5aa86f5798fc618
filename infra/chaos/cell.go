package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

const (
	eventsOfCell = 10
	concurrency  = 4
	// rounds of later invocations, with time passing between: one reclaims what
	// was lost and sends it, a second is for what n8n failed in between.
	rounds = 3
)

// cell of the matrix: one fault at one moment.
type cell struct {
	fault  fault
	moment moment

	events  int               // inserted
	result  lambdatest.Result // of the invocation that was struck
	report  cycle.Report      // its report; empty if it died
	open    map[string]bool   // events that n8n had got behind it, and whose row did not say so
	fates   []fate            // at the end
	verdict verdict
	why     string // the duplicates were allowed

	openAtStrike int // the same as len(open), in the middle of a stall
}

func (c *cell) name() string { return c.fault.name + " / " + c.moment.name }

// run plays the cell on an empty table.
func (c *cell) run(server *throwaway.Server, bootstrap string) {
	err := within(func(s *scope) error { return c.play(s, server, bootstrap) })
	if err != nil {
		c.verdict.problem("%v", err)
	}
	c.verdict.events = c.events
}

func (c *cell) play(s *scope, server *throwaway.Server, bootstrap string) error {
	p, err := newPlace(s, server, bootstrap, cmp.Or(c.fault.lease, longLease), fmt.Sprintf("DISPATCH_CONCURRENCY=%d", concurrency))
	if err != nil {
		return err
	}
	healed := c.fault.heal == nil
	defer func() {
		if !healed { // the next cell has the same Postgres
			_ = c.fault.heal(p)
		}
	}()
	strike := c.strikeAwake
	if c.moment.asleep {
		strike = c.strikeAsleep
	}
	if err := strike(p); err != nil {
		return err
	}
	p.n8n.OnPost(func(n8ntest.Post) {})
	p.n8n.SetLatency(usualLatency)
	if !healed {
		healed = true
		if err := c.fault.heal(p); err != nil {
			return err
		}
	}
	for _, err := range p.strikeTroubles {
		return fmt.Errorf("the fault itself failed: %w", err)
	}
	if err := c.between(p); err != nil {
		return err
	}
	return c.mend(p)
}

// insert inserts further events, up to the nth.
func (c *cell) insert(p *place, n int) error {
	err := p.insert(c.events+1, n)
	if err == nil {
		c.events = n
	}
	return err
}

// strikeAwake has the fault strike at the moment of one invocation.
func (c *cell) strikeAwake(p *place) error {
	if err := c.insert(p, eventsOfCell); err != nil {
		return err
	}
	p.n8n.SetLatency(usualLatency)
	if c.moment.slow {
		p.n8n.SetLatency(slowLatency)
	}
	begun := make(chan struct{})
	struck := c.moment.arm(p, func() bool {
		close(begun)
		return c.fault.strike(p)
	})
	return c.invoke(p, begun, struck)
}

// strikeAsleep has it strike between two invocations of a warm instance.
func (c *cell) strikeAsleep(p *place) error {
	if err := c.insert(p, eventsOfCell/2); err != nil {
		return err
	}
	// A claim for each event goes on beside the outcomes, which makes two sessions.
	if r := p.function.Invoke(`{"max_cycles":0,"claim_limit":1}`, enough); !r.OK {
		return fmt.Errorf("the invocation before the freeze ended with %+v", r)
	}
	p.function.Freeze()
	c.fault.strike(p)
	time.Sleep(freeze)
	p.function.Thaw()
	if err := c.insert(p, eventsOfCell); err != nil && c.fault.heal == nil {
		return err // where Postgres is gone, nothing comes
	}
	done := make(chan struct{})
	close(done)
	err := c.invoke(p, done, done)
	if c.fault.heal == nil && c.result.Took > awake {
		c.verdict.problem("an instance that slept took %v to do its work", c.result.Took)
	}
	return err
}

const (
	// freeze is longer than the second for which the dispatcher takes an idle
	// session for alive.
	freeze = 1100 * time.Millisecond
	// awake: to find out that two sessions are dead takes 4 s.
	awake = 8 * time.Second
)

// invoke does the invocation that is struck.
func (c *cell) invoke(p *place, begun, struck <-chan struct{}) error {
	left := cmp.Or(c.fault.time, enough)
	if c.moment.slow && c.fault.lease == 0 { // a short lease ends the sending as well
		left = shortTime
	}
	began := len(p.function.Output())
	c.result = p.function.Invoke(`{}`, left)
	select {
	case <-begun:
		<-struck // which may last longer than the invocation
	default:
		return fmt.Errorf("the moment never came; the invocation ended with %+v", c.result)
	}
	ended := returns
	switch {
	case c.result.TimedOut:
		ended = timesOut
	case c.result.Died:
		ended = dies
	}
	switch margin := left - c.result.Took; {
	case ended != c.fault.ends:
		c.verdict.problem("the invocation ended with %+v", c.result)
	case ended == returns && margin < 300*time.Millisecond: // half a second is promised
		c.verdict.problem("the invocation returned %v before its deadline", margin)
	}
	if ended == returns {
		return c.readReport(p.function, began)
	}
	return nil
}

// readReport takes the report from the log, from where it began: an invocation that ends with an error
// returns that in its place.
func (c *cell) readReport(f *lambdatest.Function, began int) error {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for line := range strings.Lines(f.Output()[began:]) {
			if strings.Contains(line, `"lease_lost_failed"`) && json.Unmarshal([]byte(line), &c.report) == nil {
				return c.balance()
			}
		}
	}
	return fmt.Errorf("the invocation logged no report; it ended with %+v", c.result)
}

// balance is the sum that every report keeps.
func (c *cell) balance() error {
	r := c.report
	if sum := r.Succeeded + r.Retried + r.Failed + r.Released + r.Lost + r.Unrecorded; sum != r.Claimed {
		return fmt.Errorf("the report accounts for %d of %d claimed: %+v", sum, r.Claimed, r)
	}
	return nil
}

// between looks at the table behind the fault.
func (c *cell) between(p *place) error {
	fates, err := p.fates()
	if err != nil {
		return err
	}
	c.open, c.openAtStrike = open(fates), p.openAtStrike
	for _, f := range fates {
		if !f.Bounded {
			c.verdict.problem("%s is leased without end", f.ID)
		}
		if f.posts > 1 && len(p.rivalsReports) == 0 {
			c.verdict.problem("%s was sent %d times within one invocation", f.ID, f.posts)
		}
	}
	return nil
}

// open returns the events that n8n has got and whose row does not say so: they
// will come once more.
func open(fates []fate) map[string]bool {
	ids := map[string]bool{}
	for _, f := range fates {
		if f.posts > 0 && f.Status != "succeeded" {
			ids[f.ID] = true
		}
	}
	return ids
}

// mend lets later invocations end it, and judges.
func (c *cell) mend(p *place) error {
	reports := append(p.rivalsReports, c.report)
	for range rounds {
		if err := p.timePasses(); err != nil {
			return err
		}
		r, err := p.invoke(p.function)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	var err error
	if c.fates, err = p.fates(); err != nil {
		return err
	}
	found := c.verdict.problems
	c.verdict = judge(c.fates, c.events, lostIn(reports...))
	c.verdict.problems = append(found, c.verdict.problems...)
	for _, f := range c.fates {
		if f.posts > 1 && !c.open[f.ID] && len(p.rivalsReports) == 0 {
			c.verdict.problem("%s was sent %d times, and its row knew of the first", f.ID, f.posts)
		}
	}
	if n := p.overlaps(); n > 0 && len(p.rivalsReports) == 0 {
		c.verdict.problem("%d POSTs went out while another of the same event was", n)
	}
	most, why := c.fault.allowed(c)
	if c.verdict.duplicates > most {
		c.verdict.problem("%d duplicates, %d are allowed", c.verdict.duplicates, most)
	}
	if c.verdict.duplicates > 0 {
		c.why = why
	}
	return nil
}
