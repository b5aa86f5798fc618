package main

import (
	"time"

	"outbox-dispatcher/internal/testkit/n8ntest"
)

// moment of an invocation at which a fault strikes.
type moment struct {
	name string
	// arm has strike called at the moment, which holds until it returns. The
	// returned channel is closed then.
	arm func(p *place, strike func() (goesOn bool)) <-chan struct{}
	// asleep: between two invocations, while the instance is frozen.
	asleep bool
	// slow n8n, so that the time is up before every event is sent, and the rest is
	// given back.
	slow bool
}

// The third POST and the second group of outcomes are struck: then some events
// are through, some are out, and some wait.
const (
	thirdPost   = 3
	secondGroup = 2
)

var moments = []moment{
	{name: "claim on its way", arm: onPostgres("Claim:", 1, onItsWay)},
	{name: "claim committed", arm: onPostgres("Claim:", 1, onItsBack)},
	{name: "before the POST", arm: onN8N(onItsWay)},
	{name: "half a POST sent", arm: onN8N(halfSent)},
	{name: "during the POST", arm: duringPost},
	{name: "answer on its way", arm: onN8N(onItsBack)},
	{name: "before the record", arm: onPostgres("Record:", secondGroup, onItsWay)},
	{name: "half a record sent", arm: onPostgres("Record:", secondGroup, halfSent)},
	{name: "record committed", arm: onPostgres("Record:", secondGroup, onItsBack)},
	{name: "before the release", arm: onPostgres("Release:", 1, onItsWay), slow: true},
	{name: "release committed", arm: onPostgres("Release:", 1, onItsBack), slow: true},
	{name: "all recorded", arm: lastBacklog},
	{name: "in the freeze", asleep: true},
}

const (
	usualLatency = 10 * time.Millisecond
	// slowLatency is more than a quarter of a POST's timeout, which makes the
	// dispatcher send one at a time.
	slowLatency = postTimeout / 2
)

// onPostgres strikes at the nth statement whose first comment begins so.
func onPostgres(words string, nth int, ph phase) func(*place, func() bool) <-chan struct{} {
	return func(p *place, strike func() bool) <-chan struct{} {
		t := &trigger{fits: statement(words), nth: nth, phase: ph, strike: strike}
		p.toPostgres.arm(t)
		return t.struck
	}
}

func onN8N(ph phase) func(*place, func() bool) <-chan struct{} {
	return func(p *place, strike func() bool) <-chan struct{} {
		t := &trigger{fits: post, nth: thirdPost, phase: ph, strike: strike}
		p.toN8N.arm(t)
		return t.struck
	}
}

// duringPost: n8n has the event and works on it.
func duringPost(p *place, strike func() bool) <-chan struct{} {
	struck := make(chan struct{})
	count := make(chan int, 1)
	count <- 0
	p.n8n.OnPost(func(n8ntest.Post) {
		n := <-count + 1
		count <- n
		if n == thirdPost {
			defer close(struck)
			strike()
		}
	})
	return struck
}

// lastBacklog strikes at the look at what is left, which ends an invocation. The
// same statement goes with each claim.
func lastBacklog(p *place, strike func() bool) <-chan struct{} {
	withClaim := false
	t := &trigger{nth: 1, phase: onItsWay, strike: strike, fits: func(text string) bool {
		switch {
		case statement("Settings:")(text):
			withClaim = false
		case statement("Claim:")(text):
			withClaim = true
		case statement("Backlog:")(text):
			return !withClaim
		}
		return false
	}}
	p.toPostgres.arm(t)
	return t.struck
}
