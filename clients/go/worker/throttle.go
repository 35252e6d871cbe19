package worker

import (
	"log/slog"
	"sync"
	"time"
)

// throttle logs at most one line in ten seconds, because a fault may affect every record. Metrics
// count all of them.
type throttle struct {
	mu      sync.Mutex
	last    time.Time
	omitted int
}

const throttleInterval = 10 * time.Second

func (t *throttle) log(log *slog.Logger, msg string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.last.IsZero() || now.Sub(t.last) >= throttleInterval {
		if t.omitted > 0 {
			args = append(args, "omitted", t.omitted)
		}
		log.Warn(msg, args...)
		t.last, t.omitted = now, 0
		return
	}
	t.omitted++
}
