package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/postgres"
)

// invoke invokes the function with an event and returns what it answers as JSON,
// or its error; and what it logged.
func (b *bench) invoke(event string) (answer string, log string, err error) {
	b.t.Helper()
	var out bytes.Buffer
	getenv := func(name string) string { return b.env[name] }
	b.env["AWS_LAMBDA_RUNTIME_API"], b.env["AWS_LAMBDA_FUNCTION_NAME"] = "127.0.0.1:1", "orders-Operator-1"
	f := newFunction(b.lookup, getenv, &out)
	ctx := lambdacontext.NewContext(b.t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-7"})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	result, err := f.handle(ctx, json.RawMessage(event))
	if err != nil {
		if result != nil {
			b.t.Errorf("%s: a result beside an error: %v", event, result)
		}
		return "", out.String(), err
	}
	text, err := json.Marshal(result)
	if err != nil {
		b.t.Fatalf("%s: the result is no JSON: %v", event, err)
	}
	return string(text), out.String(), nil
}

func TestLambda(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "pending")
	b.put(2, "failed", "last_error_code", "'connectionError'", "attempts", "7")
	b.put(3, "failed", "last_error_code", "'connectionError'", "attempts", "7")
	b.put(4, "delivering", "next_attempt_at", "now() - interval '1 min'")
	b.put(5, "succeeded", "occurred_at", "now() - interval '40 days'")
	for _, c := range []struct{ name, event, answer, err, states string }{
		{"Status", `{"action": "status"}`, `"failed":2`, "", ""},
		{"List", `{"action": "list", "status": "failed", "limit": 1}`, `"cursor":"`, "", ""},
		{"Show", `{"action": "show", "id": "` + eventID(2) + `"}`, `"next":"Nothing, until a person replays it`, "", ""},
		{"ShowWithPayload", `{"action": "show", "id": "` + eventID(2) + `", "payload": true}`, `"n":1.50`, "", ""},
		{"ShowOfNothing", `{"action": "show", "id": "` + eventID(9) + `"}`, "", "there is no event", ""},
		{"Doctor", `{"action": "doctor"}`, `"ok":false`, "", ""},
		{"UnknownMember", `{"action": "replay", "colour": "red"}`, "", `unknown member "colour" of replay`, ""},
		{"UnknownAction", `{"action": "truncate"}`, "", `unknown action "truncate"`, ""},
		{"EmptyEvent", `{}`, "", "action is missing", ""},
		{"ReplayUnconfirmed", `{"action": "replay", "code": "connectionError"}`, "", `nobody is there to be asked; say yes (--yes, or "yes": true)`, "pending failed failed delivering succeeded"},
		{"ReplayInADryRun", `{"action": "replay", "code": "connectionError", "dry_run": true}`, `"changed":2`, "", "pending failed failed delivering succeeded"},
		{"Replay", `{"action": "replay", "code": "connectionError", "limit": 100, "rate": 5, "yes": true}`, `"changed":2`, "", "pending pending pending delivering succeeded"},
		{"ReplayOfWhatIsPending", `{"action": "replay", "id": "` + eventID(1) + `"}`, `"reason":"it is pending, and replay needs it to be failed"`, "", ""},
		{"Cancel", `{"action": "cancel", "id": "` + eventID(1) + `", "reason": "sent by hand"}`, `"changed":1`, "", "failed pending pending delivering succeeded"},
		{"Reclaim", `{"action": "reclaim"}`, `"pending":1`, "", "failed pending pending pending succeeded"},
		{"PruneUnconfirmed", `{"action": "prune", "older_than_days": 30}`, "", "nobody is there to be asked", ""},
		{"Prune", `{"action": "prune", "older_than_days": 30, "yes": true}`, `"deleted":1`, "", "failed pending pending pending"},
		{"Pause", `{"action": "pause", "reason": "n8n is being upgraded"}`, `"paused":true`, "", ""},
		{"StatusOfAPause", `{"action": "status"}`, `"changed_by":"postgres (Lambda orders-Operator-1)"`, "", ""},
		{"Resume", `{"action": "resume"}`, `"paused":false`, "", ""},
		{"Migrate", `{"action": "migrate"}`, `{"steps":[]}`, "", ""},
	} {
		// One after the other: each finds what the one before it left.
		answer, log, err := b.invoke(c.event)
		if c.err == "" && (err != nil || !strings.Contains(answer, c.answer)) {
			t.Errorf("%s: %s, %v; want an answer that holds %s", c.name, answer, err, c.answer)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %s, %v; want an error that holds %s", c.name, answer, err, c.err)
		}
		if got := b.states(); c.states != "" && got != c.states {
			t.Errorf("%s: %s, want %s", c.name, got, c.states)
		}
		if strings.Contains(log, `"msg":"audit"`) && !strings.Contains(log, `"requestId":"request-7"`) {
			t.Errorf("%s: the audit does not name the request: %s", c.name, log)
		}
		for line := range strings.Lines(log) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: the log is no JSON: %s", c.name, line)
			}
		}
	}
}

func TestLambdaWritesTheAuditWhateverTheLogLevel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env["LOG_LEVEL"] = "error"
	if _, log, err := b.invoke(`{"action": "pause"}`); err != nil || !strings.Contains(log, `"msg":"audit","action":"pause","phase":"end","role":"postgres"`) {
		t.Errorf("%s, %v", log, err)
	}
}

// The console shows the Go type of an error: it must say something.
func TestLambdaErrorsHaveNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.invoke(`{"action": "show", "id": "x"}`)
	var usage *operator.UsageError
	if !errors.As(err, &usage) || fmt.Sprintf("%T", err) != "*operator.UsageError" {
		t.Errorf("%T", err)
	}
	b.env["DATABASE_URL"] = "postgres://u:topsecret@127.0.0.1:1/db"
	_, _, err = b.invoke(`{"action": "status"}`)
	if _, ok := err.(*postgres.DatabaseError); !ok || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("%T: %v", err, err)
	}
}

func TestLambdaReturnsNoPayloadThatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "pending")
	b.exec(`update outbox_events set payload_json = jsonb_build_object('data', repeat('x', 6000000))`)
	_, _, err := b.invoke(`{"action": "show", "id": "` + eventID(1) + `", "payload": true}`)
	if err == nil || !strings.Contains(err.Error(), "show it from the command line") {
		t.Errorf("%v", err)
	}
	if answer, _, err := b.invoke(`{"action": "show", "id": "` + eventID(1) + `"}`); err != nil || !strings.Contains(answer, `"payload_bytes":60000`) {
		t.Errorf("%v, %s", err, answer)
	}
}
