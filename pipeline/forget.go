package pipeline

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/waterclock/waterclock/statestore"
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

// doneRecords drops done records: those whose horizon has passed, and the oldest beyond the
// bounds. What is dropped is part of the turn.
type doneRecords struct {
	opts  *Process
	log   *slog.Logger
	store *statestore.Store
	load  func(*turn, trigger.Key) (*entry, error) // finds a trigger in the turn, else in the store

	oldest  trigger.Instant // when the oldest expires, as of checked
	checked time.Time
	unknown unknowns // cancels and erases of unknown keys
}

// forget drops done records whose horizon has passed, and the oldest ones beyond the bound.
// gone counts those that the turn has dropped already.
func (d *doneRecords) forget(t *turn, gone int64) error {
	over := d.store.DoneCount() - gone - d.opts.MaxDone
	until := t.now
	if over > 0 {
		until = maxInstant
	}
	n, evicted, most := 0, 0, forgetMost(t)
	var unreadable error
	err := d.store.ScanForget(until, func(at trigger.Instant, key trigger.Key, _ []byte) bool {
		early := at > t.now
		if n >= most || (early && int64(n) >= over) {
			return false
		}
		e, err := d.load(t, key)
		if err != nil {
			unreadable = err
			return false
		}
		if e.state == nil || e.state.ForgetAt != at {
			return true
		}
		e.state, e.timers, e.dirty = nil, nil, true
		n++
		if early {
			evicted++
		}
		return true
	})
	if evicted > 0 {
		d.opts.Listener.DoneEvicted(evicted)
	}
	return cmp.Or(unreadable, err)
}

const maxInstant = trigger.Instant(1<<63 - 1)

// due is when the oldest done record expires; 0 if there is none. It reads the store
// at most once per forgetInterval.
func (d *doneRecords) due() trigger.Instant {
	if time.Since(d.checked) < forgetInterval {
		return d.oldest
	}
	d.checked, d.oldest = time.Now(), 0
	err := d.store.OldestDone(func(at trigger.Instant, _ trigger.Key, _ []byte) bool {
		d.oldest = at
		return false
	})
	if err != nil {
		d.log.Warn("finding the oldest done record failed", "error", err)
	}
	return d.oldest
}
