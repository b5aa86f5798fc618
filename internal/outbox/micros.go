package outbox

import (
	"fmt"
	"math"
	"time"
)

// Micros is a time of the database in microseconds since 1970 UTC, the precision of
// Postgres, so that nothing is rounded.
type Micros int64

// The two infinities of timestamptz.
const (
	Infinity    Micros = math.MaxInt64
	NegInfinity Micros = math.MinInt64
)

// Wire formats the time for the envelope: UTC with +00:00, six digits of
// microseconds, or none where they are zero. The infinities become the first and the
// last moment that the receiver can read. A year before 1 is written as in ISO 8601,
// with a year 0 and a minus sign.
func (m Micros) Wire() string {
	switch m {
	case Infinity:
		return "9999-12-31T23:59:59.999999+00:00"
	case NegInfinity:
		return "0001-01-01T00:00:00+00:00"
	}
	t := time.UnixMicro(int64(m)).UTC()
	layout := "-01-02T15:04:05+00:00"
	if t.Nanosecond() != 0 {
		layout = "-01-02T15:04:05.000000+00:00"
	}
	y := t.Year()
	if y < 0 {
		return fmt.Sprintf("-%04d%s", -y, t.Format(layout))
	}
	return fmt.Sprintf("%04d%s", y, t.Format(layout))
}
