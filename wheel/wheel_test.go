package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// drainAll advances to now and returns what came out.
func drainAll(w *Wheel, now int64) (out []entry) {
	w.Advance(now, func(due int64, ref string) bool {
		out = append(out, entry{due, ref})
		return true
	})
	return out
}

func TestAdvance(t *testing.T) {
	const now = 1_000_000_000_123
	for _, c := range []struct {
		name  string
		add   []entry
		hands []int64
		want  []string // after each hand
	}{
		{"one tick before", []entry{{now + 5, "a"}}, []int64{now + 4}, []string{""}},
		{"on the tick", []entry{{now + 5, "a"}}, []int64{now + 5}, []string{"a"}},
		{"now", []entry{{now, "a"}}, []int64{now}, []string{"a"}},
		{"past", []entry{{now - 99999, "a"}}, []int64{now}, []string{"a"}},
		{"before 1970", []entry{{-5, "a"}}, []int64{now}, []string{"a"}},
		{"same ms in order of ref", []entry{{now + 900, "b"}, {now + 900, "a"}}, []int64{now + 900}, []string{"ab"}},
		{"same ms late in order of ref", []entry{{now, "b"}, {now, "a"}, {now, "c"}}, []int64{now}, []string{"abc"}},
		{"due before ref", []entry{{now + 901, "a"}, {now + 900, "b"}}, []int64{now + 901}, []string{"ba"}},
		{"twice the same", []entry{{now + 900, "a"}, {now + 900, "a"}}, []int64{now + 900}, []string{"aa"}},
		{
			"clock steps back",
			[]entry{{now + 900, "a"}, {now + 901, "b"}},
			[]int64{now + 900, now - 5000, now + 901},
			[]string{"a", "", "b"},
		},
		{"far jump", []entry{{now + 900, "a"}, {now + 299_000, "b"}}, []int64{now + 1e12}, []string{"ab"}},
		{"end of time", []entry{{now + 900, "a"}}, []int64{math.MaxInt64}, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(Options{}, now)
			for _, e := range c.add {
				if !w.Add(e.due, e.ref) {
					t.Fatalf("Add(%d, %q) = false", e.due, e.ref)
				}
			}
			for i, hand := range c.hands {
				got := ""
				for _, e := range drainAll(w, hand) {
					got += e.ref
				}
				if got != c.want[i] {
					t.Errorf("Advance(%d) = %q, want %q", hand, got, c.want[i])
				}
			}
		})
	}
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name   string
		window time.Duration
		span   int64 // ms from the start of the open bucket to End
	}{
		{"default", 0, 1172*256 + 256},
		{"one ms", time.Millisecond, 512},
		{"one bucket", 256 * time.Millisecond, 512},
		{"a ring that is a power of two", 256 * 256 * time.Millisecond, 257 * 256},
		{"bounded", 1000 * time.Hour, (24*3600*1000/256 + 1) * 256},
	} {
		t.Run(c.name, func(t *testing.T) {
			const now = 256 * 1e9
			w := New(Options{Window: c.window}, now)
			if got := w.End() - now; got != c.span {
				t.Fatalf("End() - now = %d, want %d", got, c.span)
			}
			if w.Add(w.End(), "x") || w.Add(math.MaxInt64, "x") {
				t.Error("Add at or beyond End was taken")
			}
			if !w.Add(w.End()-1, "x") {
				t.Error("Add just before End was refused")
			}
			w.Advance(w.End(), func(int64, string) bool { return true })
			if w.Len() != 0 {
				t.Errorf("Len() = %d after End", w.Len())
			}
		})
	}
}

// TestShortRing: of a ring with fewer buckets than a word has bits, each bucket is found from each place of the hand.
func TestShortRing(t *testing.T) {
	const bucket = 256 // ms
	for start := range int64(64) {
		now := start * bucket
		for due := now; ; due += bucket {
			w := New(Options{Window: 20 * bucket * time.Millisecond}, now)
			if !w.Add(due, "x") {
				break
			}
			if got, ok := w.Next(); !ok || got != due {
				t.Errorf("from %d the next is %d, %t, want %d", now, got, ok, due)
			}
			n := 0
			w.Advance(due+1, func(int64, string) bool { n++; return true })
			if n != 1 {
				t.Errorf("from %d: %d fire up to %d", now, n, due)
			}
		}
	}
}

// TestStop: what was not emitted stays, in order, and counts.
func TestStop(t *testing.T) {
	w := New(Options{}, 0)
	for i := range 1000 {
		w.Add(int64(i*7), fmt.Sprint(i))
	}
	var got []int64
	for w.Len() > 0 {
		left := 3
		w.Advance(10_000, func(due int64, _ string) bool {
			got = append(got, due)
			left--
			return left > 0
		})
	}
	if len(got) != 1000 || !slices.IsSorted(got) {
		t.Errorf("got %d entries, sorted %v", len(got), slices.IsSorted(got))
	}
}

// TestAddWhileEmitting is a chain: each entry adds the next one.
func TestAddWhileEmitting(t *testing.T) {
	w := New(Options{}, 0)
	w.Add(1, "x")
	n := 0
	w.Advance(100_000, func(due int64, ref string) bool {
		n++
		w.Add(due+100, ref)
		return true
	})
	if next, ok := w.Next(); n != 1000 || !ok || next != 100_001 {
		t.Errorf("fired %d, next %d %v; want 1000, 100001 true", n, next, ok)
	}
}

// model is the wheel as a sorted slice.
type model []entry

func (m *model) add(e entry) {
	i := sort.Search(len(*m), func(i int) bool { return e.less((*m)[i]) })
	*m = slices.Insert(*m, i, e)
}

func (m *model) advance(now int64, limit int) (out []entry) {
	for len(*m) > 0 && (*m)[0].due <= now && len(out) < limit {
		out = append(out, (*m)[0])
		*m = (*m)[1:]
	}
	return out
}

func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(20) {
		runModel(t, seed+i, 3000)
	}
}

func runModel(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 0))
	now := int64(r.IntN(1 << 40))
	w := New(Options{Window: time.Duration(1+r.IntN(100_000)) * time.Millisecond, MaxEntries: 1 + r.IntN(1000)}, now)
	w.many = 1 + r.IntN(5)
	spread := 1 + r.Int64N(200_000)
	var m model
	for step := range steps {
		if r.IntN(4) > 0 {
			e := entry{now - 2000 + r.Int64N(spread), fmt.Sprintf("%c%d", 'a'+r.IntN(3), r.IntN(50))}
			if taken := w.Add(e.due, e.ref); taken != (e.due < w.End()) {
				t.Fatalf("seed %d step %d: Add(%d) = %v, End %d", seed, step, e.due, taken, w.End())
			} else if taken {
				m.add(e)
			}
		} else {
			now += r.Int64N(2000) - 200
			if r.IntN(100) == 0 {
				now += r.Int64N(2 * spread)
			}
			limit := 1 + r.IntN(100)
			want := m.advance(now, limit)
			var got []entry
			w.Advance(now, func(due int64, ref string) bool {
				got = append(got, entry{due, ref})
				return len(got) < limit
			})
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d step %d: Advance(%d) = %v, want %v", seed, step, now, got, want)
			}
		}
		if r.IntN(4) == 0 {
			w.Prepare(now + r.Int64N(spread))
		}
		checkAgainst(t, w, m, fmt.Sprintf("seed %d step %d", seed, step))
	}
}

func checkAgainst(t *testing.T, w *Wheel, m model, where string) {
	t.Helper()
	if w.Len() != len(m) {
		t.Fatalf("%s: Len() = %d, want %d", where, w.Len(), len(m))
	}
	next, ok := w.Next()
	if ok != (len(m) > 0) || ok && next != m[0].due {
		t.Fatalf("%s: Next() = %d %v, want %v", where, next, ok, m[:min(1, len(m))])
	}
}

// FuzzWheel plays bytes as adds and advances against the model.
func FuzzWheel(f *testing.F) {
	f.Add([]byte{0, 1, 2, 255, 254, 3, 3, 3, 200, 100})
	f.Add([]byte("a few seconds of ordinary life, then a jump \xff\xff\xff"))
	f.Fuzz(func(t *testing.T, play []byte) {
		now := int64(1000)
		w := New(Options{Window: time.Second}, now)
		w.many = 2
		var m model
		for i := 0; i+2 < len(play); i += 3 {
			v := int64(play[i+1])<<8 | int64(play[i+2])
			if play[i] < 160 {
				if e := (entry{now + v - 1<<15, string(play[i : i+1])}); w.Add(e.due, e.ref) {
					m.add(e)
				} else if e.due < w.End() {
					t.Fatalf("Add(%d) refused, End %d", e.due, w.End())
				}
			} else {
				now += v - 1<<14
				limit := int(play[i]) - 159
				var got []entry
				w.Advance(now, func(due int64, ref string) bool {
					got = append(got, entry{due, ref})
					return len(got) < limit
				})
				if want := m.advance(now, limit); !slices.Equal(got, want) {
					t.Fatalf("Advance(%d) = %v, want %v", now, got, want)
				}
			}
			if play[i+1]%8 == 0 {
				w.Prepare(now + v)
			}
			checkAgainst(t, w, m, fmt.Sprint("byte ", i))
		}
	})
}

// TestKeepsNothing: what has come out is not kept alive by the memory kept for
// reuse, and that memory is bounded by MaxEntries.
func TestKeepsNothing(t *testing.T) {
	const maxEntries = 10 * chunkLen
	w := New(Options{Window: time.Second, MaxEntries: maxEntries}, 0)
	now := int64(0)
	for range 5 {
		for i := range 100_000 {
			w.Add(now+int64(i%1000), "late, or in the ring")
			w.Add(now-int64(i%1000), "late and out of order")
		}
		if !w.Full() {
			t.Errorf("not full with %d entries", w.Len())
		}
		now += 1000
		drainAll(w, now)
	}
	kept := 0
	for c := w.ring.free; c != nil; c = c.next {
		kept++
		for _, ref := range c.ref {
			if ref != "" {
				t.Fatalf("a free chunk keeps %q", ref)
			}
		}
	}
	if most := maxEntries/chunkLen + 4; kept == 0 || kept > most || kept != w.ring.frees {
		t.Errorf("%d chunks kept, %d counted, want at most %d", kept, w.ring.frees, most)
	}
	for _, ref := range w.open.refs[:cap(w.open.refs)] {
		if ref != "" {
			t.Fatalf("the open bucket keeps %q", ref)
		}
	}
	for _, e := range append(w.late.run[:cap(w.late.run):cap(w.late.run)], w.late.heap[:cap(w.late.heap)]...) {
		if e.ref != "" {
			t.Fatalf("late keeps %q", e.ref)
		}
	}
	if n := cap(w.late.run) + cap(w.late.heap); n > 2*keepLate {
		t.Errorf("late keeps %d slots", n)
	}
}

// sortHerd against the library's sort: refs that share much, or nothing, that
// differ behind long runs, or by where they end.
func TestSortHerd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, ref := range map[string]func(i int) string{
		"scattered":    func(i int) string { return fmt.Sprintf("\x01reminder-%08x\x00\x01", scatter(uint32(i))) },
		"two prefixes": func(i int) string { return fmt.Sprintf("%c-a long name that they share-%d", 'a'+i%2, i*7919) },
		"all bytes": func(int) string {
			b := make([]byte, r.IntN(20))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return string(b)
		},
		"by length": func(i int) string { return "x" + strings.Repeat("\x00", i%40) },
		"few":       func(i int) string { return "same-same-same-" + strconv.Itoa(i%3) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 2, herdLen, 5000} {
				a := make([]string, n)
				for i := range a {
					a[i] = ref(i)
				}
				r.Shuffle(n, func(i, j int) { a[i], a[j] = a[j], a[i] })
				want := slices.Sorted(slices.Values(a))
				sortHerd(a, 0)
				if !slices.Equal(a, want) {
					t.Errorf("%d refs are not in order", n)
				}
			}
		})
	}
}
