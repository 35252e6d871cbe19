package egress

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]struct {
		after time.Duration
		ok    bool
	}{
		"":                              {},
		"soon":                          {},
		"-1":                            {},
		"1.5":                           {},
		" 7 ":                           {7 * time.Second, true},
		"0":                             {0, true},
		"3601":                          {time.Hour, true},
		"99999999999999999999":          {time.Hour, true},
		"Mon, 02 Mar 2026 12:00:30 GMT": {30 * time.Second, true},
		"Mon, 02 Mar 2026 11:00:00 GMT": {0, true},
		"Mon, 02 Mar 2099 12:00:00 GMT": {time.Hour, true},
	} {
		after, ok := RetryAfter(http.Header{"Retry-After": {text}}, noon, time.Hour)
		if after != want.after || ok != want.ok {
			t.Errorf("%q: %v %v, want %v %v", text, after, ok, want.after, want.ok)
		}
	}
	dated := http.Header{
		"Retry-After": {"Mon, 02 Mar 2026 12:00:30 GMT"}, "Date": {"Mon, 02 Mar 2026 12:00:20 GMT"},
	}
	if after, ok := RetryAfter(dated, noon, time.Hour); after != 10*time.Second || !ok {
		t.Errorf("a date counts from the answer's own: %v %v", after, ok)
	}
}
