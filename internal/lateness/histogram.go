package lateness

import "math/bits"

// Histogram counts milliseconds from 0 on. Its buckets are exact below exactBelow; then each
// power of two has perOctave of them.
type Histogram struct {
	Counts []int64 `json:"c,omitempty"` // by bucket; grows as far as values go
	N      int64   `json:"n"`
	Max    int64   `json:"max"`
}

const (
	exactBits  = 4
	exactBelow = 1 << exactBits
	perOctave  = exactBelow / 2
	// mostMS bounds the values that are told apart, and so the buckets: 12 days.
	mostMS = 1 << 30
)

func (h *Histogram) add(ms int64) {
	ms = max(0, ms)
	i := bucketOf(min(ms, mostMS))
	h.grow(i + 1)
	h.Counts[i]++
	h.N++
	h.Max = max(h.Max, ms)
}

// Add adds what another histogram has counted.
func (h *Histogram) Add(o *Histogram) {
	n := min(len(o.Counts), bucketOf(mostMS)+1)
	h.grow(n)
	for i, c := range o.Counts[:n] {
		h.Counts[i] += c
	}
	h.N += o.N
	h.Max = max(h.Max, o.Max)
}

func (h *Histogram) grow(buckets int) {
	if more := buckets - len(h.Counts); more > 0 {
		h.Counts = append(h.Counts, make([]int64, more)...)
	}
}

func bucketOf(ms int64) int {
	if ms < exactBelow {
		return int(ms)
	}
	octave := bits.Len64(uint64(ms)) - 1 - exactBits //nolint:gosec // not negative
	return exactBelow + octave*perOctave + int(ms>>(octave+1)) - perOctave
}

// mostOf is the greatest value of a bucket.
func mostOf(bucket int) int64 {
	if bucket < exactBelow {
		return int64(bucket)
	}
	octave, at := (bucket-exactBelow)/perOctave, (bucket-exactBelow)%perOctave
	return int64(at+perOctave+1)<<(octave+1) - 1
}

// Percentile is the value that so many of a hundred do not exceed, by nearest rank. It is 0
// if nothing was counted.
func (h *Histogram) Percentile(percent int64) int64 {
	rank := max(1, (h.N*percent+99)/100)
	for i, n := range h.Counts {
		if rank <= n {
			return min(mostOf(i), h.Max)
		}
		rank -= n
	}
	return h.Max
}
