package wheel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkLife is insert + expire in the steady state: the hand moves 1 ms a
// step and as many entries are added, up to 5 minutes ahead, as come out.
func BenchmarkLife(b *testing.B) {
	for _, pending := range []int{1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			w, r, now := filled(pending)
			fired := 0
			emit := func(due int64, ref string) bool {
				fired++
				w.Add(now+1+r.Int64N(windowMs), ref)
				return true
			}
			for range windowMs { // one round: chunks and slices have their sizes
				now++
				w.Advance(now, emit)
			}
			fired = 0
			cpu := cpuTime()
			b.ReportAllocs()
			for b.Loop() {
				now++
				w.Advance(now, emit)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(fired, 1)), "ns/life")
			b.ReportMetric(float64(cpuTime()-cpu)/float64(max(fired, 1)), "cpu-ns/life")
			b.ReportMetric(float64(fired)/float64(b.N), "fired/tick")
		})
	}
}

const windowMs = 300_000

func filled(pending int) (*Wheel, *rand.Rand, int64) {
	r := rand.New(rand.NewPCG(1, 2))
	now := int64(1_800_000_000_000)
	w := New(Options{Window: windowMs * time.Millisecond, MaxEntries: pending}, now)
	for i := range pending {
		w.Add(now+1+r.Int64N(windowMs), fmt.Sprintf("\x01reminder-%08x\x00\x01", scatter(uint32(i))))
	}
	return w, r, now
}

// scatter makes neighbours in memory strangers in order.
func scatter(i uint32) uint32 { return i * 0x9e3779b1 }

// BenchmarkHerd is one million at the same millisecond.
func BenchmarkHerd(b *testing.B) {
	for _, sorted := range []bool{true, false} {
		b.Run(fmt.Sprintf("sorted=%v", sorted), func(b *testing.B) {
			refs := make([]string, 1_000_000)
			for i := range refs {
				id := uint32(i)
				if !sorted {
					id = scatter(id)
				}
				refs[i] = fmt.Sprintf("\x01reminder-%08x\x00\x01", id)
			}
			w := New(Options{}, 0)
			now := int64(0)
			for b.Loop() {
				now += 10_000
				for _, ref := range refs {
					w.Add(now, ref)
				}
				w.Advance(now, func(int64, string) bool { return true })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(refs)), "ns/life")
		})
	}
}

// BenchmarkNext asks in the steady state, between two ticks.
func BenchmarkNext(b *testing.B) {
	for _, pending := range []int{10, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			w, _, _ := filled(pending)
			for b.Loop() {
				w.Next()
			}
		})
	}
}
