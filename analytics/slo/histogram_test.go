package slo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// exactly finds a percentile as Fold does: in passes.
func exactly(h *histogram, values []int64, thousandths int64) (ms int64, passes int) {
	t := h.find(thousandths)
	for t.width > 1 {
		t.begin()
		for _, v := range values {
			t.add(v)
		}
		t.end()
		passes++
	}
	return t.low, passes
}

// Percentiles are the values that stand at their rank among all values in order.
func TestPercentilesAreExact(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		n    int
		draw func() int64
		most int // passes
	}{
		{"one", 1, func() int64 { return 7 }, 0},
		{"exact buckets", 1000, func() int64 { return dice.Int64N(1024) }, 0},
		{"on the edges", 300, func() int64 { return 1<<dice.IntN(20) - dice.Int64N(2) }, 1},
		{"a minute", 5000, func() int64 { return dice.Int64N(60_000) }, 1},
		{"weeks", 5000, func() int64 { return dice.Int64N(1 << 31) }, 3},
		{"all of them", 500, func() int64 { return dice.Int64N(math.MaxInt64) }, 6},
		{"the same", 100, func() int64 { return 123_456_789 }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h histogram
			var values []int64
			for range c.n {
				v := c.draw()
				values = append(values, v)
				h.add(v)
			}
			sorted := slices.Sorted(slices.Values(values))
			for _, p := range []int64{1, 1000, 50_000, 90_000, 99_000, 99_900, 99_999} {
				got, passes := exactly(&h, values, p)
				want := sorted[int(math.Ceil(float64(p)*float64(c.n)/100_000))-1]
				if got != want || passes > c.most {
					t.Errorf("p%v of %d values: %d after %d passes, want %d", percent(p), c.n, got, passes, want)
				}
			}
			if h.max != sorted[c.n-1] {
				t.Errorf("the worst is %d, want %d", h.max, sorted[c.n-1])
			}
		})
	}
}

// Each value is in the bucket whose bounds have it, and buckets leave no gap.
func TestBuckets(t *testing.T) {
	next := int64(0)
	for b := range bucketOf(1 << 40) {
		low, width := boundsOf(b)
		if low != next || bucketOf(low) != b || bucketOf(low+width-1) != b {
			t.Fatalf("bucket %d is [%d, +%d), after one that ends at %d; its ends are in %d and %d", b, low, width,
				next, bucketOf(low), bucketOf(low+width-1))
		}
		next = low + width
	}
}
