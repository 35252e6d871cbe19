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
//
// Where the provider does not say whether it is the address or everything, the address
// alone pauses. When suspects addresses pause at once, it is everything.
type pauses struct {
	mu    sync.Mutex
	until map[pauseKey]time.Time
	few   map[pauseKey]map[string]time.Time // by address, of keys as those of until
	swept time.Time                         // when those that are over were dropped
}

type pauseKey struct{ provider, tenant string }

// Bounds of a pause, whatever a provider asks for.
const (
	minPause = time.Second
	maxPause = time.Hour
)

// suspects are so many addresses that it is none of them.
const suspects = 3

// left is how long nothing may be sent to an address; 0 if something may.
func (p *pauses) left(provider, tenant, address string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pauseKey{provider, tenant}
	return max(p.until[key].Sub(now), p.few[key][address].Sub(now), 0)
}

// pause begins or prolongs a pause of a tenant's messages.
func (p *pauses) pause(provider, tenant string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	p.all(pauseKey{provider, tenant}, now, d)
}

// pauseAddress begins or prolongs the pause of one address, or of all where there are too
// many that pause.
func (p *pauses) pauseAddress(provider, tenant, address string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	key := pauseKey{provider, tenant}
	one := p.few[key]
	if one == nil {
		if p.few == nil {
			p.few = map[pauseKey]map[string]time.Time{}
		}
		one = map[string]time.Time{}
		p.few[key] = one
	}
	for known, until := range one {
		if !until.After(now) {
			delete(one, known)
		}
	}
	if until := pausedUntil(now, d); until.After(one[address]) {
		one[address] = until
	}
	if len(one) >= suspects {
		delete(p.few, key)
		p.all(key, now, d)
	}
}

func (p *pauses) all(key pauseKey, now time.Time, d time.Duration) {
	if p.until == nil {
		p.until = map[pauseKey]time.Time{}
	}
	if until := pausedUntil(now, d); until.After(p.until[key]) {
		p.until[key] = until
	}
}

func pausedUntil(now time.Time, d time.Duration) time.Time {
	return now.Add(min(max(d, minPause), maxPause))
}

// sweep drops what is over, once in maxPause: an issuer may name any number of tenants. Of
// addresses there are fewer than suspects for each.
func (p *pauses) sweep(now time.Time) {
	if now.Sub(p.swept) < maxPause {
		return
	}
	p.swept = now
	for key, until := range p.until {
		if !until.After(now) {
			delete(p.until, key)
		}
	}
	for key, one := range p.few {
		over := true
		for _, until := range one {
			over = over && !until.After(now)
		}
		if over {
			delete(p.few, key)
		}
	}
}
