package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

func TestAggregates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ given, want string }{
		{"", ""},
		{"id=7", `{"id":"7"} {"id":7}`},
		{"id=007", `{"id":"007"}`}, // no number of JSON
		{"id=1.50", `{"id":"1.50"} {"id":1.50}`},
		{"type=vehicle", `{"type":"vehicle"}`},
		{"done=true", `{"done":"true"} {"done":true}`},
		{"gone=null", `{"gone":"null"} {"gone":null}`},
		{"note=a=b", `{"note":"a=b"}`},
		{"note=", `{"note":""}`},
		{`note=say "so"`, `{"note":"say \"so\""}`},
		{`list=[1]`, `{"list":"[1]"}`}, // JSON is to be given whole
		{"7", `"7" 7`},
		{"vehicle", `"vehicle"`},
		{`"7"`, `"7"`},
		{` {"type": "vehicle", "id": 7} `, `{"type": "vehicle", "id": 7}`},
		{`["a=b"]`, `["a=b"]`},
	} {
		got, err := Filter{Aggregate: c.given}.Aggregates()
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q: %s, %v; want %s", c.given, strings.Join(got, " "), err, c.want)
		}
	}
	for _, given := range []string{`{"id"`, `[1,`, `"open`} {
		if _, err := (Filter{Aggregate: given}).Aggregates(); err == nil {
			t.Errorf("%q is taken", given)
		}
	}
}

func FuzzAggregates(f *testing.F) {
	for _, s := range []string{"id=7", "7", `{"a":1}`, `"x"`, "=", "a=\"", "\xff=\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		documents, err := Filter{Aggregate: s}.Aggregates()
		if err != nil {
			return
		}
		for _, d := range documents {
			if !json.Valid([]byte(d)) {
				t.Errorf("%q became %q, which is no JSON", s, d)
			}
		}
	})
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given string
		want  time.Duration
		shown string
	}{
		{"90s", 90 * time.Second, "1m30s"},
		{"15m", 15 * time.Minute, "15m"},
		{"2h", 2 * time.Hour, "2h"},
		{"2h30m", 150 * time.Minute, "2h30m"},
		{"30d", 720 * time.Hour, "30d"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"1.5d", 36 * time.Hour, "36h"},
		{" 50ms ", 50 * time.Millisecond, "50ms"},
		{"0s", 0, ""},
		{"36500d", 36500 * 24 * time.Hour, "36500d"},
	} {
		var d Duration
		if err := d.Set(c.given); err != nil || time.Duration(d) != c.want || d.String() != c.shown {
			t.Errorf("%q: %v (%q), %v; want %v (%q)", c.given, time.Duration(d), d.String(), err, c.want, c.shown)
		}
	}
	for _, given := range []string{"", "7", "-1h", "-2d", "d", "NaNd", "infd", "1e9d", "36501d", "1h2d", "tomorrow", "1y", "9999999999h"} {
		var d Duration
		if err := d.Set(given); err == nil {
			t.Errorf("%q is taken as %v", given, time.Duration(d))
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"90s", "1d12h", "1.5d", "36500d", "0.1d", "1h0.5s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d, again Duration
		if d.Set(s) != nil {
			return
		}
		if d < 0 || time.Duration(d) > 2*maxDuration {
			t.Errorf("%q became %v", s, time.Duration(d))
		}
		if d == 0 {
			return
		}
		if err := again.Set(d.String()); err != nil && time.Duration(d) <= maxDuration || err == nil && again != d {
			t.Errorf("%q was written as %q, which reads as %v, %v", s, d.String(), time.Duration(again), err)
		}
	})
}

func TestWordsOfAFilter(t *testing.T) {
	t.Parallel()
	f := Filter{Code: "connectionError", Type: "order.placed", Aggregate: "id=7", Text: "403", OlderThan: Duration(time.Hour), NewerThan: Duration(48 * time.Hour), DueFor: Duration(time.Minute)}
	const want = `of code connectionError, of type order.placed, of aggregate id=7, whose error holds "403", older than 1h, newer than 2d, due for 1m`
	if got := f.words(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := some(3, 1234, Choice{Filter: Filter{Code: "x"}}, outbox.Failed); got != "3 of 1234 failed events of code x" {
		t.Error(got)
	}
	if got := some(1, 1, Choice{Status: Words{" suspect", "due"}}, outbox.Pending); got != "1 due or suspect event" {
		t.Error(got)
	}
	if got := some(1, 1, Choice{Status: Words{"due", "pending"}}, outbox.Pending); got != "1 pending event" {
		t.Error(got)
	}
}
