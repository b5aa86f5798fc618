package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// claimedRows are the rows that claim.sql returns, in whatever order. The body of
// an event is built straight from the bytes of its row, so that a payload is held
// once.
type claimedRows struct {
	maxBody int64
	cut     bool // the bytes ended the batch
	events  []outbox.Event
	places  []int // of the events, in claim order
}

func (r *claimedRows) add(c [][]byte) error {
	place, err := strconv.Atoi(string(c[0]))
	if err != nil {
		return err
	}
	occurred, err := parseTime(string(c[3]))
	if err != nil {
		return err
	}
	attempts, err := strconv.Atoi(string(c[4]))
	if err != nil {
		return err
	}
	base, err := strconv.Atoi(string(c[5]))
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(string(c[10]), 10, 64)
	if err != nil {
		return err
	}
	e := outbox.Event{
		ID: string(c[1]), Type: string(c[2]), Occurred: occurred, Attempts: attempts, Base: base,
		Claim: outbox.Claim{Due: string(c[6]), Deadline: string(c[7]), Token: string(c[8])},
	}
	payload := outbox.Payload{Object: string(c[9]) == "object", Correlation: c[11], Aggregate: c[12], Data: c[13], Size: size}
	e.Body, e.Unusable = outbox.Envelope(e.ID, e.Type, e.Occurred, payload, r.maxBody)
	r.events, r.places = append(r.events, e), append(r.places, place)
	r.cut = string(c[14]) == "true"
	return nil
}

// inOrder returns the events in claim order.
func (r *claimedRows) inOrder() []outbox.Event {
	order := make([]int, len(r.events))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(r.places[a], r.places[b]) })
	sorted := make([]outbox.Event, len(order))
	for i, from := range order {
		sorted[i] = r.events[from]
	}
	return sorted
}

// backlogFacts is what backlog.sql returns.
type backlogFacts struct {
	backlog  cycle.Backlog
	suspects bool
	paused   bool
	now      string
	clock    outbox.Micros
}

func (f *backlogFacts) add(c [][]byte) error { return f.parse(asTexts(c)) }

func (f *backlogFacts) parse(row []string) (err error) {
	number := func(s string) int {
		n, e := strconv.Atoi(s)
		if e != nil {
			err = e
		}
		return min(n, cycle.BacklogCap)
	}
	f.backlog.Due, f.backlog.Parked, f.backlog.Failed = number(row[0]), number(row[2]), number(row[3])
	age, e := strconv.ParseFloat(row[1], 64)
	if e != nil {
		return e
	}
	// Ages beyond a Duration's 292 years come from a wrong date; a century tells
	// as much.
	f.backlog.OldestDueAge = time.Duration(min(max(age, 0), 100*365*86400) * float64(time.Second))
	f.suspects, f.paused = row[4] == "true", row[5] == "true"
	f.now = row[6]
	if err != nil {
		return err
	}
	f.clock, err = parseTime(f.now)
	return err
}

// parseTime reads a timestamptz as Postgres writes it with DateStyle ISO in UTC:
// 2025-01-02 03:04:05.12+00, years of any length, a BC behind it, infinity.
func parseTime(s string) (outbox.Micros, error) {
	switch s {
	case "infinity":
		return outbox.Infinity, nil
	case "-infinity":
		return outbox.NegInfinity, nil
	}
	rest, bc := strings.CutSuffix(s, " BC")
	yearText, rest, ok := strings.Cut(rest, "-")
	year, err := strconv.Atoi(yearText)
	if !ok || err != nil {
		return 0, fmt.Errorf("a time from the database cannot be read: %q", s)
	}
	// The year is put in by hand: time.Parse knows four digits only. 2000 is a
	// leap year, so that 29 February can be read.
	t, err := time.Parse("2006-01-02 15:04:05.999999-07", "2000-"+rest)
	if err != nil {
		return 0, fmt.Errorf("a time from the database cannot be read: %q", s)
	}
	if bc {
		year = 1 - year
	}
	if year > lastYear { // Micros ends there, Postgres some thirty years later
		return outbox.Infinity, nil
	}
	t = time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	return outbox.Micros(t.UnixMicro()), nil
}

// lastYear is the last whole year that fits into microseconds since 1970.
const lastYear = 294246 - 1
