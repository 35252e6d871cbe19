package gateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A write that Kafka does not acknowledge while a quota slows the process down says so: no wait helps, and a
// quota that is raised does. A broker that is away is not blamed on a quota.
func TestThrottledWrite(t *testing.T) {
	for says, throttled := range map[string]func() string{
		", because a quota is used up; repeating it": func() string { return "a quota is used up" },
		"; repeating it": nil,
	} {
		for _, c := range []struct {
			method, path, body string
			times              int
		}{
			{"PUT", "/v1/triggers/x", at(""), 1},
			{"POST", "/v1/triggers:batch", `{"id":"x","delay":"1d"}` + "\n" + `{"id":"y","delay":"1d"}`, 2},
			{"PUT", "/v1/calendars/x", `{"dates":["2027-01-01"]}`, 1},
		} {
			t.Run(says+" "+c.path, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(o *Options) {
					o.Throttled, o.ProduceWithin = throttled, 300*time.Millisecond
				})
				w.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
					w.cluster.KeepControl()
					return nil, errors.New("the connection ends"), true
				})
				a := w.call(c.method, c.path, c.body)
				if a.status >= 500 && a.status != http.StatusServiceUnavailable ||
					strings.Count(a.body, says) != c.times ||
					!strings.Contains(a.body, "Kafka has not acknowledged the c") {
					t.Errorf("%d %s, want %d times %q", a.status, a.body, c.times, says)
				}
			})
		}
	}
}
