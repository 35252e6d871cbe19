// Package lateness counts how late due events were, for the last minute and the last hour.
// It has no clock: whoever counts says when.
//
//	recent.go     Recent: what the owner of a partition keeps, and what it reports
//	report.go     Report: of one partition, or of several
//	histogram.go  counts by milliseconds; percentiles
//
// # Source of truth
//
// Topic events is. A Recent is memory of one process: it begins empty when the process takes
// the partition, and Report.Since says when that was.
//
// # Promises
//
//   - A percentile is exact below 16 ms, and else at most 12.5 % above the exact one.
//   - What one tenant asks for has nothing of another one.
//   - Memory is bounded, however many tenants and channels fire: at most seriesOfSlot of them
//     are told apart in one slot. What goes beyond counts in the sum of all tenants only, and
//     Report.Incomplete says so.
package lateness

import (
	"strings"
	"sync"
	"time"
)

// Window is a span that lateness is reported for, in slots of equal length. The last slot is
// the one under way.
type Window struct {
	Name  string
	Slot  time.Duration
	Slots int
}

// Windows are the spans there are, by name.
var Windows = []Window{
	{Name: "1m", Slot: 5 * time.Second, Slots: 12},
	{Name: "1h", Slot: time.Minute, Slots: 60},
}

// WindowOf finds a window by its name.
func WindowOf(name string) (Window, bool) {
	for _, w := range Windows {
		if w.Name == name {
			return w, true
		}
	}
	return Window{}, false
}

// first is the number of the first slot of a window that ends at now.
func (w Window) first(nowMS int64) int64 { return nowMS/w.Slot.Milliseconds() - int64(w.Slots) + 1 }

// seriesOfSlot bounds the pairs of tenant and channel that are told apart in one slot.
const seriesOfSlot = 128

// Fired is a due event: whose, where to, and how late.
type Fired struct {
	Tenant, Channel string
	Late            time.Duration
}

// Recent counts the due events of one partition. All methods may be called concurrently.
type Recent struct {
	mu      sync.Mutex
	sinceMS int64 // 0: nothing is counted yet
	rings   [][]slot
}

// slot is a stretch of time.
type slot struct {
	number int64 // its begin, in its own lengths since 1970
	all    Histogram
	by     map[series]*Histogram
	full   bool // a pair was not told apart
}

type series struct{ tenant, channel string }

// NewRecent makes an empty Recent.
func NewRecent() *Recent {
	r := &Recent{rings: make([][]slot, len(Windows))}
	for i, w := range Windows {
		r.rings[i] = make([]slot, w.Slots)
	}
	return r
}

// Begin says from when on due events are counted, unless they were before.
func (r *Recent) Begin(nowMS int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sinceMS == 0 {
		r.sinceMS = nowMS
	}
}

// Count adds due events that were committed, as of one moment. The texts may lie in memory
// that is used for other texts afterwards.
func (r *Recent) Count(nowMS int64, fired []Fired) {
	if len(fired) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range Windows {
		number := nowMS / w.Slot.Milliseconds()
		s := &r.rings[i][number%int64(w.Slots)]
		if s.number > number {
			continue // the clock was set back by more than the window
		}
		if s.number < number {
			*s = slot{number: number, by: map[series]*Histogram{}}
		}
		for _, f := range fired {
			s.count(f)
		}
	}
}

func (s *slot) count(f Fired) {
	ms := f.Late.Milliseconds()
	s.all.add(ms)
	h := s.by[series{f.Tenant, f.Channel}]
	if h == nil {
		if len(s.by) == seriesOfSlot {
			s.full = true
			return
		}
		h = &Histogram{}
		s.by[series{strings.Clone(f.Tenant), strings.Clone(f.Channel)}] = h
	}
	h.add(ms)
}

// Report is what was counted in the window that ends at now, of one tenant or, if that is
// empty, of all.
func (r *Recent) Report(nowMS int64, w Window, tenant string) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := newReport(nowMS, w)
	out.SinceMS = r.sinceMS
	for i := range Windows {
		if Windows[i].Name != w.Name {
			continue
		}
		for j := range r.rings[i] {
			s := &r.rings[i][j]
			if at := s.number - w.first(nowMS); at >= 0 && at < int64(w.Slots) {
				out.add(int(at), s, tenant)
			}
		}
	}
	return out
}
