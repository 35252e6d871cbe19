package metrics

import "github.com/prometheus/client_golang/prometheus"

// providerCounters count what providers of notifications answer.
type providerCounters struct{ sends, errors *prometheus.CounterVec }

func newProviderCounters(r *prometheus.Registry) providerCounters {
	c := providerCounters{
		sends: counterVec("provider_sends_total", "Messages handed to a provider of notifications.", "provider"),
		errors: counterVec("provider_errors_total",
			"Messages that a provider of notifications did not take over, by code.", "provider", "code"),
	}
	r.MustRegister(c.sends, c.errors)
	return c
}

// ProviderAnswered counts an answer; code is "" for a message that was taken over, and else one
// of a fixed set.
func (m *Metrics) ProviderAnswered(provider, code string) {
	m.providers.sends.WithLabelValues(provider).Inc()
	if code != "" {
		m.providers.errors.WithLabelValues(provider, code).Inc()
	}
}
