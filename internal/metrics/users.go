package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// userWork is what is to be done about users: erasures, and moves to a new zone. It is part of
// gateway.Listener.
type userWork struct {
	erasures, oldest, moves   prometheus.Gauge
	failedErasure, failedMove prometheus.Counter
}

// newUserWork makes and registers them. They stay 0 in a process without a preference store.
func newUserWork(r *prometheus.Registry) userWork {
	w := userWork{
		erasures: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "erasures_pending", Help: "Erasures of users that are not done.",
		}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "erasures_oldest_seconds",
			Help: "Age of the oldest erasure that is not done; 0 if there is none.",
		}),
		moves: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "zone_moves_pending",
			Help: "Users whose triggers are yet to be moved to their new zone.",
		}),
		failedErasure: counter("erasure_failures_total", "Tries to erase a user that failed and are repeated."),
		failedMove: counter("zone_move_failures_total",
			"Tries to move a user's triggers to a new zone that failed and are repeated."),
	}
	r.MustRegister(w.erasures, w.oldest, w.moves, w.failedErasure, w.failedMove)
	return w
}

// Erasures notes how many are not done, and the age of the oldest.
func (w userWork) Erasures(pending int, oldest time.Duration) {
	w.erasures.Set(float64(pending))
	w.oldest.Set(oldest.Seconds())
}

// Moves notes how many are not done.
func (w userWork) Moves(pending int) { w.moves.Set(float64(pending)) }

// ErasureFailed counts a try.
func (w userWork) ErasureFailed() { w.failedErasure.Inc() }

// MoveFailed counts a try.
func (w userWork) MoveFailed() { w.failedMove.Inc() }
