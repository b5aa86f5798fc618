package outbox_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"0", 0},
		{"000", 0},
		{"1", time.Second},
		{"120", 2 * time.Minute},
		{" 120\t", 2 * time.Minute},
		{"0000000000120", 2 * time.Minute},
		{"3599", time.Hour - time.Second},
		{"3600", time.Hour},
		{"3601", time.Hour},
		{"9999", time.Hour},
		{"86400", time.Hour},
		{"9223372036854775807", time.Hour},
		{"9223372036854775808", time.Hour},
		{strings.Repeat("9", 10_000), time.Hour},
		{"-1", 0},
		{"+5", 0},
		{"1.5", 0},
		{"1e3", 0},
		{"0x10", 0},
		{"abc", 0},
		{"120 seconds", 0},
		{"120, 5", 0},
		{"１２０", 0}, // digits, and no ASCII
		{"\x00", 0},
		{"NaN", 0},
		{"Mon, 30 Nov 2026 12:02:00 GMT", 2 * time.Minute},
		{"Monday, 30-Nov-26 12:02:00 GMT", 2 * time.Minute}, // RFC 850
		{"Mon Nov 30 12:02:00 2026", 2 * time.Minute},       // asctime
		{"Mon, 30 Nov 2026 12:00:00 GMT", 0},
		{"Mon, 30 Nov 2026 11:59:59 GMT", 0},
		{"Thu, 01 Jan 1970 00:00:00 GMT", 0},
		{"Mon, 01 Jan 0001 00:00:00 GMT", 0},
		{"Thu, 01 Jan 2099 00:00:00 GMT", time.Hour},
		{"Fri, 31 Dec 9999 23:59:59 GMT", time.Hour},
		{"Mon, 30 Feb 2026 12:02:00 GMT", 0},
		{"Mon, 30 Nov 2026 12:02:00 +0100", 0},
		{"2026-11-30T12:02:00Z", 0},
		{"30 Nov 2026", 0},
	} {
		if got := outbox.RetryAfter(c.header, now); got != c.want {
			t.Errorf("%.40q: %v, want %v", c.header, got, c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "120", "-1", "abc", "0009", strings.Repeat("9", 50), "Thu, 01 Jan 2099 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "Sunday, 06-Nov-94 08:49:37 GMT"} {
		f.Add(s, int64(1_790_000_000))
		f.Add(s, int64(-1)<<62)
	}
	f.Fuzz(func(t *testing.T, header string, now int64) {
		clock := time.Unix(now, 0)
		d := outbox.RetryAfter(header, clock)
		if d < 0 || d > time.Hour {
			t.Fatalf("%v", d)
		}
		at, err := http.ParseTime(strings.Trim(header, " \t"))
		if err != nil && strings.Trim(header, "0123456789 \t") != "" && d != 0 {
			t.Errorf("%q asks for %v and is neither a number nor a date", header, d)
		}
		if err == nil && d > 0 && !at.After(clock) {
			t.Errorf("%q has passed and asks for %v", header, d)
		}
	})
}
