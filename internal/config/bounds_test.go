package config_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// guarantees are what the bounds of the settings are for.
var guarantees = []struct {
	name  string
	holds func(config.Settings) bool
}{
	{"in the longest invocation a POST can start after a slow cold start", func(s config.Settings) bool {
		return s.HTTPTimeout > 0 && s.Needed() <= cycle.LongestInvocation-cycle.StartMargin+cycle.PostMargin
	}},
	{"a POST and its outcome fit into the lease", func(s config.Settings) bool { return s.Lease >= s.Needed() }},
	{"the events of a worker that died are reclaimed within a day", func(s config.Settings) bool { return s.Lease <= 24*time.Hour }},
	{"an innocent event does not fail with the one that killed its worker", func(s config.Settings) bool {
		return s.MaxLostLeases > outbox.SuspectLeases // the loss that fails it happened to it alone
	}},
	{"an event that always fails ends, and its counts fit an integer of Postgres", func(s config.Settings) bool {
		return s.Policy.MaxAttempts >= 1 && int64(s.Policy.MaxAttempts)*int64(s.MaxLostLeases) < math.MaxInt32
	}},
	{"a failed event is due again within an hour and not at once", func(s config.Settings) bool {
		for _, attempts := range []int{0, 1, 30, 31, 63, 64, s.Policy.MaxAttempts} {
			if d := outbox.Backoff(attempts, s.Policy.BackoffCap); d < 100*time.Millisecond || d > outbox.MaxRetryAfter {
				return false
			}
		}
		return true
	}},
	{"a claim takes something, and its dry run fits the 6 MB that a Lambda returns", func(s config.Settings) bool {
		due, err := json.Marshal(cycle.DueEvent{EventID: strings.Repeat("x", 36), EventType: strings.Repeat("x", 200), Attempts: math.MaxInt32, AgeSeconds: 1e15 + 0.123456})
		return err == nil && s.ClaimLimit >= 1 && s.ReclaimLimit >= 1 && s.ClaimLimit*len(due) < 6_000_000
	}},
	{"the POSTs in flight leave file descriptors for the rest", func(s config.Settings) bool { return s.Concurrency >= 1 && 2*s.Concurrency <= 1024-24 }},
	{"the payloads of a claim fit the least memory, four times over", func(s config.Settings) bool {
		return 4*max(s.ClaimBytes, s.MaxBodyBytes) <= cycle.LeastMemory && s.ClaimBytes >= 1<<20
	}},
	{"n8n takes the largest body, and an event without data can be sent", func(s config.Settings) bool {
		null := []byte("null")
		_, unusable := outbox.Envelope(strings.Repeat("x", 36), strings.Repeat("x", 200), 0, outbox.Payload{Object: true, Correlation: null, Aggregate: null, Data: null}, s.MaxBodyBytes)
		return s.MaxBodyBytes < 16<<20 && unusable == ""
	}},
	{"the invocation ends by its deadline, whatever is due", func(s config.Settings) bool {
		return s.MaxCycles >= 0 && s.Linger >= 0 && s.Linger <= cycle.LongestInvocation
	}},
}

// At each end of the range of each setting every guarantee holds, and beyond the end
// the setting is refused: see TestLoadRefuses.
func TestEachBoundKeepsEachGuarantee(t *testing.T) {
	t.Parallel()
	for _, d := range config.All {
		if d.Range() == "" {
			continue
		}
		for _, n := range []float64{d.Min, d.Max} {
			e := required.with("N8N_DELIVERY_LEASE_SECONDS", "900", d.Name, strconv.FormatFloat(n, 'f', -1, 64))
			if d.Name == "N8N_DELIVERY_LEASE_SECONDS" && n < 32 { // the shortest lease goes with the shortest POST
				e = e.with(d.Name, "2.001", "N8N_HTTP_TIMEOUT_SECONDS", "0.001")
			}
			s := load(t, e)
			for _, g := range guarantees {
				if !g.holds(s) {
					t.Errorf("with %s=%v it does not hold that %s", d.Name, n, g.name)
				}
			}
		}
	}
}
