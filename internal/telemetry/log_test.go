package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

func TestAttemptLine(t *testing.T) {
	final := failure()
	final.Status, final.HTTPStatus = outbox.Failed, 0
	untried := cycle.Attempt{EventID: "e", EventType: "x", Number: 1, Status: outbox.Pending, Code: outbox.MalformedPayload, Error: "no object"}
	hostile := success()
	hostile.EventType, hostile.RunID = strings.Repeat("t\n", 5000), strings.Repeat("\u2028r", 5000)

	common := []string{"attempt", "duration_ms", "event_id", "event_type", "level", "msg", "requestId", "status", "timestamp", "trace_id"}
	for name, c := range map[string]struct {
		attempt cycle.Attempt
		level   string
		fields  []string // beside the common ones
		want    map[string]any
	}{
		"Acknowledged": {success(), "INFO", []string{"commit_to_ack_ms", "http_status", "run_id"}, map[string]any{
			"msg": "attempt", "event_id": "11111111-2222-4333-8444-555555555555", "event_type": "vehicle.updated", "attempt": 1.0, "status": "succeeded",
			"http_status": 200.0, "duration_ms": 80.0, "commit_to_ack_ms": 1500.0, "run_id": "4711", "requestId": "request-1", "trace_id": traceID,
		}},
		"ToBeTriedAgain": {failure(), "WARN", []string{"code", "error", "http_status"}, map[string]any{
			"attempt": 3.0, "status": "pending", "code": "connectionError", "error": "HTTP 502 from n8n.example.com: bad gateway", "http_status": 502.0, "duration_ms": 40.0,
		}},
		"ForTheLastTime":  {final, "ERROR", []string{"code", "error"}, map[string]any{"status": "failed"}},
		"WithNothingSent": {untried, "WARN", []string{"code", "error"}, map[string]any{"code": "malformedPayload", "duration_ms": 0.0}},
		"HostileNames":    {hostile, "INFO", []string{"commit_to_ack_ms", "http_status", "run_id"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			New(Config{Log: &out}).Attempted(inLambda(t.Context()), c.attempt)
			all := lines(t, out.String())
			if len(all) != 1 || len(out.String()) > 4<<10 {
				t.Fatalf("%d lines of %d bytes, want one of 4 KB at most", len(all), out.Len())
			}
			line := all[0]
			fields := map[string]any{}
			for _, f := range append(common, c.fields...) {
				fields[f] = nil
			}
			if got, want := sortedKeys(line), sortedKeys(fields); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("fields %v\n  want %v", got, want)
			}
			if line["level"] != c.level {
				t.Errorf("level %v, want %v", line["level"], c.level)
			}
			for k, want := range c.want {
				if line[k] != want {
					t.Errorf("%s: %v, want %v", k, line[k], want)
				}
			}
			if _, err := time.Parse(time.RFC3339, line["timestamp"].(string)); err != nil {
				t.Error(err) // Lambda takes no other format
			}
		})
	}
}

func TestUnchangeableLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	New(Config{Log: &out}).Unchangeable(inLambda(t.Context()), cycle.Unchangeable{EventID: "e-1", Reason: "constraint\nx"})
	all := lines(t, out.String())
	if len(all) != 1 || all[0]["msg"] != "unchangeable" || all[0]["level"] != "WARN" || all[0]["event_id"] != "e-1" || all[0]["error"] != "constraint x" || all[0]["requestId"] != "request-1" {
		t.Errorf("got %s", &out)
	}
}

func TestInvocationLine(t *testing.T) {
	for name, c := range map[string]struct {
		report cycle.Report
		err    error
		level  string
		want   map[string]any
	}{
		"Done":         {cycle.Report{Enabled: true, Cycles: 1, Claimed: 5, Succeeded: 4, Retried: 1, DurationMS: 812, Stopped: cycle.Drained}, nil, "INFO", map[string]any{"claimed": 5.0, "stopped": "drained", "duration_ms": 812.0}},
		"EndpointDown": {cycle.Report{Stopped: cycle.EndpointDown}, nil, "WARN", nil},
		"DryRun":       {cycle.Report{DryRun: &cycle.DryRun{Due: make([]cycle.DueEvent, 7)}}, nil, "INFO", map[string]any{"dry_run_due": 7.0}},
		"NotDone":      {cycle.Report{}, fmt.Errorf("claim: %w", &cycle.TimeError{}), "ERROR", map[string]any{"error_type": "*fmt.wrapError"}},
		"AgeWithoutEnd": {
			cycle.Report{OldestDueAgeSeconds: math.Inf(1)}, nil, "INFO", map[string]any{"oldest_due_age_seconds": float64(longestAge)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			New(Config{Log: &out}).Reported(inLambda(t.Context()), c.report, c.err)
			all := lines(t, out.String())
			if len(all) != 1 || all[0]["msg"] != "invocation" || all[0]["level"] != c.level || all[0]["requestId"] != "request-1" || all[0]["trace_id"] != traceID {
				t.Fatalf("got %s, want one line at %s", &out, c.level)
			}
			for k, want := range c.want {
				if all[0][k] != want {
					t.Errorf("%s: %v, want %v", k, all[0][k], want)
				}
			}
			if (all[0]["error"] != nil) != (c.err != nil) {
				t.Errorf("error: %v for %v", all[0]["error"], c.err)
			}
		})
	}

	t.Run("ALongErrorStaysOneShortLine", func(t *testing.T) {
		var out, metrics bytes.Buffer
		New(Config{Log: &out, Metrics: &metrics}).Reported(t.Context(), cycle.Report{Claimed: 10, Retried: 10}, errors.New(strings.Repeat("no \"database\"\r\n\x00\u2028", 20_000)))
		if all := lines(t, out.String()); len(all) != 1 || out.Len() > 8<<10 {
			t.Errorf("%d lines of %d bytes, want one of 8 KB at most", len(all), out.Len())
		}
		if e := parseEMF(t, metrics.String()); len(e) != 1 || e[0].values["Retried"][0] != 10 || strings.Contains(metrics.String(), "database") {
			t.Errorf("metrics %v", e)
		}
	})

	t.Run("HasEveryFieldOfTheReport", func(t *testing.T) {
		var out bytes.Buffer
		New(Config{Log: &out}).Reported(t.Context(), cycle.Report{}, nil)
		line := lines(t, out.String())[0]
		for _, own := range []string{"timestamp", "level", "msg"} {
			delete(line, own)
		}
		text, _ := json.Marshal(cycle.Report{})
		var report map[string]any
		json.Unmarshal(text, &report)
		if got, want := sortedKeys(line), sortedKeys(report); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("fields %v\n  want %v", got, want)
		}
	})
}

func TestLogger(t *testing.T) {
	t.Run("LevelKeepsLinesBack", func(t *testing.T) {
		var out bytes.Buffer
		telemetry := New(Config{Log: &out, Level: slog.LevelWarn})
		telemetry.Attempted(t.Context(), success())
		telemetry.Reported(t.Context(), cycle.Report{}, nil)
		_, end := telemetry.Step(t.Context(), "claim")
		end(nil)
		if out.Len() != 0 {
			t.Errorf("wrote %s", &out)
		}
		telemetry.Attempted(t.Context(), failure())
		if len(lines(t, out.String())) != 1 {
			t.Errorf("wrote %q, want the failure", &out)
		}
	})

	t.Run("DebugShowsSteps", func(t *testing.T) {
		var out bytes.Buffer
		_, end := New(Config{Log: &out, Level: slog.LevelDebug}).Step(inLambda(t.Context()), "claim")
		end(errors.New("no\ndatabase"))
		line := lines(t, out.String())[0]
		if line["msg"] != "step" || line["step"] != "claim" || line["error"] != "no database" || line["trace_id"] != traceID {
			t.Errorf("got %v", line)
		}
	})

	t.Run("GroupsAndAttributesKeepTheIDs", func(t *testing.T) {
		var out bytes.Buffer
		l := New(Config{Log: &out}).Logger().With("a", 1).WithGroup("g")
		l.InfoContext(inLambda(t.Context()), "x", "b", 2)
		if got := out.String(); !strings.Contains(got, "request-1") || !strings.Contains(got, traceID) {
			t.Errorf("wrote %s", got)
		}
	})

	t.Run("TextIsForATerminal", func(t *testing.T) {
		var out bytes.Buffer
		New(Config{Log: &out, Text: true}).Attempted(t.Context(), success())
		if !strings.Contains(out.String(), "msg=attempt") || strings.Contains(out.String(), "{") {
			t.Errorf("wrote %s", &out)
		}
	})

	// aws-lambda-go hands the error of a handler to the log package.
	t.Run("HandlerErrorsComeAsJSON", func(t *testing.T) {
		stdout, stderr := runChild(t, "handler error", "AWS_LAMBDA_RUNTIME_API=127.0.0.1:1")
		all := lines(t, stdout)
		if stderr != "" || len(all) != 1 || all[0]["level"] != "ERROR" || !strings.Contains(fmt.Sprint(all[0]["msg"]), "no database") {
			t.Errorf("stdout %q, stderr %q; want one line at ERROR", stdout, stderr)
		}
	})
}
