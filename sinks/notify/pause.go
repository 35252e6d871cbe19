package notify

import (
	"sync"
	"time"
)

// pauses are providers that have asked for fewer messages. Until the time is over
// nothing is sent to them; the engine waits.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Bounds of a pause, whatever a provider asks for.
const (
	minPause = time.Second
	maxPause = time.Hour
)

// left is how long nothing may be sent; 0 if something may.
func (p *pauses) left(provider string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.until[provider].Sub(now), 0)
}

// pause begins or prolongs a pause.
func (p *pauses) pause(provider string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	if until := now.Add(min(max(d, minPause), maxPause)); until.After(p.until[provider]) {
		p.until[provider] = until
	}
}
