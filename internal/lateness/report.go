package lateness

// Report is what was counted within a window.
type Report struct {
	FirstMS  int64                 `json:"first"`   // where the first slot begins
	SinceMS  int64                 `json:"since"`   // from when on all was counted; 0: of nobody
	Slots    []Histogram           `json:"slots"`   // in order
	Channels map[string]*Histogram `json:"channel"` // of the whole window

	// Incomplete is set if not all tenants and channels were told apart: those of one are then too low.
	Incomplete bool `json:"incomplete,omitempty"`
}

func newReport(nowMS int64, w Window) Report {
	return Report{
		FirstMS: w.first(nowMS) * w.Slot.Milliseconds(), Slots: make([]Histogram, w.Slots),
		Channels: map[string]*Histogram{},
	}
}

// add counts a slot of a Recent.
func (r *Report) add(at int, s *slot, tenant string) {
	r.Incomplete = r.Incomplete || s.full
	if tenant == "" {
		r.Slots[at].Add(&s.all)
	}
	for of, h := range s.by {
		if tenant != "" && tenant != of.tenant {
			continue
		}
		if tenant != "" {
			r.Slots[at].Add(h)
		}
		r.channel(of.channel).Add(h)
	}
}

func (r *Report) channel(name string) *Histogram {
	h := r.Channels[name]
	if h == nil {
		h = &Histogram{}
		r.Channels[name] = h
	}
	return h
}

// Join adds up the reports of several partitions. Slots belong together by their times, so
// that reports for different moments may be joined. Since is the latest of all.
func Join(nowMS int64, w Window, all []Report) Report {
	sum := newReport(nowMS, w)
	width := w.Slot.Milliseconds()
	for i := range all {
		r := &all[i]
		sum.SinceMS = max(sum.SinceMS, r.SinceMS)
		sum.Incomplete = sum.Incomplete || r.Incomplete
		for j := range r.Slots {
			at := (r.FirstMS-sum.FirstMS)/width + int64(j)
			if at >= 0 && at < int64(len(sum.Slots)) {
				sum.Slots[at].Add(&r.Slots[j])
			}
		}
		for channel, h := range r.Channels {
			sum.channel(channel).Add(h)
		}
	}
	return sum
}

// All is the whole window.
func (r *Report) All() Histogram {
	var sum Histogram
	for i := range r.Slots {
		sum.Add(&r.Slots[i])
	}
	return sum
}
