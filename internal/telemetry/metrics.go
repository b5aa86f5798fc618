package telemetry

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// Namespace of the metrics in CloudWatch.
const Namespace = "OutboxDispatcher"

const (
	// maxValues is how many values of one metric CloudWatch takes from a line.
	maxValues = 100
	// maxSamples bounds the values kept of one invocation, and so its lines to 20.
	// Above it every second one is dropped, evenly, which leaves percentiles right.
	maxSamples = 20 * maxValues
	// longestAge stands for an age without end, as of an event that occurred at
	// -infinity: a metric must be finite. A hundred years in seconds.
	longestAge = 100 * 365 * 24 * 3600
)

// metric is the definition of a metric, as the format spells it.
type metric struct {
	Name string
	Unit string
}

// counts lists the metrics that every invocation has, each with its value.
func counts(r cycle.Report) ([]metric, []float64) {
	var metrics []metric
	var values []float64
	for _, m := range []struct {
		name, unit string
		value      float64
	}{
		{"Reclaimed", "Count", float64(r.Reclaimed)},
		{"Claimed", "Count", float64(r.Claimed)},
		{"Succeeded", "Count", float64(r.Succeeded)},
		{"Retried", "Count", float64(r.Retried)},
		{"Failed", "Count", float64(r.Failed)},
		{"Released", "Count", float64(r.Released)},
		{"Lost", "Count", float64(r.Lost)},
		{"Unrecorded", "Count", float64(r.Unrecorded)},
		{"LeaseLostFailed", "Count", float64(r.LeaseLostFailed)},
		{"BacklogDue", "Count", float64(r.BacklogDue)},
		{"OldestDueAge", "Seconds", r.OldestDueAgeSeconds},
		{"Parked", "Count", float64(r.Parked)},
		{"FailedTotal", "Count", float64(r.FailedTotal)},
		{"CycleDuration", "Milliseconds", float64(r.DurationMS)},
	} {
		metrics, values = append(metrics, metric{m.name, m.unit}), append(values, m.value)
	}
	return metrics, values
}

// measure keeps what an attempt adds to the metrics.
func (t *Telemetry) measure(a cycle.Attempt) {
	if t.metrics == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.Duration > 0 {
		t.delivery.add(milliseconds(a.Duration))
	}
	if a.Status == outbox.Succeeded {
		t.commitToAck.add(float64(a.CommitToAck.Milliseconds()) / 1000)
	}
}

// writeMetrics writes the metrics of an invocation and starts anew. The first line
// has every count, zero or not, and the first values of the attempts; further lines
// have the other values. All go out in one write, so that nothing comes between.
//
// An invocation that sent nothing has no value of DeliveryDuration and CommitToAck:
// zeros would falsify their percentiles.
func (t *Telemetry) writeMetrics(now time.Time, r cycle.Report) {
	if t.metrics == nil {
		return
	}
	t.mu.Lock()
	delivery, commitToAck := t.delivery.values, t.commitToAck.values
	t.delivery, t.commitToAck = samples{}, samples{}
	t.mu.Unlock()

	var lines bytes.Buffer
	for first := true; first || len(delivery) > 0 || len(commitToAck) > 0; first = false {
		line := map[string]any{"Stack": t.stack}
		var metrics []metric
		if first {
			var values []float64
			metrics, values = counts(r)
			for i, m := range metrics {
				line[m.Name] = values[i]
			}
		}
		take := func(m metric, values *[]float64) {
			n := min(len(*values), maxValues)
			if n == 0 {
				return
			}
			metrics, line[m.Name] = append(metrics, m), (*values)[:n]
			*values = (*values)[n:]
		}
		take(metric{"DeliveryDuration", "Milliseconds"}, &delivery)
		take(metric{"CommitToAck", "Seconds"}, &commitToAck)
		line["_aws"] = map[string]any{
			"Timestamp": now.UnixMilli(),
			"CloudWatchMetrics": []any{map[string]any{
				"Namespace": Namespace, "Dimensions": [][]string{{"Stack"}}, "Metrics": metrics,
			}},
		}
		json.NewEncoder(&lines).Encode(line) // finite numbers and short strings: it cannot fail
	}
	t.metrics.Write(lines.Bytes())
}

// finite returns the report with no number that JSON or CloudWatch cannot hold.
func finite(r cycle.Report) cycle.Report {
	switch age := r.OldestDueAgeSeconds; {
	case math.IsNaN(age) || age < 0:
		r.OldestDueAgeSeconds = 0
	case age > longestAge:
		r.OldestDueAgeSeconds = longestAge
	}
	return r
}

// samples keeps values, at most maxSamples, evenly thinned out beyond that. The
// zero value is empty.
type samples struct {
	values []float64
	seen   int
	skip   int // how many are passed over for each that is kept
}

func (s *samples) add(v float64) {
	s.seen++
	if len(s.values) == maxSamples {
		for i := range maxSamples / 2 {
			s.values[i] = s.values[2*i+1]
		}
		s.values = s.values[:maxSamples/2]
		s.skip = 2*s.skip + 1
	}
	if s.seen%(s.skip+1) == 0 {
		s.values = append(s.values, v)
	}
}
