package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"outbox-dispatcher/internal/operator"
)

func TestEvent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put(1, "next_attempt_at", "now() - interval '1 min'", "attempts", "5", "attempts_base", "3", "lost_leases", "1", "lost_leases_at", "5")
	d.put(2, "next_attempt_at", "now() - interval '2 min'", "lost_leases", "7", "lost_leases_at", "1") // the count is void
	d.put(3, "next_attempt_at", "now() - interval '3 min'")
	d.put(4, "delivery_status", "'delivering'", "payload_json", `'{"b": 1, "a": 2, "_delivery_claim_token": "t"}'`)
	d.put(5, "payload_json", `'["_delivery_claim_token"]'`, "occurred_at", "now()")
	d.put(6, "payload_json", `'{}'`, "occurred_at", "now()")

	got, err := d.store.Event(t.Context(), eventID(1))
	if err != nil {
		t.Fatal(err)
	}
	if got.Before != 2 || got.Attempts != 5 || got.AttemptsBase != 3 || got.LostLeases != 1 || got.Claimed || got.Paused || got.PayloadKind != "object" ||
		strings.Join(got.PayloadKeys, " ") != "aggregate correlation_id data" || got.PayloadBytes != int64(len(deskPayload)) || got.Payload != nil {
		t.Errorf("%+v", got)
	}
	if got, err = d.store.Event(t.Context(), eventID(2)); err != nil || got.LostLeases != 0 || got.Before != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = d.store.Event(t.Context(), eventID(4)); err != nil || !got.Claimed || strings.Join(got.PayloadKeys, " ") != "a b" || got.State != operator.Parked {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = d.store.Event(t.Context(), eventID(5)); err != nil || got.Claimed || got.PayloadKeys != nil || got.PayloadKind != "array" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = d.store.Event(t.Context(), eventID(6)); err != nil || got.PayloadKeys == nil || len(got.PayloadKeys) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	var missing *operator.NotFoundError
	if _, err = d.store.Event(t.Context(), eventID(99)); !errors.As(err, &missing) {
		t.Errorf("error %v", err)
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ stored, want string }{
		"DigitForDigit": {`{"n": 1.50, "big": 12345678901234567890}`, `{"n": 1.50, "big": 12345678901234567890}`},
		"WithoutToken":  {`{"a": 1, "_delivery_claim_token": "t"}`, `{"a": 1}`},
		"NoObject":      {`[1, "_delivery_claim_token"]`, `[1, "_delivery_claim_token"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.put(1, "payload_json", "'"+c.stored+"'")
			if got, err := d.store.Payload(t.Context(), eventID(1)); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			var missing *operator.NotFoundError
			if _, err := d.store.Payload(t.Context(), eventID(2)); !errors.As(err, &missing) {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("ThatCannotBeRead", func(t *testing.T) {
		t.Parallel()
		d := jsonDesk(t)
		d.put(1, "payload_json", `'{"a":   "\u0000"}'`)
		if got, err := d.store.Payload(t.Context(), eventID(1)); err != nil || got != `{"a":   "\u0000"}` {
			t.Errorf("got %s, %v", got, err)
		}
		e, err := d.store.Event(t.Context(), eventID(1))
		if err != nil || e.PayloadKind != "unreadable" || e.PayloadKeys != nil || e.PayloadBytes != 17 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}
