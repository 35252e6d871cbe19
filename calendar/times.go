package calendar

import "math/bits"

// timeSet is the times of day of a rule: the product of hours, minutes and
// seconds, as bit masks, so that even all 86,400 of them take 24 bytes.
type timeSet struct {
	hours, minutes, seconds uint64
}

const (
	anyHour   = 1<<24 - 1
	anyMinute = 1<<60 - 1
)

func maskOf(list []int, any uint64) uint64 {
	if list == nil {
		return any
	}
	var m uint64
	for _, v := range list {
		m |= 1 << v
	}
	return m
}

func (t timeSet) count() int {
	return popcount(t.hours) * popcount(t.minutes) * popcount(t.seconds)
}

// next finds the first time at or after tod (seconds of the day).
func (t timeSet) next(tod int) (int, bool) {
	h, m, s := tod/3600, tod/60%60, tod%60
	if t.hours>>h&1 != 0 {
		if t.minutes>>m&1 != 0 {
			if s2, ok := nextBit(t.seconds, s); ok {
				return h*3600 + m*60 + s2, true
			}
		}
		if m2, ok := nextBit(t.minutes, m+1); ok {
			return h*3600 + m2*60 + bits.TrailingZeros64(t.seconds), true
		}
	}
	if h2, ok := nextBit(t.hours, h+1); ok {
		return h2*3600 + bits.TrailingZeros64(t.minutes)*60 + bits.TrailingZeros64(t.seconds), true
	}
	return 0, false
}

func (t timeSet) first() int {
	tod, _ := t.next(0)
	return tod
}

// at is the kth time, counted from 0.
func (t timeSet) at(k int) int {
	perMinute := popcount(t.seconds)
	perHour := perMinute * popcount(t.minutes)
	return selectBit(t.hours, k/perHour)*3600 + selectBit(t.minutes, k%perHour/perMinute)*60 +
		selectBit(t.seconds, k%perMinute)
}

// spread returns the least distance between two times of one day, 0 if there
// is one time only, and the last of them.
func (t timeSet) spread() (closest, last int) {
	last = t.first()
	for {
		next, ok := t.next(last + 1)
		if !ok {
			return closest, last
		}
		if closest == 0 || next-last < closest {
			closest = next - last
		}
		last = next
	}
}

func nextBit(x uint64, from int) (int, bool) {
	x &= ^uint64(0) << from
	return bits.TrailingZeros64(x), x != 0
}

// selectBit is the position of the kth set bit, counted from 0.
func selectBit(x uint64, k int) int {
	for ; k > 0; k-- {
		x &= x - 1
	}
	return bits.TrailingZeros64(x)
}
