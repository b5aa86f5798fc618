package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outbox-dispatcher/internal/operator"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	show := func(t *testing.T, moves bool, every time.Duration, times int) string {
		var out strings.Builder
		synctest.Test(t, func(*testing.T) {
			l := &progressLine{w: &out, moves: moves}
			for i := range times {
				l.show(operator.Progress{Action: "prune", Done: i * 1000, Of: 1_000_000, Part: float64(i) / float64(times)})
				time.Sleep(every)
			}
			l.end()
		})
		return out.String()
	}
	if got := show(t, true, 100*time.Millisecond, 5); got != "" {
		t.Errorf("short work says %q", got)
	}
	got := show(t, true, 500*time.Millisecond, 5)
	want := "\rprune: 2,000 of 1,000,000 events, 40 %, 1s left\rprune: 3,000 of 1,000,000 events, 60 %, 1s left\rprune: 4,000 of 1,000,000 events, 80 %, less than a second left\n"
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := show(t, false, time.Second, 25); strings.Count(got, "\n") != 3 || strings.Contains(got, "\r") {
		t.Errorf("off a terminal: %q", got)
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
