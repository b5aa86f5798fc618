package operator

import (
	"fmt"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// next says what happens to an event and when. maxAttempts is 0 where the
// dispatcher's setting is not known.
func next(d Detail, maxAttempts int) string {
	switch d.State {
	case Due:
		return pending(d, maxAttempts, dueNow(d))
	case Later:
		return pending(d, maxAttempts, fmt.Sprintf("It waits for its next attempt, due in %s (at %s).", Span(d.DueAt().Since(d.Now)), d.DueAt()))
	case Suspect:
		when := "It is a suspect: it lost several leases in a row, so it goes out alone, after everything else that is due."
		if wait := d.DueAt().Since(d.Now); d.NextAttemptAt != nil && wait > 0 {
			when += fmt.Sprintf(" Not before %s (in %s).", d.DueAt(), Span(wait))
		}
		return pending(d, maxAttempts, when)
	case Leased:
		left := d.NextAttemptAt.Since(d.Now)
		return fmt.Sprintf("A worker holds it. If no outcome is recorded by %s (in %s), the next invocation after that takes it back.", *d.NextAttemptAt, Span(left))
	case Expired:
		ago := d.Now.Since(*d.NextAttemptAt)
		s := fmt.Sprintf("Its lease ran out %s ago. The next invocation takes it back and sends it; at once: operator reclaim.", Span(ago))
		return s + pausedNote(d)
	case Parked:
		return "Nothing. Somebody parked it: it is delivering without a deadline, so nobody takes it back. To let it go out: operator reclaim " + d.ID + " --force."
	}
	switch outbox.Status(d.Status) {
	case outbox.Succeeded:
		return "Nothing: n8n acknowledged it. It stays until it is pruned."
	case outbox.Failed:
		if d.Code == DefaultCancelCode {
			return "Nothing: somebody cancelled it. To send it after all: operator replay " + d.ID + "."
		}
		return "Nothing, until a person replays it: operator replay " + d.ID + ". Mend the cause first."
	}
	return fmt.Sprintf("Nothing: delivery_status %q is somebody else's, and the dispatcher never touches it.", d.Status)
}

func dueNow(d Detail) string {
	if late := d.Now.Since(d.DueAt()); late > 0 {
		return fmt.Sprintf("It has been due for %s%s. The next invocation takes it, if its turn comes.", Span(late), before(d.Before))
	}
	return fmt.Sprintf("It was never tried, so it is due although it is dated %s%s. The next invocation takes it, if its turn comes.", d.OccurredAt, before(d.Before))
}

func before(n int) string {
	if n == 0 {
		return ", and is the first in line"
	}
	return fmt.Sprintf(", with %d before it", n)
}

// pending adds what holds for every pending event.
func pending(d Detail, maxAttempts int, when string) string {
	made := d.Attempts - d.AttemptsBase
	s := fmt.Sprintf("%s That will be attempt %d", when, made+1)
	if d.AttemptsBase > 0 {
		s += " since the replay"
	}
	switch {
	case maxAttempts > 0 && made+1 >= maxAttempts:
		s += fmt.Sprintf(" of %d, the last: if it fails, the event is failed.", maxAttempts)
	case maxAttempts > 0:
		s += fmt.Sprintf(" of %d.", maxAttempts)
	default:
		s += "."
	}
	return s + pausedNote(d)
}

func pausedNote(d Detail) string {
	if d.Paused {
		return " But the dispatcher is paused, so nothing goes out before: operator resume."
	}
	return ""
}

// Span writes a time span for people: the two largest units, or one where the other
// would be zero.
func Span(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < time.Second:
		return "less than a second"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, day, "d", time.Hour, "h")
}

const day = 24 * time.Hour

// units writes a time span in two units, or in one where that tells it all.
func units(d, large time.Duration, name string, small time.Duration, smallName string) string {
	s := fmt.Sprintf("%d%s", d/large, name)
	if rest := d % large / small; rest > 0 {
		s += fmt.Sprintf("%d%s", rest, smallName)
	}
	return s
}

// Ago writes how long something is past, or ahead where d is negative.
func Ago(d time.Duration) string {
	if d < 0 {
		return "in " + Span(d)
	}
	return Span(d) + " ago"
}
