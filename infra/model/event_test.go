package model

import (
	"cmp"
	"slices"
	"time"

	"outbox-dispatcher/internal/outbox"
)

const (
	lease         = 5 * time.Minute // shorter than the clocks are off, longer than a check takes
	maxLostLeases = 3
)

var policy = outbox.Policy{MaxAttempts: 4, BackoffCap: time.Hour}

// event is a row as the model has it, and what happened to it so far.
type event struct {
	n  int
	id string

	status         outbox.Status
	attempts, base int
	lost, lostAt   int
	next           instant
	code           outbox.Code
	text, run      string // text is opaque where reclaim wrote it
	token          string
	payload        string // what its producer wrote last, as Postgres shows it
	object         bool   // the payload can hold a token
	sendable       bool   // the payload has what an envelope needs
	occurred       int64

	owner  *claim // who claimed it last and has neither written nor lost it
	live   *claim // the same, as long as its lease lasts
	parked bool   // delivering without a deadline
	locked bool   // somebody holds the row
	marked bool   // a stranger left his token in a final row

	posts       int // POSTs made
	resends     int // of them, those that a refused token caused
	unsent      int // attempts recorded for which nothing was sent
	recorded    int // outcomes recorded
	others      int // attempts that a stranger counted
	lostLeases  int // leases that ran out or were taken
	lostResults int // outcomes of POSTs that the fence dropped
	acks        map[string]bool
}

// instant is next_attempt_at: null, a moment, or so long after a step.
type instant struct {
	kind  int
	at    int64 // microseconds since 1970; once looked at, of any that is not null
	after time.Duration
}

const (
	null = iota
	moment
	later
)

func at(micros int64) instant           { return instant{kind: moment, at: micros} }
func after(d time.Duration) instant     { return instant{kind: later, after: d} }
func (i instant) passed(now int64) bool { return i.kind != null && i.at <= now }

// claim is an event in the hands of a worker.
type claim struct {
	event   *event
	given   outbox.Event // as the store gave it
	until   int64        // the end of its lease
	due     instant      // next_attempt_at before it
	outcome *outbox.Outcome
	posts   int  // POSTs of it that no row counts yet
	over    bool // its fate is known
	written bool // its outcome is in the row
}

func (e *event) final() bool { return e.status == outbox.Succeeded || e.status == outbox.Failed }

// stranger reports a status that is somebody else's.
func (e *event) stranger() bool {
	return !e.final() && e.status != outbox.Pending && e.status != outbox.Delivering
}

func (e *event) suspect() bool { return e.lost >= outbox.SuspectLeases && e.lostAt == e.attempts }

// due is the time by which the claim goes.
func (e *event) due() int64 {
	if e.next.kind == null {
		return e.occurred
	}
	return e.next.at
}

// ours is the fence: the row still carries this very claim.
func (e *event) ours(c *claim) bool {
	if e.status != outbox.Delivering || e.attempts != c.given.Attempts {
		return false
	}
	if c.given.Claim.Token == "" {
		return e.next.kind != null && c.until == e.next.at
	}
	return e.token == c.given.Claim.Token
}

// holds reports that the row looks as if the outcome was written.
func (e *event) holds(o *outbox.Outcome) bool {
	return e.attempts == o.Attempts+1 && e.status == o.Status && e.text == o.Error && (o.Status != outbox.Succeeded || e.run == o.RunID)
}

// reclaim is what the contract says of a lease that ran out.
func (e *event) reclaim() {
	if e.lostAt == e.attempts {
		e.lost++
	} else {
		e.lost, e.lostAt = 1, e.attempts
	}
	e.status, e.code, e.text, e.next = outbox.Pending, outbox.StaleLeaseRecovered, opaque, instant{}
	e.loseLease()
	if e.lost >= maxLostLeases {
		e.status, e.code, e.token = outbox.Failed, outbox.LeaseLostRepeatedly, ""
	}
}

// loseLease counts a lease that ran out or was taken.
func (e *event) loseLease() {
	e.lostLeases++
	e.owner, e.live = nil, nil
}

// opaque is a text that the model does not foresee.
const opaque = "\x00"

// record is what the contract says of an outcome.
func (e *event) record(c *claim) {
	o := c.outcome
	e.status, e.attempts, e.code, e.text, e.next = o.Status, e.attempts+1, o.Code, o.Error, instant{}
	e.owner, e.live = nil, nil
	switch o.Status {
	case outbox.Succeeded:
		e.run = o.RunID
	case outbox.Pending:
		e.next = after(o.Delay)
	}
	if c.given.Claim.Token != "" {
		e.token = ""
	}
	e.recorded++
	if c.posts == 0 {
		e.unsent++
	}
}

// release is what the contract says of a claim that is given back untried.
func (e *event) release(c *claim) {
	e.status, e.next, e.owner, e.live = outbox.Pending, c.due, nil, nil
	if c.given.Claim.Token != "" {
		e.token = ""
	}
}

// decide is what the contract says of an attempt with this code.
func (e *event) decide(code outbox.Code, retryAfter time.Duration) (status outbox.Status, delay time.Duration) {
	made := e.attempts - e.base + 1
	switch {
	case code == "":
		return outbox.Succeeded, 0
	case made >= policy.MaxAttempts:
		return outbox.Failed, 0
	}
	return outbox.Pending, max(time.Duration(1<<made)*time.Second, min(retryAfter, time.Hour))
}

// expired returns what a reclaim takes, in its order.
func expired(events []*event, limit int, now int64) (taken []*event) {
	for _, e := range events {
		if e.status == outbox.Delivering && !e.locked && e.next.passed(now) {
			taken = append(taken, e)
		}
	}
	slices.SortFunc(taken, func(a, b *event) int { return cmp.Compare(a.next.at, b.next.at) })
	return taken[:min(limit, len(taken))]
}

// dueEvents returns what a claim takes, in its order: what is due by now, then
// what was never tried and dated in the future.
func dueEvents(events []*event, suspects bool, limit int, now int64) []*event {
	byDue := func(a, b *event) int { return cmp.Or(cmp.Compare(a.due(), b.due()), cmp.Compare(a.n, b.n)) }
	var dated, undated []*event
	for _, e := range events {
		switch {
		case e.status != outbox.Pending || e.locked || e.suspect() != suspects:
		case e.due() <= now:
			dated = append(dated, e)
		case e.next.kind == null:
			undated = append(undated, e)
		}
	}
	slices.SortFunc(dated, func(a, b *event) int {
		if suspects && a.lost != b.lost {
			return cmp.Compare(a.lost, b.lost)
		}
		return byDue(a, b)
	})
	slices.SortFunc(undated, byDue)
	taken := append(dated, undated...)
	taken = taken[:min(limit, len(taken))]
	slices.SortFunc(taken, byDue)
	return taken
}
