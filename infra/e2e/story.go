package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// story is what happens on the stage.
type story struct {
	*stage
	byHand int
	// excuses of an event are the reasons for which n8n may have run it once more,
	// one for each time: nothing else explains a second execution.
	excuses map[string][]string
}

// Reasons in excuses.
const (
	noAnswer         = "no answer arrived"
	killedN8N        = "n8n was killed before it saved what it had answered"
	killedDispatcher = "the dispatcher was killed before it recorded the answer"
	sentByHand       = "somebody sent it again by hand"
	reportedFailure  = "the workflow reported a failure"
)

func (s *story) excuse(eventID, reason string) {
	s.excuses[eventID] = append(s.excuses[eventID], reason)
}

// step is one part of the story. It returns what it saw, for people.
type step struct {
	name     string
	restarts bool // it needs n8n to be stopped and started
	run      func(*story, context.Context) (string, error)
}

var steps = []step{
	{"deliver", false, (*story).deliver},
	{"n8n killed in the middle", true, (*story).killN8N},
	{"n8n is down", true, (*story).whileDown},
	{"n8n starts up", true, (*story).startUp},
	{"token rotated", false, (*story).rotate},
	{"workflow unpublished", false, (*story).unpublish},
	{"dispatcher killed in the middle", false, (*story).killDispatcher},
	{"delivered again by hand", false, (*story).deliverTwice},
	{"failure branch", false, (*story).fail},
	{"account", false, (*story).account},
}

// tell goes through the steps and prints a table of them. It ends with the first
// that does not hold.
func (s *story) tell(ctx context.Context, short bool) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush()
	fmt.Fprintln(out, "step\ttime\tevents\tinvocations\tPOSTs\tresult")
	for _, p := range steps {
		if short && p.restarts {
			continue
		}
		say("%s", p.name)
		began, events, invocations, posts := time.Now(), s.outbox.made, s.dispatcher.invocations, s.posts()
		attempts := len(s.dispatcher.attempts)
		result, err := p.run(s, ctx)
		for _, a := range s.dispatcher.attempts[attempts:] {
			if a.HTTPStatus == 0 && !strings.Contains(a.Error, "connection refused") {
				s.excuse(a.EventID, noAnswer)
			}
		}
		if err == nil {
			err = s.nothingLost(ctx)
		}
		if err != nil {
			result = "DOES NOT HOLD"
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%d\t%s\n", p.name, since(began),
			s.outbox.made-events, s.dispatcher.invocations-invocations, s.posts()-posts, result)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	fmt.Fprintf(out, "all\t\t%d\t%d\t%d\tholds\n", s.outbox.made, s.dispatcher.invocations, s.posts())
	return nil
}

func (s *story) posts() int { return len(s.dispatcher.attempts) + s.byHand }

// nothingLost looks at what has to hold between any two steps.
func (s *story) nothingLost(ctx context.Context) error {
	counts, err := s.outbox.count(ctx)
	if err != nil {
		return err
	}
	if sum := counts[outbox.Pending] + counts[outbox.Succeeded]; sum != s.outbox.made {
		return fmt.Errorf("of %d events some are neither pending nor succeeded: %v", s.outbox.made, counts)
	}
	return nil
}

// deliver: events go out and are acknowledged, each at the first attempt.
func (s *story) deliver(ctx context.Context) (string, error) {
	if _, err := s.outbox.insert(ctx, 15); err != nil {
		return "", err
	}
	attempts, err := s.drain(ctx)
	if err == nil && len(attempts) != 15 {
		err = fmt.Errorf("want 15 attempts, got %s", outcomes(attempts))
	}
	return outcomes(attempts), err
}

// killN8N: n8n dies while events are on their way.
func (s *story) killN8N(ctx context.Context) (string, error) {
	if err := settled(ctx, s.n8nData); err != nil { // what was answered before is no part of this
		return "", err
	}
	before := s.outbox.made
	if _, err := s.outbox.insert(ctx, 25); err != nil {
		return "", err
	}
	i, err := s.dispatcher.start(ctx)
	if err != nil {
		return "", err
	}
	if err := s.outbox.awaitSucceeded(ctx, before+3); err != nil {
		return "", err
	}
	if err := s.n8n.kill(); err != nil {
		return "", err
	}
	r, attempts, err := i.finish()
	if err != nil {
		return "", err
	}
	if r.Succeeded < 3 || r.Retried == 0 || r.Stopped != cycle.EndpointDown {
		return "", fmt.Errorf("want an invocation that n8n's death cuts short, got %+v", r)
	}
	for _, a := range attempts {
		if a.Code == "" {
			s.excuse(a.EventID, killedN8N)
		}
	}
	return fmt.Sprintf("%s, %d released untried", outcomes(attempts), r.Released), nil
}

// whileDown: nobody listens.
func (s *story) whileDown(ctx context.Context) (string, error) {
	var all []attempt
	for range 3 {
		r, attempts, err := s.dispatcher.invoke(ctx)
		if err != nil {
			return "", err
		}
		if r.Succeeded > 0 || r.Stopped != cycle.EndpointDown {
			return "", fmt.Errorf("want an endpoint that is down, got %+v", r)
		}
		all = append(all, attempts...)
		if err := pause(ctx, time.Second); err != nil {
			return "", err
		}
	}
	return outcomes(all), nil
}

// startUp: n8n refuses, answers 200 with a text, then 404, and at last works.
func (s *story) startUp(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.n8n.start(); err != nil {
		return "", err
	}
	var all []attempt
	for !s.n8n.ready(ctx, s.plain.path()) {
		if err := s.n8n.alive(); err != nil {
			return "", err
		}
		_, attempts, err := s.dispatcher.invoke(ctx)
		if err != nil {
			return "", err
		}
		all = append(all, attempts...)
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return "", err
		}
	}
	attempts, err := s.drain(ctx)
	return outcomes(append(all, attempts...)), err
}

// rotate: n8n has a new token before the dispatcher has it.
func (s *story) rotate(ctx context.Context) (string, error) {
	if _, err := s.outbox.insert(ctx, 8); err != nil {
		return "", err
	}
	const token = "second-token-of-the-e2e-run"
	if err := s.editor.setToken(ctx, credentialID, tokenHeader, token); err != nil {
		return "", err
	}
	refused, err := s.refused(ctx, http.StatusForbidden)
	if err != nil {
		return "", err
	}
	s.dispatcher.token = token
	attempts, err := s.drain(ctx)
	return outcomes(append(refused, attempts...)), err
}

// unpublish: the webhook goes away and comes back.
func (s *story) unpublish(ctx context.Context) (string, error) {
	if _, err := s.outbox.insert(ctx, 8); err != nil {
		return "", err
	}
	if err := s.unpublishNow(ctx, s.plain); err != nil {
		return "", err
	}
	refused, err := s.refused(ctx, http.StatusNotFound)
	if err != nil {
		return "", err
	}
	if err := s.publishNow(ctx, s.plain); err != nil {
		return "", err
	}
	attempts, err := s.drain(ctx)
	return outcomes(append(refused, attempts...)), err
}

// refused is an invocation that n8n meets with this status alone.
func (s *story) refused(ctx context.Context, status int) ([]attempt, error) {
	r, attempts, err := s.dispatcher.invoke(ctx)
	if err != nil {
		return nil, err
	}
	other := slices.ContainsFunc(attempts, func(a attempt) bool { return a.HTTPStatus != status || a.Code != string(outbox.ConnectionError) })
	if len(attempts) == 0 || other || r.Stopped != cycle.EndpointDown || r.Released == 0 {
		return nil, fmt.Errorf("want some HTTP %d and the rest released, got %+v and %+v", status, attempts, r)
	}
	return attempts, nil
}

// killDispatcher: it dies with answers that it did not record. Once the lease has
// run out the events go out again, and n8n knows those that it has done.
func (s *story) killDispatcher(ctx context.Context) (string, error) {
	before := s.outbox.made
	if _, err := s.outbox.insert(ctx, 20); err != nil {
		return "", err
	}
	// Not the usual lease of three minutes, whose end nobody wants to wait for.
	i, err := s.dispatcher.start(ctx, "N8N_HTTP_TIMEOUT_SECONDS=10", "N8N_DELIVERY_LEASE_SECONDS=30", "DISPATCH_CONCURRENCY=3")
	if err != nil {
		return "", err
	}
	if err := s.outbox.awaitSucceeded(ctx, before+3); err != nil {
		return "", err
	}
	i.kill()
	rows, err := s.outbox.rows(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		if r.Status == outbox.Delivering {
			s.excuse(r.ID, killedDispatcher)
		}
	}
	reclaimed := 0
	for began := time.Now(); ; {
		r, _, err := s.dispatcher.invoke(ctx)
		if err != nil {
			return "", err
		}
		reclaimed += r.Reclaimed
		counts, err := s.outbox.count(ctx)
		if err != nil {
			return "", err
		}
		if counts[outbox.Delivering] == 0 {
			break
		}
		if time.Since(began) > time.Minute {
			return "", fmt.Errorf("a minute later some events are still leased: %v", counts)
		}
		if err := pause(ctx, time.Second); err != nil {
			return "", err
		}
	}
	if reclaimed == 0 {
		return "", errors.New("the dispatcher was done before it was killed")
	}
	_, err = s.drain(ctx)
	return fmt.Sprintf("%d leases ran out, were reclaimed and acknowledged", reclaimed), err
}

// deliverTwice: somebody sends an event that n8n has done, twice.
func (s *story) deliverTwice(ctx context.Context) (string, error) {
	rows, err := s.outbox.rows(ctx)
	if err != nil {
		return "", err
	}
	event := rows[0]
	body, err := json.Marshal(map[string]any{
		"event_id": event.ID, "event_type": event.Type, "occurred_at": "2025-01-02T03:04:05+00:00",
		"correlation_id": event.Payload["correlation_id"], "aggregate": event.Payload["aggregate"], "data": event.Payload["data"],
	})
	if err != nil {
		return "", err
	}
	for range 2 {
		s.excuse(event.ID, sentByHand)
		s.byHand++
		if err := s.post(ctx, body, fmt.Sprintf(`{"ok":true,"event_id":"%s","result":{"execution_id":"%s"}}`, event.ID, event.RunID)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("acknowledged twice, with the execution that did the work (%s)", event.RunID), nil
}

// post sends a body by hand.
func (s *story) post(ctx context.Context, body []byte, want string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.dispatcher.webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(tokenHeader, s.dispatcher.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || string(answer) != want {
		return fmt.Errorf("want 200 %s, got %d %s", want, res.StatusCode, answer)
	}
	return nil
}

// fail: the other workflow says why it did not take an event, until its producer
// has mended it.
func (s *story) fail(ctx context.Context) (string, error) {
	if err := s.publishNow(ctx, s.failing); err != nil {
		return "", err
	}
	s.dispatcher.webhook = s.n8n.webhook(s.failing.path())
	ids, err := s.outbox.insert(ctx, 3)
	if err != nil {
		return "", err
	}
	bad := ids[1]
	if err := s.outbox.setData(ctx, bad, "null"); err != nil {
		return "", err
	}
	r, attempts, err := s.dispatcher.invoke(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(attempts, func(a attempt) bool { return a.EventID == bad })
	if r.Succeeded != 2 || at < 0 || attempts[at].Code != string(outbox.RemoteReportedFailure) || !strings.Contains(attempts[at].Error, "without data") {
		return "", fmt.Errorf("want one failure reported with its reason, got %+v", attempts)
	}
	s.excuse(bad, reportedFailure)
	if err := s.outbox.setData(ctx, bad, `{"mended": true}`); err != nil {
		return "", err
	}
	after, err := s.drain(ctx)
	return outcomes(append(attempts, after...)), err
}

// drain invokes the dispatcher as a schedule would until every event succeeded.
func (s *story) drain(ctx context.Context) ([]attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all []attempt
	for {
		_, attempts, err := s.dispatcher.invoke(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, attempts...)
		counts, err := s.outbox.count(ctx)
		if err != nil || counts[outbox.Succeeded] == s.outbox.made {
			return all, err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return all, fmt.Errorf("deliver what is left, %v: %w", counts, err)
		}
	}
}

// outcomes sums attempts up for people: "3 HTTP 404, 8 acknowledged, 2 connection
// refused".
func outcomes(attempts []attempt) string {
	counts := map[string]int{}
	for _, a := range attempts {
		switch {
		case a.Code == "":
			counts["acknowledged"]++
		case a.HTTPStatus == 0:
			_, fault, _ := strings.Cut(a.Error, ": ")
			counts[fault]++
		case a.Code == string(outbox.ConnectionError):
			counts[fmt.Sprintf("HTTP %d", a.HTTPStatus)]++
		default:
			counts[fmt.Sprintf("HTTP %d %s", a.HTTPStatus, a.Code)]++
		}
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}
