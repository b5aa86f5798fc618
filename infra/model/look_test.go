package model

import (
	"time"

	"outbox-dispatcher/internal/outbox"
)

// look reads the table after a step: first what no step may ever break, seen from
// the row before and the row now; then each row against the model.
func (m *machine) look() {
	m.t.Helper()
	ids := make([]string, len(m.events))
	for i, e := range m.events {
		ids[i] = e.id
	}
	rows, now, err := m.db.look(ids)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(rows) != len(m.events) {
		m.fail("lost", "%d rows of %d are left", len(rows), len(m.events))
	}
	for i, e := range m.events {
		if i < len(m.before) {
			m.compare(e, m.before[i], rows[i])
		}
		m.examine(e, rows[i], now)
		m.check(e, rows[i], now)
	}
	m.before, m.now, m.looked = rows, now, true
}

// compare looks at what became of a row.
func (m *machine) compare(e *event, before, now row) {
	m.t.Helper()
	if now.Attempts < before.Attempts {
		m.fail("attempts", "those of %v fell from %d to %d", e, before.Attempts, now.Attempts)
	}
	switch before.Status {
	case "pending", "delivering":
	default:
		if before != now && m.mayChange[e] == "" {
			m.fail("final", "%v was %q and nobody may change it\nbefore %+v\nnow    %+v", e, before.Status, before, now)
		}
	}
}

// examine looks at a row by itself.
func (m *machine) examine(e *event, r row, now int64) {
	m.t.Helper()
	const slack = int64(time.Minute / time.Microsecond)
	if e.live != nil && r.Status != "delivering" {
		m.fail("lease", "%v is %s, and its lease has not run out", e, r.Status)
	}
	switch outbox.Status(r.Status) {
	case outbox.Pending:
		if limit := now + int64(time.Hour/time.Microsecond) + slack; r.NextAt > limit {
			m.fail("ends", "%v is due at %s, later than any delay", e, r.Next)
		}
	case outbox.Delivering:
		if r.Next == "" && !e.parked {
			m.fail("ends", "%v is leased for ever", e)
		}
		if limit := now + int64(lease/time.Microsecond) + slack; r.NextAt > limit {
			m.fail("lease", "that of %v lasts until %s", e, r.Next)
		}
	default:
		if r.Next != "" && !e.stranger() {
			m.fail("ends", "%v is %s and has a next attempt", e, r.Status)
		}
		if r.Token != "" && !e.marked && !e.stranger() {
			m.fail("token", "it stayed in %v, which is %s", e, r.Status)
		}
	}
	if r.Payload != e.payload {
		m.fail("payload", "of %v: %s, want what its producer wrote: %s", e, r.Payload, e.payload)
	}
	if r.Attempts != e.recorded+e.others {
		m.fail("attempts", "%v has %d, and %d outcomes were recorded, %d by others", e, r.Attempts, e.recorded, e.others)
	}
	m.equation(e, r)
}

// equation is the one of the POSTs. Those of the present owner are not in the row
// yet, even if it died.
func (m *machine) equation(e *event, r row) {
	m.t.Helper()
	open := 0
	if e.owner != nil {
		open = e.owner.posts
	}
	if most := r.Attempts + e.lostLeases + e.lostResults + e.resends + open; e.posts > most {
		m.fail("POSTs", "%d of %v, at most %d are explained: %d attempts, %d lost leases, %d lost outcomes, %d re-sends, %d under way",
			e.posts, e, most, r.Attempts, e.lostLeases, e.lostResults, e.resends, open)
	}
	if e.lostLeases+e.lostResults == 0 && e.owner == nil {
		if exact := r.Attempts - e.others - e.unsent + e.resends; e.posts != exact {
			m.fail("POSTs", "%d of %v, want exactly %d: each attempt was recorded", e.posts, e, exact)
		}
	}
}

// check compares a row with the model, and takes over what the model leaves open.
func (m *machine) check(e *event, r row, now int64) {
	m.t.Helper()
	if e.text == opaque {
		if e.text = r.Error; r.Error == "" {
			m.fail("model", "%v was reclaimed and last_error says nothing", e)
		}
	}
	if e.next.kind == later {
		lowest, highest := m.now+e.next.after.Microseconds(), now+e.next.after.Microseconds()
		if r.NextAt < lowest || r.NextAt > highest {
			m.fail("clock", "the time of %v is %s, which is not %v from now by the clock of the database", e, r.Next, e.next.after)
		}
		e.next = at(r.NextAt)
	}
	var next int64
	if e.next.kind != null {
		next = e.next.at
	}
	want := row{
		Status: string(e.status), Attempts: e.attempts, Base: e.base, Lost: e.lost, LostAt: e.lostAt,
		Next: r.Next, NextAt: next, Code: string(e.code), Error: e.text, RunID: e.run, Token: e.token, Payload: e.payload, Typ: r.Typ,
	}
	if want != r {
		m.fail("model", "%v is\n%+v, want\n%+v", e, r, want)
	}
}
