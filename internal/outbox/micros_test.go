package outbox_test

import (
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

func TestMicrosOnTheWire(t *testing.T) {
	t.Parallel()
	at := func(year int, month time.Month, day, hour, minute, second, microsecond int) outbox.Micros {
		return outbox.Micros(time.Date(year, month, day, hour, minute, second, microsecond*1000, time.UTC).UnixMicro())
	}
	for _, c := range []struct {
		name string
		at   outbox.Micros
		want string
	}{
		{"Epoch", 0, "1970-01-01T00:00:00+00:00"},
		{"WholeSecond", at(2025, 1, 2, 3, 4, 5, 0), "2025-01-02T03:04:05+00:00"},
		{"SixDigits", at(2025, 1, 2, 3, 4, 5, 120_000), "2025-01-02T03:04:05.120000+00:00"},
		{"OneMicrosecond", at(2025, 1, 2, 3, 4, 5, 1), "2025-01-02T03:04:05.000001+00:00"},
		{"LastMicrosecond", at(2025, 12, 31, 23, 59, 59, 999_999), "2025-12-31T23:59:59.999999+00:00"},
		{"LeapDay", at(2024, 2, 29, 0, 0, 0, 0), "2024-02-29T00:00:00+00:00"},
		{"BeforeTheEpoch", -1, "1969-12-31T23:59:59.999999+00:00"},
		{"1870", at(1870, 1, 1, 0, 0, 0, 0), "1870-01-01T00:00:00+00:00"},
		{"Year1", at(1, 1, 1, 0, 0, 0, 0), "0001-01-01T00:00:00+00:00"},
		{"Year999", at(999, 12, 31, 0, 0, 0, 500_000), "0999-12-31T00:00:00.500000+00:00"},
		{"Year9999", at(9999, 12, 31, 23, 59, 59, 999_999), "9999-12-31T23:59:59.999999+00:00"},
		{"Year10000", at(10000, 1, 1, 0, 0, 0, 0), "10000-01-01T00:00:00+00:00"},
		{"Year200000", at(200000, 6, 1, 12, 0, 0, 1), "200000-06-01T12:00:00.000001+00:00"},
		{"1BC", at(0, 2, 29, 0, 0, 0, 0), "0000-02-29T00:00:00+00:00"},
		{"44BC", at(-43, 3, 15, 12, 0, 0, 0), "-0043-03-15T12:00:00+00:00"},
		{"TheFirstDayOfPostgres", at(-4713, 11, 24, 0, 0, 0, 0), "-4713-11-24T00:00:00+00:00"},
		{"Infinity", outbox.Infinity, "9999-12-31T23:59:59.999999+00:00"},
		{"MinusInfinity", outbox.NegInfinity, "0001-01-01T00:00:00+00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.at.Wire(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
