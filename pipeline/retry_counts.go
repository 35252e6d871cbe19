package pipeline

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// retryCounts are, by channel, the occurrences that wait to be sent again: after a
// retry, a postponement or a redrive. Nothing keeps the counts: when a partition
// opens, what its store holds is counted beside the turns, and what turns change
// meanwhile is added.
type retryCounts struct {
	mu    sync.Mutex
	known bool // what was stored at the opening is counted
	by    map[string]*int64

	ended chan struct{} // closed when the partition is
}

// countRetries begins to count, once no other partition of the process does: 64 that opened at once took 40 % of the
// CPU from each other.
func (o *opening) countRetries() {
	r := &retryCounts{by: map[string]*int64{}, ended: make(chan struct{})}
	o.retries = r
	sn := o.store.Snapshot()
	go func() {
		defer sn.Close()
		select {
		case o.opts.counting <- struct{}{}:
			defer func() { <-o.opts.counting }()
		case <-r.ended:
			return
		}
		if found, err := retriesOf(sn); err == nil { // else the partition is being closed, or will be
			r.add(found)
		}
	}()
}

// How many timers are looked at in one go, and how long others go first after that.
const (
	retriesChunk = 4096
	retriesPause = 5 * time.Millisecond
)

// retriesOf counts what a store holds.
func retriesOf(sn *statestore.Snapshot) (map[string]int64, error) {
	found := map[string]int64{}
	var timers []trigger.Timer
	var bad error
	for at := (statestore.DueKey{}); ; {
		next, more, err := sn.ScanLive(at, retriesChunk, func(due trigger.Instant, occurrence string, key trigger.Key,
			value []byte,
		) bool {
			s, err := topics.DecodeState(key, value)
			if bad = err; err != nil {
				return false
			}
			if timers = s.Timers(timers); isFirstLive(timers, due, occurrence) {
				eachRetry(s, func(channel string) { found[channel]++ })
			}
			return true
		})
		if bad != nil || err != nil || !more {
			return found, cmp.Or(bad, err)
		}
		at = next
		time.Sleep(retriesPause)
	}
}

// isFirstLive picks one of a state's timers, so that the state counts once.
func isFirstLive(timers []trigger.Timer, due trigger.Instant, occurrence string) bool {
	for _, t := range timers {
		if t.Kind == trigger.TimerLive {
			return t.Due == due && t.Occurrence == occurrence
		}
	}
	return false
}

// eachRetry calls f with the channel of each occurrence that waits to be sent again.
func eachRetry(s *trigger.State, f func(channel string)) {
	if s == nil || s.Status.Finished() {
		return
	}
	for i := range s.Live {
		if l := &s.Live[i]; l.Kind == trigger.LiveRetry {
			content := &s.Spec
			if l.Was != nil {
				content = l.Was
			}
			f(content.ChannelOfStep(l.Step))
		}
	}
}

// end ends the wait to count. A partition that did not open may have none.
func (r *retryCounts) end() {
	if r != nil {
		close(r.ended)
	}
}

// moved notes what a decision has changed. A turn that fails takes it back: the
// partition opens again.
func (r *retryCounts) moved(was, is *trigger.State) {
	if (was == nil || len(was.Live) == 0) && (is == nil || len(is.Live) == 0) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	eachRetry(was, func(channel string) { *r.of(channel)-- })
	eachRetry(is, func(channel string) { *r.of(channel)++ })
}

// of is the count of a channel; mu is held. The text may lie in a turn's memory.
func (r *retryCounts) of(channel string) *int64 {
	n := r.by[channel]
	if n == nil {
		n = new(int64)
		r.by[strings.Clone(channel)] = n
	}
	return n
}

func (r *retryCounts) add(found map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for channel, n := range found {
		*r.of(channel) += n
	}
	r.known = true
}

// all are the counts; nil as long as they are not known.
func (r *retryCounts) all() map[string]int64 {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		return nil
	}
	all := make(map[string]int64, len(r.by))
	for channel, n := range r.by {
		all[channel] = *n
	}
	return all
}
