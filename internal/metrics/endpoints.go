package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waterclock/waterclock/sinks/webhook"
)

// maxEndpoints bounds the label endpoint, which those who register callbacks
// choose. The worst are shown, and the rest as "other".
const maxEndpoints = 500

// endpoints is what the webhook worker knows, read when somebody asks.
type endpoints struct {
	status          func() []webhook.Status
	state, inFlight *prometheus.Desc
}

// WatchEndpoints exports the state of the endpoints of this process's webhook
// worker.
func (m *Metrics) WatchEndpoints(status func() []webhook.Status) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, []string{"endpoint"}, nil)
	}
	m.Registry.MustRegister(&endpoints{
		status: status,
		state: desc("breaker_state", "Breaker of an origin, the worst of its tenants': 0 closed, 1 half open, 2 open. "+
			"At most 500 origins, the worst; the rest are \"other\"."),
		inFlight: desc("endpoint_in_flight", "Webhook calls under way to an origin."),
	})
}

// Describe implements prometheus.Collector.
func (e *endpoints) Describe(to chan<- *prometheus.Desc) {
	to <- e.state
	to <- e.inFlight
}

// origin is an endpoint over all tenants.
type origin struct {
	name            string
	state, inFlight int
}

// Collect implements prometheus.Collector.
func (e *endpoints) Collect(to chan<- prometheus.Metric) {
	all := map[string]*origin{}
	for _, s := range e.status() {
		o := all[s.Origin]
		if o == nil {
			o = &origin{name: s.Origin}
			all[s.Origin] = o
		}
		o.add(severity(s.State), s.InFlight)
	}
	for _, o := range bounded(all) {
		to <- prometheus.MustNewConstMetric(e.state, prometheus.GaugeValue, float64(o.state), o.name)
		to <- prometheus.MustNewConstMetric(e.inFlight, prometheus.GaugeValue, float64(o.inFlight), o.name)
	}
}

func (o *origin) add(state, inFlight int) {
	o.state = max(o.state, state)
	o.inFlight += inFlight
}

// bounded are at most maxEndpoints, the worst first; all beyond are one.
func bounded(all map[string]*origin) []*origin {
	list := make([]*origin, 0, len(all))
	for _, o := range all {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *origin) int {
		return cmp.Or(cmp.Compare(b.state, a.state), cmp.Compare(b.inFlight, a.inFlight), cmp.Compare(a.name, b.name))
	})
	if len(list) <= maxEndpoints {
		return list
	}
	other := &origin{name: otherCode}
	for _, o := range list[maxEndpoints-1:] {
		other.add(o.state, o.inFlight)
	}
	return append(list[:maxEndpoints-1], other)
}

func severity(s webhook.State) int {
	switch s {
	case webhook.HalfOpen:
		return 1
	case webhook.Open:
		return 2
	}
	return 0
}
