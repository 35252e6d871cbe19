package pipeline

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// A turn forgets a few done records, and an idle partition does so at this interval.
const (
	forgetInterval = 5 * time.Second
	forgetChunk    = 2000
)

// forgetMost is how many records a turn forgets: at least as many as it may have added, or
// a flood would grow without bound.
func forgetMost(t *turn) int { return max(forgetChunk, len(t.order)) }

// forget drops done records whose horizon has passed, and the oldest ones beyond the bound.
// gone counts those that the turn has dropped already.
func (p *Partition) forget(t *turn, gone int64) error {
	over := p.store.DoneCount() - gone - p.opts.MaxDone
	until := t.now
	if over > 0 {
		until = maxInstant
	}
	n, evicted, most := 0, 0, forgetMost(t)
	err := p.store.ScanForget(until, func(at trigger.Instant, key trigger.Key, _ []byte) bool {
		early := at > t.now
		if n >= most || (early && int64(n) >= over) {
			return false
		}
		e, err := p.load(t, key)
		if err != nil || e.state == nil || e.state.ForgetAt != at {
			return err == nil
		}
		e.state, e.timers, e.dirty = nil, nil, true
		n++
		if early {
			evicted++
		}
		return true
	})
	if evicted > 0 {
		p.opts.Listener.DoneEvicted(evicted)
	}
	return err
}

const maxInstant = trigger.Instant(1<<63 - 1)

// forgetDue is when the oldest done record expires; 0 if there is none. It reads the store
// at most once per forgetInterval.
func (p *Partition) forgetDue() trigger.Instant {
	if time.Since(p.checked) < forgetInterval {
		return p.oldest
	}
	p.checked, p.oldest = time.Now(), 0
	err := p.store.OldestDone(func(at trigger.Instant, _ trigger.Key, _ []byte) bool {
		p.oldest = at
		return false
	})
	if err != nil {
		p.log.Warn("finding the oldest done record failed", "error", err)
	}
	return p.oldest
}
