package operator

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span as people write it: 90s, 15m, 2h, 30d, 1d12h. The zero
// value means that it was not given.
type Duration time.Duration

// maxDuration is some hundred years, so that no sum overflows.
const maxDuration = 36500 * 24 * time.Hour

// Set reads a time span; with String and Type it is a flag of the command line.
func (d *Duration) Set(s string) error {
	span, err := parseDuration(strings.TrimSpace(s))
	if err != nil {
		return err
	}
	*d = Duration(span)
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	wrong := fmt.Errorf("must be a time span such as 90s, 15m, 2h or 30d")
	var days time.Duration
	if before, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(before, 64)
		if err != nil || !(n >= 0 && n <= maxDuration.Hours()/24) {
			return 0, wrong
		}
		days, s = time.Duration(n*24*float64(time.Hour)), after
		if s == "" {
			s = "0s"
		}
	}
	rest, err := time.ParseDuration(s)
	if err != nil || rest < 0 || rest > maxDuration {
		return 0, wrong
	}
	return days + rest, nil
}

// String writes it so that Set reads it.
func (d Duration) String() string {
	if d == 0 {
		return ""
	}
	const day = 24 * time.Hour
	if span := time.Duration(d); span%day == 0 {
		return fmt.Sprintf("%dd", span/day)
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Type names the kind of value in the help.
func (d Duration) Type() string { return "span" }

// UnmarshalJSON reads a text such as "2h".
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) != nil || d.Set(s) != nil {
		return &memberError{"must be a time span such as \"90s\", \"15m\", \"2h\" or \"30d\""}
	}
	return nil
}

// Seconds is the time span in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }
