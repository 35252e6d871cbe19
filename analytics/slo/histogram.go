package slo

import "math/bits"

// histogram counts values from 0 on. Its buckets are exact below exactBelow, and then twice
// as wide with each power of two.
type histogram struct {
	counts []int64 // by bucket; grows as far as values go
	n, max int64
}

const (
	exactBits  = 10
	exactBelow = 1 << exactBits
	perOctave  = exactBelow / 2
)

func (h *histogram) add(v int64) {
	i := bucketOf(v)
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, i+1-len(h.counts))...)
	}
	h.counts[i]++
	h.n++
	h.max = max(h.max, v)
}

func bucketOf(v int64) int {
	if v < exactBelow {
		return int(v)
	}
	octave := bits.Len64(uint64(v)) - 1 - exactBits //nolint:gosec // not negative
	return exactBelow + octave*perOctave + int(v>>(octave+1)) - perOctave
}

// boundsOf is the least value of a bucket, and how many values it has.
func boundsOf(bucket int) (low, width int64) {
	if bucket < exactBelow {
		return int64(bucket), 1
	}
	octave, at := (bucket-exactBelow)/perOctave, (bucket-exactBelow)%perOctave
	return int64(at+perOctave) << (octave + 1), 1 << (octave + 1)
}

// rankOf is the nearest rank of a percentile among n values, from 1. Percentiles are in
// thousandths, so that 99.9 is exact.
func rankOf(thousandths, n int64) int64 { return max(1, (n*thousandths+99_999)/100_000) }

// target is a percentile whose bucket is known: the rank-th value from low on, below
// low + width.
type target struct {
	low, width, rank int64
	counts           []int64 // of a further pass: by low + i*step
	step             int64
}

// find is where a percentile lies.
func (h *histogram) find(thousandths int64) target {
	rank := rankOf(thousandths, h.n)
	for i, n := range h.counts {
		if rank <= n {
			low, width := boundsOf(i)
			return target{low: low, width: width, rank: rank}
		}
		rank -= n
	}
	return target{low: h.max, width: 1, rank: 1}
}

// begin makes the target ready for a pass that counts what is in its bucket.
func (t *target) begin() {
	t.step = (t.width + exactBelow - 1) / exactBelow
	t.counts = make([]int64, (t.width+t.step-1)/t.step)
}

func (t *target) add(v int64) {
	if t.counts != nil && v >= t.low && v-t.low < t.width {
		t.counts[(v-t.low)/t.step]++
	}
}

// end makes the bucket narrower by what the pass has counted.
func (t *target) end() {
	for i, n := range t.counts {
		if t.rank <= n {
			t.low, t.width, t.counts = t.low+int64(i)*t.step, t.step, nil
			return
		}
		t.rank -= n
	}
	t.width, t.counts = 1, nil // the pass saw other rows; it ends here rather than never
}
