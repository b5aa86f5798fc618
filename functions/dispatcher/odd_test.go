package main_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// Rows as odd as the table lets them be go out, and what is told of them stays
// lines that CloudWatch takes.
func TestOddRowsAreToldInOrdinaryLines(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	odd := []string{
		`occurred_at = '-infinity'`, `occurred_at = 'infinity'`, `occurred_at = '4714-11-24 00:00:00 BC'`, `occurred_at = '294276-12-31 23:59:59.999999'`,
		`next_attempt_at = '-infinity'`, `next_attempt_at = '4714-11-24 00:00:00 BC'`,
		`event_type = ''`, `event_type = E'a\r\n{"_aws":1}\u2028\u202e"'`, `event_type = repeat('😀', 30000)`,
		`attempts = 2000000000, attempts_base = 1999999999`, `attempts_base = 2147483647`, `lost_leases = 2147483647, lost_leases_at = -1`,
		`payload_json = payload_json || '{"correlation_id": null, "aggregate": null, "data": null, "": {"\u0001": "\u007f"}}'`,
		`payload_json = payload_json || '{"_delivery_claim_token": {"not": "a text"}}'`,
		`last_error = repeat('x', 2000000), external_run_id = ''`,
	}
	p.insert(t, len(odd)+1)
	for n, columns := range odd {
		p.exec(t, `update outbox_events set `+columns+` where event_id = $1`, id(n+1))
	}
	p.n8n.Script(id(len(odd)+1), n8ntest.Answer{Status: 500, Body: strings.Repeat("no\r\n", 75_000)})
	f := lambdatest.Start(t, p.path, p.env("LOG_LEVEL=debug")...)
	r := f.Invoke(`{}`, 20*time.Second)
	if got := report(t, r.Body); !r.OK || got.Succeeded != len(odd) || got.Retried != 1 || got.BacklogDue != 0 {
		t.Errorf("%s\n%.5000s", r.Body, f.Output())
	}
	if n := p.count(t, `delivery_status = 'succeeded' and not payload_json ? '_delivery_claim_token' and next_attempt_at is null`); n != len(odd) {
		t.Errorf("%d of %d events are as they should be", n, len(odd))
	}
	for _, line := range strings.Split(strings.TrimSpace(f.Output()), "\n") {
		if !json.Valid([]byte(line)) || len(line) > 8<<10 {
			t.Errorf("%d bytes: %.200s", len(line), line)
		}
	}
}
