package config_test

import (
	"slices"
	"testing"
)

func TestLoadReadsBooleans(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"true", "True", "TRUE", "1", "yes", "on", " true\n"} {
		if !load(t, required.with("DATABASE_IAM_AUTH", v)).Database.IAMAuth {
			t.Errorf("%q is not true", v)
		}
	}
	for _, v := range []string{"false", "False", "0", "no", "off", ""} {
		if load(t, required.with("DATABASE_IAM_AUTH", v)).Database.IAMAuth {
			t.Errorf("%q is not false", v)
		}
	}
	for _, v := range []string{"t", "wahr", "2", "-1", "enabled", "true false", "null"} {
		if got := problems(t, required.with("DATABASE_IAM_AUTH", v)); !slices.Equal(got, []string{"DATABASE_IAM_AUTH"}) {
			t.Errorf("%q: problems with %v", v, got)
		}
	}
}

func TestLoadRefusesNumbersOutOfBounds(t *testing.T) {
	t.Parallel()
	whole := []string{"1.5", "1e3", "0x10", "1_000", "ten", "10 rows", "9223372036854775808", "-1", "NaN", "٣"}
	seconds := []string{"abc", "1,5", "30s", "-1", "-0.001", "NaN", "inf", "+Inf", "-Inf", "Infinity", "1e400", "1e9", "0x", "١"}
	for name, wrong := range map[string][]string{
		"N8N_HTTP_TIMEOUT_SECONDS":   append(seconds, "0", "0.0001", "901"),
		"N8N_DELIVERY_LEASE_SECONDS": append(seconds, "0", "86401"),
		"N8N_BACKOFF_CAP_SECONDS":    append(seconds, "0", "86401", "1e-400"),
		"DISPATCH_LINGER_SECONDS":    append(seconds, "900.5"),
		"N8N_MAX_BODY_BYTES":         append(whole, "0", "268435457"),
		"N8N_MAX_ATTEMPTS":           append(whole, "0", "1000001"),
		"DISPATCH_CLAIM_LIMIT":       append(whole, "0", "10001"),
		"DISPATCH_RECLAIM_LIMIT":     append(whole, "0", "10001"),
		"DISPATCH_CLAIM_BYTES":       append(whole, "0", "1073741825"),
		"DISPATCH_CONCURRENCY":       append(whole, "0", "1001"),
		"DISPATCH_MAX_CYCLES":        append(whole, "1000001"),
		"DISPATCH_MAX_LOST_LEASES":   append(whole, "0", "1001"),
	} {
		for _, v := range wrong {
			if got := problems(t, required.with(name, v)); !slices.Equal(got, []string{name}) {
				t.Errorf("%s=%s: problems with %v", name, v, got)
			}
		}
	}
}

// The outcome has to be written within the lease.
func TestLoadKeepsTheLeaseLongerThanThePOST(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout, lease string
		ok             bool
	}{
		{"30", "32", true},
		{"30", "31.999", false},
		{"30", "30", false},
		{"0.5", "2.5", true},
		{"0.5", "2.499", false},
		{"0.1", "2.1", true}, // no number that a float has exactly
		{"900", "902", true},
		{"178", "", true},
		{"178.001", "", false},
		{"", "32", true},
		{"", "31", false},
	} {
		got := problems(t, required.with("N8N_HTTP_TIMEOUT_SECONDS", c.timeout, "N8N_DELIVERY_LEASE_SECONDS", c.lease))
		if c.ok && got != nil || !c.ok && !slices.Equal(got, []string{"N8N_DELIVERY_LEASE_SECONDS"}) {
			t.Errorf("timeout %q, lease %q: problems with %v", c.timeout, c.lease, got)
		}
	}
	// A wrong timeout is its own problem alone.
	if got := problems(t, required.with("N8N_HTTP_TIMEOUT_SECONDS", "x", "N8N_DELIVERY_LEASE_SECONDS", "1")); !slices.Equal(got, []string{"N8N_HTTP_TIMEOUT_SECONDS"}) {
		t.Errorf("problems with %v", got)
	}
}
