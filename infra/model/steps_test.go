package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

const (
	// mostEvents in a check.
	mostEvents = 12
	// mostOpen of them are not final: few, so that the steps meet each other.
	mostOpen = 3
)

// insert is a producer that writes a new event.
func (m *machine) insert() {
	open := 0
	for _, e := range m.events {
		if !e.final() {
			open++
		}
	}
	if open >= mostOpen || len(m.events) >= mostEvents {
		m.t.Skip("enough events")
	}
	kind := rapid.SampledFrom([]string{"good", "good", "good", "dated in the future", "a key is missing", "no object"}).Draw(m.t, "kind")
	e := &event{n: len(m.events) + 1, status: outbox.Pending, object: true, sendable: true, acks: map[string]bool{}}
	e.id = fmt.Sprintf("00000000-0000-4000-8000-%012d", e.n)
	e.occurred = m.past().at
	payload := fmt.Sprintf(`{"correlation_id": "c", "aggregate": {"n": %d}, "data": [1, 2.50]}`, e.n)
	switch kind {
	case "dated in the future":
		e.occurred += int64(100 * 365 * 24 * time.Hour / time.Microsecond)
	case "a key is missing":
		payload, e.sendable = `{"correlation_id": "c", "data": 1}`, false
	case "no object":
		payload, e.object, e.sendable = `[1, "two"]`, false, false
	}
	m.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json) values ($1, 't', $2, $3::text::json)`,
		e.id, time.UnixMicro(e.occurred), payload)
	m.events = append(m.events, e)
	m.wrote(e)
}

// wrote notes what the payload is that a producer has just written.
func (m *machine) wrote(e *event) {
	if err := m.db.conn.QueryRow(context.Background(), `select `+bareSQL+` from outbox_events where event_id = $1`, e.id).Scan(&e.payload); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) worker() *worker { return rapid.SampledFrom(m.workers).Draw(m.t, "worker") }

// claim has a worker claim, and reclaim before it. It is never skipped, so that
// rapid always finds a step.
func (m *machine) claim() {
	w := m.worker()
	m.take(w, cycle.Claim{
		Limit:    rapid.IntRange(1, 3).Draw(m.t, "limit"),
		Reclaim:  cycle.Reclaim{Limit: rapid.SampledFrom([]int{100, 100, 1, 0}).Draw(m.t, "reclaim"), MaxLostLeases: maxLostLeases},
		Suspects: len(dueEvents(m.events, true, 1, m.now)) > 0 && rapid.Bool().Draw(m.t, "suspects"),
	})
}

// take claims and holds the batch to the model.
func (m *machine) take(w *worker, c cycle.Claim) (claimed []*claim) {
	m.t.Helper()
	c.Bytes, c.MaxBody, c.Lease = 32<<20, 15<<20, lease
	var batch cycle.Batch
	err := w.do(func(ctx context.Context, s cycle.Store) (err error) {
		batch, err = s.Take(ctx, c)
		return err
	})
	if err != nil {
		m.t.Fatalf("claim of %v: %v", w, err)
	}
	for _, given := range batch.Events {
		for _, e := range m.events {
			if e.id == given.ID && e.live != nil {
				m.fail("two live leases", "%v got %v, whose lease has not run out", w, e)
			}
		}
	}
	failed := 0
	taken := expired(m.events, c.Reclaim.Limit, m.now)
	for _, e := range taken {
		if e.reclaim(); e.status == outbox.Failed {
			failed++
		}
	}
	due := dueEvents(m.events, c.Suspects, c.Limit, m.now)
	if m.paused {
		due = nil
	}
	var got []string
	for _, given := range batch.Events {
		got = append(got, given.ID)
	}
	var want []string
	for _, e := range due {
		want = append(want, e.id)
	}
	if !slices.Equal(got, want) || batch.Paused != m.paused {
		m.fail("model", "%v claimed %q, want %q; paused %v, want %v", w, got, want, batch.Paused, m.paused)
	}
	for i, e := range due {
		claimed = append(claimed, m.claimed(e, batch.Events[i], c.Suspects))
	}
	m.hands[w] = append(m.hands[w], claimed...)
	m.look()
	if got, want := batch.Reclaimed, (cycle.Reclaimed{Returned: len(taken) - failed, Failed: failed}); got != want {
		m.fail("model", "reclaimed %+v, want %+v", got, want)
	}
	for _, c := range claimed {
		c.until = c.event.next.at
	}
	return claimed
}

// claimed makes an event delivering, as the claim has just done.
func (m *machine) claimed(e *event, given outbox.Event, suspects bool) *claim {
	m.t.Helper()
	token := given.Claim.Token
	if token == "" == e.object || token != "" && m.tokens[token] {
		m.fail("token", "%v got %q, and its payload is an object: %v", e, token, e.object)
	}
	m.tokens[token] = true
	c := &claim{event: e, given: given, due: e.next}
	if given.Attempts != e.attempts || given.Base != e.base || given.Claim.Suspect != suspects || (given.Body != nil) != e.sendable {
		m.fail("model", "%v came as %+v", e, given)
	}
	e.status, e.next, e.owner, e.live = outbox.Delivering, after(lease), c, c
	if token != "" {
		e.token = token
	}
	return c
}

// some draws claims of a worker that fit, of each event one at most, and skips
// the step if there are none.
func (m *machine) some(of map[*worker][]*claim, fits func(*claim) bool) (w *worker, some []*claim) {
	var able []*worker
	for _, w := range m.workers {
		if slices.ContainsFunc(of[w], fits) {
			able = append(able, w)
		}
	}
	if len(able) == 0 {
		m.t.Skip("no such claim")
	}
	w = rapid.SampledFrom(able).Draw(m.t, "worker")
	// Rapid takes a step that is skipped behind a draw for a failure: the first is
	// always one of them.
	from := rapid.IntRange(0, 100).Draw(m.t, "from")
	var all []*claim
	for _, c := range of[w] {
		if fits(c) {
			all = append(all, c)
		}
	}
	seen := map[*event]bool{}
	for i := range all {
		c := all[(from+i)%len(all)]
		if !seen[c.event] && (i == 0 || rapid.Bool().Draw(m.t, "this one too")) {
			some, seen[c.event] = append(some, c), true
		}
	}
	return w, some
}

func held(c *claim) bool { return c.outcome == nil }

func tried(c *claim) bool { return c.outcome != nil }

// answers of n8n to one POST. Each that is no acknowledgement asks for patience,
// so that no delay passes while a check runs.
var answers = []string{"acknowledged", "refused", "busy", "silent", "token rotated"}

// deliver has a worker send what it holds.
func (m *machine) deliver() {
	_, some := m.some(m.hands, held)
	for _, c := range some {
		m.send(c, rapid.SampledFrom(answers).Draw(m.t, "answer"), rapid.SampledFrom([]time.Duration{2 * time.Minute, 10 * time.Minute, 2 * time.Hour}).Draw(m.t, "retry after"))
	}
}

// send makes the attempt and decides its outcome, which nobody knows of yet.
func (m *machine) send(c *claim, answer string, retryAfter time.Duration) {
	m.t.Helper()
	e := c.event
	verdict := outbox.Unusable(c.given.Unusable)
	verdict.RetryAfter = retryAfter // a malformed payload has none; here it keeps the delay long
	if c.given.Body != nil {
		a := outbox.Answer{Host: "n8n.example", HTTPStatus: 200, RetryAfter: retryAfter}
		c.posts++
		switch answer {
		case "token rotated":
			c.posts++
			e.resends++
			fallthrough
		case "acknowledged":
			m.seq++
			run := fmt.Sprintf("run-%d", m.seq)
			a.Body = fmt.Appendf(nil, `{"ok":true,"event_id":%q,"result":{"execution_id":%q}}`, e.id, run)
			e.acks[run] = true
		case "refused":
			a.Body = []byte(`{"ok":false}`)
		case "busy":
			a.HTTPStatus = 503
		case "silent":
			a.HTTPStatus, a.Fault = 0, "timeout"
		}
		verdict = outbox.Judge(e.id, a)
		c.posts += m.again
		e.posts += c.posts
		c.posts -= m.again
	}
	o := outbox.Decide(&c.given, verdict, policy)
	then := event{attempts: c.given.Attempts, base: c.given.Base}
	status, delay := then.decide(verdict.Code, retryAfter)
	if o.Status != status || o.Delay != delay || o.Claim != c.given.Claim || o.Attempts != c.given.Attempts || (o.RunID != "") != (status == outbox.Succeeded) {
		m.fail("model", "decided %+v, want %s after %v", o, status, delay)
	}
	c.outcome = &o
}

// record has a worker write outcomes, as a group or alone. What it holds may be
// long out of date.
func (m *machine) record() {
	w, group := m.some(m.hands, tried)
	m.write(w, group)
}

// write records a group, once or twice: where the answer to the commit is lost, a
// worker writes again.
func (m *machine) write(w *worker, group []*claim) {
	m.t.Helper()
	outcomes := make([]outbox.Outcome, len(group))
	for i, c := range group {
		outcomes[i] = *c.outcome
	}
	fates := m.call(w, len(group), func(ctx context.Context, s cycle.Store) ([]cycle.Fate, error) { return s.Record(ctx, outcomes) })
	for i, c := range group {
		e, fate := c.event, fates[i]
		switch ours := e.ours(c); {
		case ours && e.locked:
			m.want(w, c, fate, cycle.Held)
			continue
		case ours:
			m.want(w, c, fate, cycle.Recorded)
			e.record(c)
			c.written = true
		case c.written:
			// It holds it as long as nobody went on with the row.
			if e.holds(c.outcome) {
				m.want(w, c, fate, cycle.Recorded)
			} else {
				m.want(w, c, fate, cycle.Lost)
			}
		case fate == cycle.Recorded && !e.holds(c.outcome) || fate != cycle.Recorded && fate != cycle.Lost:
			m.fail("fence", "%v wrote the outcome of the %v, whose row is another's by now: %s", w, c, words[fate])
		default:
			if !c.over && c.posts > 0 {
				e.lostResults++
			}
		}
		if !c.over {
			c.over = true
			m.hands[w] = slices.DeleteFunc(m.hands[w], func(other *claim) bool { return other == c })
			m.done[w] = append(m.done[w], c)
		}
	}
}

// recordAgain writes outcomes whose fate is known once more: nothing may come of
// it.
func (m *machine) recordAgain() {
	w, group := m.some(m.done, tried)
	m.write(w, group)
}

// release has a worker give back what it has not sent.
func (m *machine) release() {
	w, group := m.some(m.hands, held)
	events := make([]outbox.Event, len(group))
	for i, c := range group {
		events[i] = c.given
	}
	fates := m.call(w, len(group), func(ctx context.Context, s cycle.Store) ([]cycle.Fate, error) { return s.Release(ctx, events) })
	for i, c := range group {
		switch ours := c.event.ours(c); {
		case ours && c.event.locked:
			m.want(w, c, fates[i], cycle.Held)
			continue
		case ours:
			m.want(w, c, fates[i], cycle.Recorded)
			c.event.release(c)
		case fates[i] != cycle.Lost:
			m.fail("fence", "%v released the %v, whose row is another's by now: %s", w, c, words[fates[i]])
		}
		m.hands[w] = slices.DeleteFunc(m.hands[w], func(other *claim) bool { return other == c })
	}
}

// call has a worker write and returns the fates, one for each.
func (m *machine) call(w *worker, n int, write func(context.Context, cycle.Store) ([]cycle.Fate, error)) []cycle.Fate {
	m.t.Helper()
	var fates []cycle.Fate
	err := w.do(func(ctx context.Context, s cycle.Store) (err error) {
		fates, err = write(ctx, s)
		return err
	})
	if err != nil || len(fates) != n {
		m.t.Fatalf("%v: %d fates of %d, error %v", w, len(fates), n, err)
	}
	return fates
}

var words = map[cycle.Fate]string{cycle.Recorded: "recorded", cycle.Lost: "lost", cycle.Held: "held", cycle.Refused: "refused"}

func (m *machine) want(w *worker, c *claim, got, want cycle.Fate) {
	m.t.Helper()
	if got == want {
		return
	}
	m.fail("fence", "the %v by %v was %s, want %s", c, w, words[got], words[want])
}

// crash ends a worker: what it had in its hands is forgotten.
func (m *machine) crash() {
	var busy []*worker
	for _, w := range m.workers {
		if len(m.hands[w]) > 0 {
			busy = append(busy, w)
		}
	}
	if len(busy) == 0 {
		m.t.Skip("nobody has anything")
	}
	m.die(rapid.SampledFrom(busy).Draw(m.t, "worker"))
}

func (m *machine) die(w *worker) { m.hands[w], m.done[w] = nil, nil }
