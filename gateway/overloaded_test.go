package gateway

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// An instance that is short of memory refuses callers, says when to come back,
// and goes on answering those who run it.
func TestOverloaded(t *testing.T) {
	var short atomic.Bool
	w := newWorld(t, func(o *Options) {
		o.Overloaded = func() (time.Duration, string) {
			if short.Load() {
				return 1500 * time.Millisecond, "short of memory"
			}
			return 0, ""
		}
		o.Notes = func() []string {
			if short.Load() {
				return []string{"memory is short"}
			}
			return nil
		}
	})
	const register = `{"delay":"1h"}`
	w.must(http.StatusCreated, "PUT", "/v1/triggers/a", register)
	short.Store(true)
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/v1/triggers/b", register},
		{"POST", "/v1/triggers", register},
		{"POST", "/v1/triggers:batch", `{"id":"c","delay":"1h"}`},
		{"GET", "/v1/triggers", ""},
		{"GET", "/v1/triggers/a", ""},
	} {
		a := w.must(http.StatusTooManyRequests, c.method, c.path, c.body)
		if a.header.Get("Retry-After") != "2" || a.get(t, "code") != "overloaded" ||
			!strings.Contains(a.get(t, "detail"), "short of memory") {
			t.Errorf("%s %s: Retry-After %q, %s", c.method, c.path, a.header.Get("Retry-After"), a.body)
		}
	}
	w.must(http.StatusOK, "GET", "/v1/partitions", "")
	w.must(http.StatusOK, "GET", "/healthz", "")
	if a := w.must(http.StatusOK, "GET", "/readyz", ""); a.body != "ready\nmemory is short\n" {
		t.Errorf("readyz: %q", a.body)
	}
	short.Store(false)
	w.must(http.StatusOK, "GET", "/v1/triggers/a", "")
	w.must(http.StatusNotFound, "GET", "/v1/triggers/b", "")
	if a := w.must(http.StatusOK, "GET", "/readyz", ""); a.body != "ready\n" {
		t.Errorf("readyz: %q", a.body)
	}
}
