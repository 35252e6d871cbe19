package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/internal/metrics"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/internal/tracing/tracingtest"
)

// What it costs to tell of a request: nothing told, metrics, and traces beside
// them, not sampled and sampled.
func BenchmarkObserve(b *testing.B) {
	on := tracingtest.Exporting(b)
	const at = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for _, c := range []struct {
		name        string
		listener    Listener
		tracer      *tracing.Tracer
		traceparent string
	}{
		{"nothing", NoListener{}, nil, at + "1"},
		{"metrics", metrics.New(), nil, at + "1"},
		{"not sampled", metrics.New(), on, at + "0"},
		{"sampled", metrics.New(), on, at + "1"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := &Server{opts: Options{Listener: c.listener, Tracing: c.tracer}}
			route := &route{method: "PUT", pattern: "/v1/triggers/{id}", right: auth.Write}
			h := s.observe(func(o *observed, r *http.Request) {
				s.onRoute(o, r, route)
				o.WriteHeader(http.StatusCreated)
			})
			r := httptest.NewRequest("PUT", "/v1/triggers/t", nil)
			r.Header.Set("Traceparent", c.traceparent)
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
