package metrics

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/sinks/webhook"
)

// gauges are the values of a metric by its label endpoint.
func gauges(t *testing.T, m *Metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.Metric {
			values[s.Label[0].GetValue()] = s.Gauge.GetValue()
		}
	}
	return values
}

// An origin shows the worst of its tenants' breakers, and the calls of all of them.
func TestBreakerStateIsTheWorst(t *testing.T) {
	m := New()
	m.WatchEndpoints(func() []webhook.Status {
		return []webhook.Status{
			{Tenant: "a", Origin: "https://x.example", State: webhook.Closed, InFlight: 3},
			{Tenant: "b", Origin: "https://x.example", State: webhook.Open, InFlight: 4},
			{Tenant: "c", Origin: "https://x.example", State: webhook.HalfOpen},
			{Tenant: "a", Origin: "https://y.example", State: webhook.HalfOpen, InFlight: 5},
			{Tenant: "a", Origin: "https://z.example", State: webhook.Closed},
		}
	})
	states, calls := gauges(t, m, "waterclock_breaker_state"), gauges(t, m, "waterclock_endpoint_in_flight")
	for origin, want := range map[string][2]float64{
		"https://x.example": {2, 7}, "https://y.example": {1, 5}, "https://z.example": {0, 0},
	} {
		if got := [2]float64{states[origin], calls[origin]}; got != want {
			t.Errorf("%s: breaker and calls %v, want %v", origin, got, want)
		}
	}
}

// Whoever registers callbacks chooses their origins: the label has a bound, and
// what is open is within it.
func TestEndpointsOfMetricsAreBounded(t *testing.T) {
	m := New()
	m.WatchEndpoints(func() (all []webhook.Status) {
		for i := range 3 * maxEndpoints {
			s := webhook.Status{Tenant: "a", Origin: fmt.Sprintf("https://%04d.example", i), InFlight: 1}
			if s.State = webhook.Closed; i == 3*maxEndpoints-1 {
				s.State = webhook.Open
			}
			all = append(all, s)
		}
		return all
	})
	states, calls := gauges(t, m, "waterclock_breaker_state"), gauges(t, m, "waterclock_endpoint_in_flight")
	if len(states) != maxEndpoints || len(calls) != maxEndpoints {
		t.Errorf("%d and %d series, want %d", len(states), len(calls), maxEndpoints)
	}
	if last := fmt.Sprintf("https://%04d.example", 3*maxEndpoints-1); states[last] != 2 {
		t.Errorf("the open one is not among them: %v", states[last])
	}
	if want := float64(2*maxEndpoints + 1); calls[otherCode] != want {
		t.Errorf("%v calls to others, want %v", calls[otherCode], want)
	}
}
