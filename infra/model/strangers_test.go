package model

import (
	"context"
	"slices"

	"pgregory.net/rapid"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// The steps of everybody but the workers: time, producers, operators, strangers.

func delivering(e *event) bool { return e.status == outbox.Delivering }

// leaseRunsOut lets a lease run out. Its worker knows nothing of it.
func (m *machine) leaseRunsOut() {
	m.expire(m.one(func(e *event) bool { return delivering(e) && !e.parked }))
}

func (m *machine) expire(e *event) {
	e.next, e.live = m.past(), nil
	m.change(e, `next_attempt_at = to_timestamp($2::float8 / 1000000)`, e.next.at)
}

// delayPasses makes an event due that waits for its next attempt.
func (m *machine) delayPasses() {
	m.wake(m.one(func(e *event) bool { return e.status == outbox.Pending && e.next.kind != null && !e.next.passed(m.now) }))
}

func (m *machine) wake(e *event) {
	e.next = m.past()
	m.change(e, `next_attempt_at = to_timestamp($2::float8 / 1000000)`, e.next.at)
}

// replay is an operator who gives a failed event a new set of attempts.
func (m *machine) replay() {
	e := m.one(func(e *event) bool { return e.status == outbox.Failed })
	m.mayChange[e] = "replay"
	m.change(e, `delivery_status = 'pending', next_attempt_at = null, attempts_base = attempts, lost_leases = 0`)
	e.status, e.next, e.base, e.lost, e.marked = outbox.Pending, instant{}, e.attempts, 0, false
}

// edit is a producer who writes the payload anew, whatever is under way.
func (m *machine) edit() {
	e := m.one(func(*event) bool { return true })
	m.mayChange[e] = "producer"
	m.seq++
	kinds := []string{"whole", "whole, a key is missing", "whole, no object"}
	if e.object {
		kinds = append(kinds, "a value in it", "a value in it", "a value in it")
	}
	kind := rapid.SampledFrom(kinds).Draw(m.t, "edit")
	if kind == "a value in it" { // the token stays where it is
		m.change(e, `payload_json = jsonb_set(payload_json::jsonb, '{data}', to_jsonb($2::int))::text::json`, m.seq)
		m.wrote(e)
		return
	}
	e.token, e.object, e.sendable = "", true, true
	payload := `{"correlation_id": 7, "aggregate": null, "data": "anew"}`
	switch kind {
	case "whole, a key is missing":
		payload, e.sendable = `{"aggregate": 1}`, false
	case "whole, no object":
		payload, e.object, e.sendable = `"text"`, false, false
	}
	m.change(e, `payload_json = $2::text::json`, payload)
	m.wrote(e)
}

// mark is somebody else who sets the status of an event that is out: a callback
// of the workflow, a service that gave up, one that has a status of its own.
func (m *machine) mark() {
	e := m.one(delivering)
	status := rapid.SampledFrom([]outbox.Status{outbox.Succeeded, outbox.Failed, outbox.Pending, "paused"}).Draw(m.t, "status")
	m.mayChange[e] = "stranger"
	tidy := rapid.Bool().Draw(m.t, "takes the token out")
	counts := rapid.Bool().Draw(m.t, "counts the attempt")
	set := `delivery_status = $2, next_attempt_at = null`
	if tidy && e.object {
		set += `, payload_json = (payload_json::jsonb - '_delivery_claim_token')::text::json`
		e.token = ""
	}
	if counts {
		set += `, attempts = attempts + 1`
		e.attempts++
		e.others++
	}
	m.change(e, set, string(status))
	e.status, e.next, e.parked = status, instant{}, false
	e.marked = e.final() && e.token != ""
	e.loseLease()
}

// giveBack is the stranger whose status it was.
func (m *machine) giveBack() { m.restore(m.one((*event).stranger)) }

func (m *machine) restore(e *event) {
	m.mayChange[e] = "stranger"
	m.change(e, `delivery_status = 'pending'`)
	e.status = outbox.Pending
}

// park is somebody who takes the deadline off a lease, so that nobody reclaims
// it; unpark ends that.
func (m *machine) park() {
	e := m.one(func(e *event) bool { return delivering(e) && !e.parked })
	m.change(e, `next_attempt_at = null`)
	e.next, e.parked = instant{}, true
}

func (m *machine) unpark() {
	e := m.one(func(e *event) bool { return delivering(e) && e.parked })
	m.expire(e)
	e.parked = false
}

// lock is a session that holds a row, such as a producer in a long transaction.
func (m *machine) lock() {
	if m.unlocked {
		m.t.Skip("a broken store would wait for it")
	}
	if slices.ContainsFunc(m.events, func(e *event) bool { return e.locked }) {
		m.t.Skip("one is enough")
	}
	e := m.one(func(*event) bool { return true })
	for _, sql := range []string{`begin`, `select from outbox_events where event_id = '` + e.id + `' for update`} {
		if _, err := m.db.locks.Exec(context.Background(), sql); err != nil {
			m.t.Fatal(err)
		}
	}
	e.locked = true
}

func (m *machine) unlock() {
	i := slices.IndexFunc(m.events, func(e *event) bool { return e.locked })
	if i < 0 {
		m.t.Skip("none is locked")
	}
	if _, err := m.db.locks.Exec(context.Background(), `rollback`); err != nil {
		m.t.Fatal(err)
	}
	m.events[i].locked = false
}

// pause is an operator who pauses the dispatcher and lets it go on again. Nothing
// is claimed in between.
func (m *machine) pause() {
	m.setPaused(true)
	m.take(m.worker(), cycle.Claim{Limit: 3, Reclaim: cycle.Reclaim{Limit: 1, MaxLostLeases: maxLostLeases}})
	m.setPaused(false)
}

func (m *machine) setPaused(paused bool) {
	m.paused = paused
	m.exec(`insert into outbox_events_control (paused) values ($1) on conflict (only_row) do update set paused = $1`, paused)
}

// finish lets everything come to its end: the strangers leave, half of the
// workers die, and with an n8n that acknowledges whatever comes, every event
// becomes final.
func (m *machine) finish() {
	m.mayChange = map[*event]string{}
	if slices.ContainsFunc(m.events, func(e *event) bool { return e.locked }) {
		m.unlock()
	}
	for _, w := range m.workers {
		if rapid.Bool().Draw(m.t, "says what it knows") {
			m.writeAll(w)
		}
		m.die(w)
	}
	m.look()
	// Four attempts, each of which loses two leases at most.
	const rounds = 15
	w := m.workers[0]
	for range rounds {
		left := false
		for _, e := range m.events {
			m.hurry(e)
			left = left || !e.final()
		}
		if m.look(); !left {
			m.judge()
			return
		}
		m.deliverAll(w, cycle.Claim{Limit: 100, Reclaim: cycle.Reclaim{Limit: 100, MaxLostLeases: maxLostLeases}})
		for len(dueEvents(m.events, true, 1, m.now)) > 0 {
			m.deliverAll(w, cycle.Claim{Limit: 1, Suspects: true})
		}
	}
	for _, e := range m.events {
		if !e.final() {
			m.fail("ends", "%v is still %s after %d rounds with an n8n that answers", e, e.status, rounds)
		}
	}
}

// hurry lets the time of an event pass.
func (m *machine) hurry(e *event) {
	switch {
	case e.stranger():
		m.restore(e)
	case e.status == outbox.Delivering:
		m.expire(e)
		e.parked = false
	case e.status == outbox.Pending && e.next.kind != null && !e.next.passed(m.now):
		m.wake(e)
	}
}

// deliverAll is a cycle of a worker that nothing happens to.
func (m *machine) deliverAll(w *worker, c cycle.Claim) {
	m.t.Helper()
	for _, c := range m.take(w, c) {
		m.send(c, "acknowledged", 0)
	}
	m.writeAll(w)
	m.look()
}

// writeAll records what a worker holds, in groups that hold no event twice.
func (m *machine) writeAll(w *worker) {
	m.t.Helper()
	for {
		var group []*claim
		for _, c := range m.hands[w] {
			if tried(c) && !slices.ContainsFunc(group, func(other *claim) bool { return other.event == c.event }) {
				group = append(group, c)
			}
		}
		if len(group) == 0 {
			return
		}
		m.write(w, group)
	}
}

// judge looks at the end.
func (m *machine) judge() {
	m.t.Helper()
	for _, e := range m.events {
		if e.status == outbox.Succeeded && e.run != "" && !e.acks[e.run] {
			m.fail("lost", "%v succeeded with %q, which n8n never said", e, e.run)
		}
		if e.status == outbox.Succeeded && e.others == 0 && len(e.acks) == 0 && e.lostLeases == 0 {
			m.fail("lost", "%v succeeded, and n8n never acknowledged it", e)
		}
	}
}
