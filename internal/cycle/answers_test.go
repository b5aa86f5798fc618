package cycle_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// Answers of success that acknowledge nothing, each a failed attempt of its event
// with a reason that people can read, among good ones.
func TestAnswersThatAcknowledgeNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const good = 7
	cases := []struct {
		name    string
		payload string // empty: the usual one
		answer  n8ntest.Answer
		code    string
		reason  string
	}{
		{name: "Null", answer: n8ntest.Answer{Body: `null`}, code: "malformedResponse", reason: "not a JSON object"},
		{name: "List", answer: n8ntest.Answer{Body: `[]`}, code: "malformedResponse", reason: "not a JSON object"},
		{name: "NullResult", answer: n8ntest.Answer{Body: `{"ok":true,"event_id":"{{id}}","result":null}`}, code: "malformedResponse", reason: "result.execution_id"},
		{name: "Empty", answer: n8ntest.Answer{Header: map[string]string{"Content-Length": "0"}}, code: "malformedResponse", reason: "the answer is empty"},
		{name: "NoContent", answer: n8ntest.Answer{Status: 204}, code: "malformedResponse", reason: "HTTP 204"},
		{name: "EmptyObject", answer: n8ntest.Answer{Body: `{}`}, code: "malformedResponse", reason: "no ok: true"},
		{name: "Started", answer: n8ntest.Answer{Body: `{"message":"Workflow was started"}`}, code: "malformedResponse", reason: "Workflow was started"},
		{name: "OfAnother", answer: n8ntest.Answer{Body: strings.ReplaceAll(n8ntest.Ack, "{{id}}", id(100))}, code: "mismatchedEventId", reason: "event_id"},
		{name: "EmptyExecution", answer: n8ntest.Answer{Body: n8ntest.AckWith(`""`)}, code: "malformedResponse", reason: "execution_id"},
		{name: "NoExecution", answer: n8ntest.Answer{Body: `{"ok":true,"event_id":"{{id}}","result":{}}`}, code: "malformedResponse", reason: "execution_id"},
		{name: "Echo", payload: `{"ok":true,"result":{"execution_id":"1"},"correlation_id":1,"aggregate":2,"data":3}`, code: "malformedResponse", reason: "no ok: true"},
		{name: "EchoOfAnAcknowledgement", payload: `{"correlation_id":null,"aggregate":null,"data":` + strings.ReplaceAll(n8ntest.Ack, "{{id}}", id(12)) + `}`, code: "malformedResponse", reason: "no ok: true"},
		{name: "PayloadOfAnAcknowledgement", payload: `{"ok":true,"result":{"execution_id":"1"}}`, code: "malformedPayload", reason: `"correlation_id"`},
	}
	s.insert(1, len(cases)+good)
	s.n8n.ScriptFunc(func(p n8ntest.Post) *n8ntest.Answer {
		for n, c := range cases {
			if p.EventID == id(n+1) && strings.HasPrefix(c.name, "Echo") {
				return &n8ntest.Answer{Body: string(p.Body)}
			}
		}
		return nil
	})
	for n, c := range cases {
		if c.payload != "" {
			s.exec(`update outbox_events set payload_json = $2::jsonb where event_id = $1`, id(n+1), c.payload)
		} else {
			s.n8n.Script(id(n+1), c.answer)
		}
	}
	if r := s.run(); r.Succeeded != good || r.Retried != len(cases) {
		t.Errorf("report %+v", r)
	}
	for n, c := range cases {
		got := s.row(n + 1)
		if got.Status != "pending" || got.Attempts != 1 || got.Code != c.code || !strings.Contains(got.Error, c.reason) || got.Token || got.RunID != "" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A server refuses a large body before it has read it, and the client sees the 413
// or a broken connection, as luck has it. Either is a failed attempt of that event,
// and the others go out.
func TestABodyThatIsRefusedEarlyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	const attempts = 5
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 1<<20 {
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, strings.ReplaceAll(n8ntest.Ack, "{{id}}", string(body[13:13+36])))
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
	}))
	t.Cleanup(server.Close)
	s := newStage(t)
	s.Settings.Policy.MaxAttempts = attempts
	s.aim(s.Dispatcher, server.URL)
	s.exec(`alter table outbox_events alter payload_json set storage external`) // packing takes longest
	s.insert(1, 11)
	s.exec(`update outbox_events set payload_json = jsonb_set(payload_json, '{data}', to_jsonb(repeat('x', 8 << 20))) where event_id = $1`, id(1))
	for n := 1; n <= attempts; n++ {
		r := s.run()
		if n == 1 && r.Succeeded != 10 || r.Retried+r.Failed != 1 {
			t.Fatalf("attempt %d: report %+v", n, r)
		}
		if got := s.row(1); got.Attempts != n || got.Code != "connectionError" || got.Error == "" || (got.Status == "failed") != (n == attempts) {
			t.Fatalf("attempt %d: row %+v", n, got)
		}
		s.delayPassed()
	}
}

// What the database refuses about an acknowledged event costs the detail, and
// never a second POST.
func TestAnAcknowledgedEventIsNeverSentAgainForADetail(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.exec(`alter table outbox_events add check (length(external_run_id) <= 8), add check (external_run_id <> 'refused'), add check (last_error not like 'HTTP%')`)
	s.insert(1, 4)
	for n, answer := range map[int]n8ntest.Answer{
		1: {Body: n8ntest.AckWith(`"execution-0123456789"`)}, 2: {Body: n8ntest.AckWith(`"refused"`)}, 3: {Status: 500},
	} {
		s.n8n.Script(id(n), answer)
	}
	if r := s.run(); r.Succeeded != 3 || r.Retried != 1 || r.Lost != 0 || r.Unrecorded != 0 {
		t.Errorf("report %+v", r)
	}
	for n, want := range map[int]string{1: "execu...", 2: ""} {
		if got := s.row(n); got.Status != "succeeded" || got.Attempts != 1 || got.RunID != want || s.n8n.PostsOf(id(n)) != 1 {
			t.Errorf("event %d: %+v after %d POSTs, want execution %q", n, got, s.n8n.PostsOf(id(n)), want)
		}
	}
	if got := s.row(3); got.Status != "pending" || got.Code != "connectionError" || got.Error != "The database refused the real text." {
		t.Errorf("the failed attempt: %+v", got)
	}
}

// attempts keeps what is logged and traced.
type attempts struct {
	cycle.Discard
	seen sync.Map // by event id
}

func (a *attempts) Attempted(_ context.Context, at cycle.Attempt) { a.seen.Store(at.EventID, at.Error) }

// The row quotes the answer; the log and the trace, which more people read, do not.
func TestNoAnswerIsQuotedInTheLog(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	log := &attempts{}
	s.Observer = log
	s.insert(1, 2)
	s.n8n.Script(id(1), n8ntest.Answer{Status: 500, Body: "boom"})
	s.n8n.Script(id(2), n8ntest.Answer{Body: `{"ok":false,"error":"boom"}`})
	s.run()
	for n := 1; n <= 2; n++ {
		logged, _ := log.seen.Load(id(n))
		if text := fmt.Sprint(logged); strings.Contains(text, "boom") || text == "" || s.row(n).Error != text+": "+[]string{"boom", `{"ok":false,"error":"boom"}`}[n-1] {
			t.Errorf("logged %q, the row has %q", text, s.row(n).Error)
		}
	}
}

// What a proxy, a gateway or a plan says of the whole endpoint costs three attempts
// an invocation, and not those of the whole backlog.
func TestAnAnswerForTheWholeEndpointStopsAfterThree(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.insert(1, 100)
	for n, answer := range []n8ntest.Answer{
		{Status: 530}, {Status: 525}, {Status: 407}, {Status: 511}, {Status: 402}, {Status: 405},
		{Status: 302, Header: map[string]string{"Location": "https://login.example/?next=x"}},
		{Body: "<html>Sign in</html>"},
	} {
		s.n8n.ScriptAll(answer)
		if r := s.run(); r.Retried != 3 || r.Stopped != cycle.EndpointDown || s.n8n.Count() != 3*(n+1) {
			t.Errorf("%+v: %d POSTs, report %+v", answer, s.n8n.Count()-3*n, r)
		}
	}
}
