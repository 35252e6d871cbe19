package notify

import (
	"sync"
	"time"
)

// pauses are providers that have asked for fewer messages. Until the time is over
// nothing is sent to them; the engine waits.
//
// A pause holds for the tenant whose message met it. What a provider refuses for all may be
// the fault of one address, such as a telephone that gets too much: by it no tenant
// may keep others' messages back. Where it does hold for all, each tenant finds out by
// one message.
type pauses struct {
	mu    sync.Mutex
	until map[pauseKey]time.Time
	swept time.Time // when those that are over were dropped
}

type pauseKey struct{ provider, tenant string }

// Bounds of a pause, whatever a provider asks for.
const (
	minPause = time.Second
	maxPause = time.Hour
)

// left is how long nothing may be sent; 0 if something may.
func (p *pauses) left(provider, tenant string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.until[pauseKey{provider, tenant}].Sub(now), 0)
}

// pause begins or prolongs a pause.
func (p *pauses) pause(provider, tenant string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = map[pauseKey]time.Time{}
	}
	if now.Sub(p.swept) >= maxPause { // an issuer may name any number of tenants
		for key, until := range p.until {
			if !until.After(now) {
				delete(p.until, key)
			}
		}
		p.swept = now
	}
	key := pauseKey{provider, tenant}
	if until := now.Add(min(max(d, minPause), maxPause)); until.After(p.until[key]) {
		p.until[key] = until
	}
}
