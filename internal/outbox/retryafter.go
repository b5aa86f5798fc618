package outbox

import (
	"net/http"
	"strings"
	"time"
)

// MaxRetryAfter bounds what a Retry-After can ask for. An hour is longer than
// any maintenance window that a workflow has announced, and short enough that a
// wrong date does not park an event.
const MaxRetryAfter = time.Hour

// RetryAfter reads the header of that name: whole seconds or an HTTP date. It
// returns 0 for anything else and for times that have passed, and at most
// MaxRetryAfter.
func RetryAfter(header string, now time.Time) time.Duration {
	header = strings.Trim(header, " \t")
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		seconds := strings.TrimLeft(header, "0")
		if len(seconds) > 4 { // more digits than an hour has seconds
			return MaxRetryAfter
		}
		var n time.Duration
		for _, digit := range seconds {
			n = n*10 + time.Duration(digit-'0')
		}
		return min(n*time.Second, MaxRetryAfter)
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}
