package lateness

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

const begun = 1_795_000_020_000 // a whole minute

// A percentile is the exact one below 16 ms, and at most an eighth above it beyond.
func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h Histogram
		var exact []int64
		for range 1 + rng.IntN(500) {
			ms := rng.Int64N(1 << rng.IntN(30))
			h.add(ms)
			exact = append(exact, ms)
		}
		slices.Sort(exact)
		for _, p := range []int64{1, 50, 99, 100} {
			want := exact[max(1, (int64(len(exact))*p+99)/100)-1]
			got := h.Percentile(p)
			if got < want || got > want+want/8 || want < exactBelow && got != want {
				t.Fatalf("p%d of %d values is %d, exact %d", p, len(exact), got, want)
			}
		}
		if h.Percentile(100) != exact[len(exact)-1] || h.Max != exact[len(exact)-1] {
			t.Fatalf("the greatest is %d, not %d", h.Max, exact[len(exact)-1])
		}
	}
}

// Values of any size keep the histogram small, and a clock that is behind counts as 0.
func TestHistogramIsBounded(t *testing.T) {
	var h Histogram
	for _, ms := range []int64{-5, 1 << 62, mostMS} {
		h.add(ms)
	}
	h.Add(&Histogram{Counts: make([]int64, 1<<20), N: 1})
	if len(h.Counts) > 256 || h.Counts[0] != 1 || h.Percentile(99) != 1<<62 {
		t.Errorf("%d buckets, p99 %d", len(h.Counts), h.Percentile(99))
	}
	if got := (&Histogram{}).Percentile(50); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func fired(tenant, channel string, ms int) []Fired {
	return []Fired{{tenant, channel, time.Duration(ms) * time.Millisecond}}
}

// What falls out of the window is forgotten, slot by slot, and what comes again later does
// not find what was there before.
func TestWindow(t *testing.T) {
	for _, w := range Windows {
		r := NewRecent()
		r.Begin(begun)
		r.Begin(begun + 7)
		width := w.Slot.Milliseconds()
		for i := range int64(3 * w.Slots) {
			r.Count(begun+i*width, fired("a", "push", int(i)))
		}
		now := begun + int64(3*w.Slots-1)*width + width/2
		got := r.Report(now, w, "a")
		if got.SinceMS != begun || got.FirstMS != begun+int64(2*w.Slots)*width || len(got.Slots) != w.Slots {
			t.Fatalf("%s: since %d, first %d", w.Name, got.SinceMS, got.FirstMS)
		}
		for i := range got.Slots {
			if s := &got.Slots[i]; s.N != 1 || s.Max != int64(2*w.Slots+i) {
				t.Errorf("%s: slot %d has %+v", w.Name, i, s)
			}
		}
		if c := got.Channels["push"]; c.N != int64(w.Slots) {
			t.Errorf("%s: push has %d", w.Name, c.N)
		}
		r.Count(now-2*int64(w.Slots)*width, fired("a", "push", 1)) // the clock was set back
		if after := r.Report(now, w, "a"); !reflect.DeepEqual(after, got) {
			t.Errorf("%s: set back, it is %+v", w.Name, after)
		}
		if later := r.Report(now+int64(w.Slots)*width, w, ""); later.All().N != 0 {
			t.Errorf("%s: a window later there are %d", w.Name, later.All().N)
		}
	}
}

// A tenant sees its own alone; all tenants together are the sum.
func TestTenants(t *testing.T) {
	r := NewRecent()
	r.Count(begun, fired("a", "push", 5))
	r.Count(begun, fired("b", "push", 900))
	r.Count(begun, fired("b", "secret", 900))
	hour := Windows[1]
	a, all := r.Report(begun, hour, "a"), r.Report(begun, hour, "")
	if got := a.All(); got.N != 1 || got.Max != 5 || len(a.Channels) != 1 || a.Channels["push"].N != 1 {
		t.Errorf("a sees %+v, %+v", got, a.Channels)
	}
	if got := all.All(); got.N != 3 || all.Channels["push"].N != 2 || all.Channels["secret"].N != 1 {
		t.Errorf("all are %+v, %+v", got, all.Channels)
	}
	if got := r.Report(begun, hour, "nobody"); got.All().N != 0 || len(got.Channels) != 0 {
		t.Errorf("nobody sees %+v", got)
	}
}

// However many tenants fire, memory is bounded, and the sum is right.
func TestManyTenants(t *testing.T) {
	r := NewRecent()
	for i := range 10 * seriesOfSlot {
		r.Count(begun, fired(fmt.Sprint("t", i), "push", 1))
	}
	if n := len(r.rings[1][begun/60_000%60].by); n != seriesOfSlot {
		t.Errorf("%d series", n)
	}
	if got := r.Report(begun, Windows[1], ""); got.All().N != 10*seriesOfSlot {
		t.Errorf("all are %d", got.All().N)
	}
	last := r.Report(begun, Windows[1], fmt.Sprint("t", 10*seriesOfSlot-1))
	if n := last.All().N; n != 0 || !last.Incomplete || !Join(begun, Windows[1], []Report{{}, last}).Incomplete {
		t.Errorf("one that was not told apart has %d, incomplete %v", n, last.Incomplete)
	}
	if later := r.Report(begun+3_600_000, Windows[1], "t1"); later.Incomplete {
		t.Error("it is incomplete for ever")
	}
}

// Partitions that were asked a moment apart are joined by the times of their slots, over
// the wire as well.
func TestJoin(t *testing.T) {
	hour := Windows[1]
	one, other := NewRecent(), NewRecent()
	one.Begin(begun - 100)
	other.Begin(begun - 50)
	one.Count(begun-1, fired("a", "push", 5))
	other.Count(begun-1, fired("a", "sms", 7))
	other.Count(begun+1, fired("a", "sms", 9))
	reports := []Report{one.Report(begun-1, hour, ""), other.Report(begun+1, hour, ""), {}}
	for i := range reports {
		wire, err := json.Marshal(reports[i])
		if err != nil {
			t.Fatal(err)
		}
		reports[i] = Report{}
		if err := json.Unmarshal(wire, &reports[i]); err != nil {
			t.Fatal(err)
		}
	}
	sum := Join(begun+1, hour, reports)
	last, before := &sum.Slots[59], &sum.Slots[58]
	if before.N != 2 || before.Max != 7 || last.N != 1 || last.Max != 9 || sum.SinceMS != begun-50 {
		t.Errorf("joined: %+v, %+v, since %d", before, last, sum.SinceMS)
	}
	if sum.Channels["sms"].N != 2 || sum.Channels["push"].N != 1 {
		t.Errorf("channels: %+v", sum.Channels)
	}
}

// What a turn of 5,000 due events pays.
func BenchmarkCount(b *testing.B) {
	r := NewRecent()
	turn := make([]Fired, 5000)
	for i := range turn {
		turn[i] = Fired{fmt.Sprint("tenant", i%7), "push", time.Duration(i%40) * time.Millisecond}
	}
	for now := int64(begun); b.Loop(); now++ {
		r.Count(now, turn)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/fire")
}
