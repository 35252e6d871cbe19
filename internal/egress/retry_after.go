package egress

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is what header Retry-After asks for (RFC 9110, section 10.2.3), at most the
// given time: seconds, or a date, which counts from the answer's own Date, so that the
// server's clock does not matter. ok is false if there is none, or none that makes sense. A
// date in the past is 0.
func RetryAfter(h http.Header, now time.Time, most time.Duration) (after time.Duration, ok bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(most/time.Second) {
			return most, true // more digits than a number has
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), most), true // Sub stops at the largest duration there is
}
