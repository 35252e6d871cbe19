package slo

import (
	"iter"
	"math"
	"time"
)

// Both pictures of a report, that of the page and the PNG, have these levels and ticks.

// level is the lateness of an hour in which something fired.
type level struct {
	at    time.Time
	ms    int64
	after bool // nothing fired in the hour before: the curve begins anew
}

// levels are those of the median (0), the 99th percentile (1) or the worst (2).
func (r *Report) levels(which int) iter.Seq[level] {
	return func(yield func(level) bool) {
		var last time.Time
		for i := range r.Hours {
			ms := r.Hours[i].valueOf(which)
			at, err := time.Parse("2006-01-02T15:04Z", r.Hours[i].Name)
			if ms == nil || err != nil {
				continue
			}
			if !yield(level{at, *ms, at.Sub(last) != time.Hour}) {
				return
			}
			last = at
		}
	}
}

// height is a logarithmic scale that has 0.
func height(ms int64) float64 { return math.Log10(float64(ms) + 1) }

// top is the greatest lateness of the picture.
func (r *Report) top() int64 {
	top := max(r.WithinMS*2, 10)
	if r.Total.MaxMS != nil {
		top = max(top, *r.Total.MaxMS)
	}
	return top
}

// rows are the ticks of lateness, with their labels.
func rows(top int64) iter.Seq2[int64, string] {
	return func(yield func(int64, string) bool) {
		for ms := int64(1); ms <= top && yield(ms, MS(&ms)); ms *= 10 {
		}
	}
}

// columns are the ticks of time, with their labels.
func columns(from, until time.Time) iter.Seq2[time.Time, string] {
	return func(yield func(time.Time, string) bool) {
		for i := range 5 {
			at := from.Add(until.Sub(from) * time.Duration(i) / 4).UTC()
			if !yield(at, at.Format("2 Jan 15:04")) {
				return
			}
		}
	}
}
