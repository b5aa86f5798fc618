package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
)

// emf is a metric line, taken apart and checked.
type emf struct {
	units  map[string]string
	values map[string][]float64
}

// parseEMF checks each line by the rules of the embedded metric format: what
// breaks one of them is dropped by CloudWatch without a word.
func parseEMF(t *testing.T, text string) (all []emf) {
	t.Helper()
	for _, line := range lines(t, text) {
		meta := line["_aws"].(map[string]any)
		if age := time.Since(time.UnixMilli(int64(meta["Timestamp"].(float64)))); age < 0 || age > time.Minute {
			t.Errorf("timestamp %v is %v old", meta["Timestamp"], age)
		}
		directives := meta["CloudWatchMetrics"].([]any)
		directive := directives[0].(map[string]any)
		if len(directives) != 1 || directive["Namespace"] != "OutboxDispatcher" || fmt.Sprint(directive["Dimensions"]) != "[[Stack]]" || line["Stack"] == "" {
			t.Errorf("directive %v for stack %v", directive, line["Stack"])
		}
		e := emf{map[string]string{}, map[string][]float64{}}
		for _, m := range directive["Metrics"].([]any) {
			m := m.(map[string]any)
			name := m["Name"].(string)
			e.units[name] = m["Unit"].(string)
			values, ok := line[name].([]any)
			if !ok {
				values = []any{line[name]}
			}
			if len(values) == 0 || len(values) > 100 {
				t.Errorf("%s has %d values, want 1 to 100", name, len(values))
			}
			for _, v := range values {
				e.values[name] = append(e.values[name], v.(float64))
			}
		}
		if len(line) != len(e.units)+2 || len(e.units) > 100 {
			t.Errorf("line holds %v, want its %d metrics, Stack and _aws", sortedKeys(line), len(e.units))
		}
		all = append(all, e)
	}
	for line := range strings.Lines(text) {
		if len(line) > 256<<10 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	return all
}

var wantUnits = map[string]string{
	"Reclaimed": "Count", "Claimed": "Count", "Succeeded": "Count", "Retried": "Count", "Failed": "Count", "Released": "Count", "Lost": "Count",
	"Unrecorded": "Count", "LeaseLostFailed": "Count", "BacklogDue": "Count", "OldestDueAge": "Seconds", "Parked": "Count", "FailedTotal": "Count",
	"CycleDuration": "Milliseconds",
}

func TestMetrics(t *testing.T) {
	ctx := t.Context()

	t.Run("EveryInvocationHasEveryCount", func(t *testing.T) {
		for name, err := range map[string]error{"Done": nil, "NotDone": errors.New("no database")} {
			t.Run(name, func(t *testing.T) {
				var out bytes.Buffer
				New(Config{Metrics: &out}).Reported(ctx, cycle.Report{}, err)
				all := parseEMF(t, out.String())
				if len(all) != 1 || fmt.Sprint(all[0].units) != fmt.Sprint(wantUnits) {
					t.Fatalf("got %v, want %v", all, wantUnits)
				}
				for name, values := range all[0].values {
					if len(values) != 1 || values[0] != 0 {
						t.Errorf("%s is %v, want 0", name, values)
					}
				}
			})
		}
	})

	t.Run("CountsAreThoseOfTheReport", func(t *testing.T) {
		var out bytes.Buffer
		New(Config{Metrics: &out, Stack: "prod"}).Reported(ctx, cycle.Report{
			Reclaimed: 1, Claimed: 2, Succeeded: 3, Retried: 4, Failed: 5, Released: 6, Lost: 7, Unrecorded: 8, LeaseLostFailed: 9,
			BacklogDue: 10, OldestDueAgeSeconds: 11.5, Parked: 12, FailedTotal: 13, DurationMS: 14,
		}, nil)
		got := parseEMF(t, out.String())[0].values
		want := map[string][]float64{
			"Reclaimed": {1}, "Claimed": {2}, "Succeeded": {3}, "Retried": {4}, "Failed": {5}, "Released": {6}, "Lost": {7}, "Unrecorded": {8},
			"LeaseLostFailed": {9}, "BacklogDue": {10}, "OldestDueAge": {11.5}, "Parked": {12}, "FailedTotal": {13}, "CycleDuration": {14},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if stack := lines(t, out.String())[0]["Stack"]; stack != "prod" {
			t.Errorf("Stack is %v", stack)
		}
	})

	t.Run("NumbersAreFinite", func(t *testing.T) {
		for _, c := range []struct{ age, want float64 }{
			{math.NaN(), 0}, {math.Inf(1), longestAge}, {math.Inf(-1), 0}, {-5, 0}, {1e300, longestAge}, {86400.25, 86400.25},
		} {
			var out bytes.Buffer
			New(Config{Metrics: &out}).Reported(ctx, cycle.Report{OldestDueAgeSeconds: c.age}, nil)
			if got := parseEMF(t, out.String())[0].values["OldestDueAge"]; got[0] != c.want {
				t.Errorf("age %v comes as %v, want %v", c.age, got, c.want)
			}
		}
	})

	t.Run("AttemptsAddTheirTimes", func(t *testing.T) {
		var out bytes.Buffer
		telemetry := New(Config{Metrics: &out})
		untried := failure()
		untried.Duration = 0
		telemetry.Attempted(ctx, success())
		telemetry.Attempted(ctx, failure())
		telemetry.Attempted(ctx, untried) // sent nothing, so it took no time
		telemetry.Reported(ctx, cycle.Report{}, nil)
		e := parseEMF(t, out.String())[0]
		if got := fmt.Sprint(e.values["DeliveryDuration"], e.units["DeliveryDuration"]); got != "[80 40]Milliseconds" {
			t.Errorf("DeliveryDuration %s", got)
		}
		if got := fmt.Sprint(e.values["CommitToAck"], e.units["CommitToAck"]); got != "[1.5]Seconds" {
			t.Errorf("CommitToAck %s", got)
		}
		out.Reset()
		telemetry.Reported(ctx, cycle.Report{}, nil)
		if e := parseEMF(t, out.String())[0]; e.values["DeliveryDuration"] != nil || e.values["CommitToAck"] != nil {
			t.Errorf("the next invocation repeats %v", e.values)
		}
	})

	for _, c := range []struct{ attempts, wantValues, wantLines int }{
		{1, 1, 1}, {100, 100, 1}, {101, 101, 2}, {500, 500, 5}, {2000, 2000, 20}, {2001, 1000, 10}, {10_000, 1250, 13},
	} {
		t.Run(fmt.Sprintf("%dAttempts", c.attempts), func(t *testing.T) {
			var out buffer
			telemetry := New(Config{Metrics: &out})
			for i := range c.attempts {
				a := success()
				a.Duration = time.Duration(i+1) * time.Millisecond
				telemetry.Attempted(ctx, a)
			}
			telemetry.Reported(ctx, cycle.Report{Claimed: c.attempts}, nil)
			all := parseEMF(t, out.String())
			var delivery, ack []float64
			claimed := 0
			for _, e := range all {
				delivery, ack = append(delivery, e.values["DeliveryDuration"]...), append(ack, e.values["CommitToAck"]...)
				claimed += len(e.values["Claimed"])
			}
			if len(delivery) != c.wantValues || len(ack) != c.wantValues || len(all) != c.wantLines || claimed != 1 || out.writes != 1 {
				t.Errorf("%d and %d values in %d lines and %d writes, with Claimed %d times; want %d in %d, 1, once",
					len(delivery), len(ack), len(all), out.writes, claimed, c.wantValues, c.wantLines)
			}
			// What is kept is spread over all attempts.
			middle := delivery[len(delivery)/2]
			if want := float64(c.attempts) / 2; math.Abs(middle-want) > 10+want/50 {
				t.Errorf("the middle value is %v, want about %v", middle, want)
			}
		})
	}
}
