package operator

import (
	"math"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// now is 2026-11-30 20:00:00 UTC.
var now = Instant(time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC).UnixMicro())

func in(d time.Duration) *Instant {
	i := now + Instant(d.Microseconds())
	return &i
}

func TestStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status string
		next   *Instant
		lost   int
		want   State
	}{
		{"pending", nil, 0, Due},
		{"pending", in(0), 0, Due},
		{"pending", in(-time.Hour), 1, Due},
		{"pending", in(time.Microsecond), 0, Later},
		{"pending", in(time.Hour), 2, Suspect},
		{"pending", nil, 7, Suspect},
		{"delivering", nil, 0, Parked},
		{"delivering", in(0), 0, Expired},
		{"delivering", in(time.Minute), 0, Leased},
		{"succeeded", nil, 0, "succeeded"},
		{"failed", nil, 5, "failed"},
		{"paused", in(time.Hour), 0, "paused"},
	} {
		e := Event{Status: c.status, NextAttemptAt: c.next, LostLeases: c.lost, OccurredAt: *in(-time.Minute)}
		if e.Complete(now); e.State != c.want || e.AgeSeconds != 60 {
			t.Errorf("%s, next %v, lost %d: %s, age %g; want %s, 60", c.status, c.next, c.lost, e.State, e.AgeSeconds, c.want)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		d    Detail
		max  int
		want string
	}{
		{"Due", Detail{Event: Event{Status: "pending", Attempts: 3, NextAttemptAt: in(-90 * time.Second)}, Before: 7}, 100,
			"It has been due for 1m30s, with 7 before it. The next invocation takes it, if its turn comes. That will be attempt 4 of 100."},
		{"NeverTriedAndDatedInTheFuture", Detail{Event: Event{Status: "pending", OccurredAt: *in(time.Hour)}}, 0,
			"It was never tried, so it is due although it is dated 2026-11-30 21:00:00 UTC, and is the first in line. The next invocation takes it, if its turn comes. That will be attempt 1."},
		{"Later", Detail{Event: Event{Status: "pending", Attempts: 99, NextAttemptAt: in(45 * time.Second)}}, 100,
			"It waits for its next attempt, due in 45s (at 2026-11-30 20:00:45 UTC). That will be attempt 100 of 100, the last: if it fails, the event is failed."},
		{"Replayed", Detail{Event: Event{Status: "pending", Attempts: 100, AttemptsBase: 100, NextAttemptAt: in(time.Second)}}, 100,
			"That will be attempt 1 since the replay of 100."},
		{"Paused", Detail{Event: Event{Status: "pending", NextAttemptAt: in(-time.Second)}, Paused: true}, 0,
			"But the dispatcher is paused, so nothing goes out before: operator resume."},
		{"Suspect", Detail{Event: Event{Status: "pending", LostLeases: 2, NextAttemptAt: in(time.Hour)}}, 0,
			"alone, after everything else that is due. Not before 2026-11-30 21:00:00 UTC (in 1h)."},
		{"Leased", Detail{Event: Event{Status: "delivering", NextAttemptAt: in(2 * time.Minute)}}, 0,
			"A worker holds it. If no outcome is recorded by 2026-11-30 20:02:00 UTC (in 2m), the next invocation after that takes it back."},
		{"Expired", Detail{Event: Event{Status: "delivering", NextAttemptAt: in(-2 * time.Minute)}, Paused: true}, 0,
			"Its lease ran out 2m ago. The next invocation takes it back and sends it; at once: operator reclaim. But the dispatcher is paused"},
		{"Parked", Detail{Event: Event{ID: someID, Status: "delivering"}}, 0, "operator reclaim " + someID + " --force."},
		{"Succeeded", Detail{Event: Event{Status: "succeeded"}}, 0, "Nothing: n8n acknowledged it."},
		{"Failed", Detail{Event: Event{ID: someID, Status: "failed"}}, 0, "operator replay " + someID + "."},
		{"Cancelled", Detail{Event: Event{ID: someID, Status: "failed", Code: DefaultCancelCode}}, 0, "Nothing: somebody cancelled it. To send it after all: operator replay " + someID + "."},
		{"SomebodyElses", Detail{Event: Event{Status: "paused"}}, 0, `delivery_status "paused" is somebody else's`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.d.OccurredAt == 0 {
				c.d.OccurredAt = *in(-time.Hour)
			}
			c.d.Complete(now)
			c.d.Now = now
			if got := next(c.d, c.max); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	d := Detail{Now: now, Event: Event{OccurredAt: *in(-26 * time.Hour), Attempts: 103, AttemptsBase: 100, LostLeases: 1, Code: "connectionError", Error: "HTTP 503", RunID: "12"}}
	want := []string{
		"occurred at 2026-11-29 18:00:00 UTC, 1d2h ago",
		"was replayed by an operator after 100 attempts",
		"since then 3 attempts, in all 103",
		"lost 1 lease in a row without an outcome",
		"last error (connectionError): HTTP 503",
		"n8n's execution was 12",
	}
	if got := history(d); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if got := history(Detail{Now: now, Event: Event{OccurredAt: *in(2 * time.Hour), Attempts: 100, AttemptsBase: 100}}); got[0] != "occurred at 2026-11-30 22:00:00 UTC, in 2h" ||
		got[2] != "no attempt was recorded since then" {
		t.Errorf("dated in the future, and replayed: %q", got)
	}
	if got := history(Detail{Now: now, Event: Event{OccurredAt: now}}); len(got) != 2 || got[1] != "no attempt was recorded yet" {
		t.Errorf("got %q", got)
	}
}

func TestInstant(t *testing.T) {
	t.Parallel()
	for i, want := range map[Instant]string{
		now:                         "2026-11-30T20:00:00+00:00",
		now + 120_000:               "2026-11-30T20:00:00.120000+00:00",
		Instant(outbox.Infinity):    "infinity",
		Instant(outbox.NegInfinity): "-infinity",
	} {
		if got, err := i.MarshalText(); string(got) != want || err != nil {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for i, want := range map[Instant]string{
		now + 999_999:               "2026-11-30 20:00:00 UTC",
		Instant(outbox.Infinity):    "infinity",
		Instant(outbox.NegInfinity): "-infinity",
	} {
		if got := i.String(); got != want {
			t.Errorf("for people: got %s, want %s", got, want)
		}
	}
	// What is further away than a Duration reaches is a century.
	if got := now.Since(math.MinInt64); got != longest {
		t.Errorf("since -infinity: %v", got)
	}
	if got := Instant(math.MinInt64).Since(math.MaxInt64); got != -longest {
		t.Errorf("-infinity since infinity: %v", got)
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "less than a second", 999 * time.Millisecond: "less than a second", time.Second: "1s", -59 * time.Second: "59s",
		time.Minute: "1m", time.Hour - time.Second: "59m59s", time.Hour: "1h", 120 * time.Hour: "5d", 24*time.Hour + time.Minute: "1d", 26 * time.Hour: "1d2h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
