package outbox

import (
	"net/http"
	"strings"
	"time"
)

// MaxRetryAfter bounds what a Retry-After can ask for. An hour covers an ordinary
// maintenance window, and a wrong date does not park an event for longer.
const MaxRetryAfter = time.Hour

// RetryAfter parses the header of that name: whole seconds or an HTTP date. It returns
// 0 for anything else and for a time in the past, and at most MaxRetryAfter.
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
