package notify

import (
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/returns"
)

// pauses holds providers that have asked for fewer messages. Until the time is over nothing is
// sent to them, and the engine waits.
//
// A pause applies to the tenant whose message caused it. What seems to be a refusal of all
// messages may be caused by one address, for example a telephone that gets too much. No tenant
// may delay others' messages that way. If the refusal does apply to all, each tenant finds out by
// one message.
//
// If the provider does not say whether the address or everything is the cause, only the address
// pauses. If suspects addresses pause at once, everything pauses.
type pauses struct {
	mu    sync.Mutex
	until map[pauseKey]time.Time
	back  map[pauseKey]*returns.Queue       // in which order what was held up comes back; the keys are of until
	few   map[pauseKey]map[string]time.Time // by address; the keys are as in until
	swept time.Time                         // when expired pauses were last dropped
}

type pauseKey struct{ provider, tenant string }

// Bounds of a pause, whatever a provider asks for.
const (
	minPause = time.Second
	maxPause = time.Hour
)

// suspects is how many paused addresses show that none of them is the cause.
const suspects = 3

// left returns how long nothing may be sent to an address, or 0.
func (p *pauses) left(provider, tenant, address string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pauseKey{provider, tenant}
	return max(p.until[key].Sub(now), p.few[key][address].Sub(now), 0)
}

// away returns how long a message is away that may not be sent for some time. While all messages
// pause, they come back one after the other.
func (p *pauses) away(provider, tenant string, high bool, now time.Time, left time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pauseKey{provider, tenant}
	least := max(left, minPause)
	if !p.until[key].After(now) {
		return least // an address pauses
	}
	q := p.back[key]
	if q == nil {
		if p.back == nil {
			p.back = map[pauseKey]*returns.Queue{}
		}
		q = &returns.Queue{}
		p.back[key] = q
	}
	return q.After(now, high, least, returns.PerSecond)
}

// pause starts or extends a pause of a tenant's messages.
func (p *pauses) pause(provider, tenant string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	p.all(pauseKey{provider, tenant}, now, d)
}

// pauseAddress starts or extends the pause of one address, or of all if too many are paused.
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

// sweep drops expired pauses, once per maxPause, because a token issuer may name any number of
// tenants. Each tenant has fewer than suspects addresses here.
func (p *pauses) sweep(now time.Time) {
	if now.Sub(p.swept) < maxPause {
		return
	}
	p.swept = now
	for key, until := range p.until {
		if !until.After(now) {
			delete(p.until, key)
			delete(p.back, key)
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
