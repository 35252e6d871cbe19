package forecast

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

const now = 1_795_000_031_234 // 31 s behind a minute

// A question finds what a list of occurrences has, however much later it is asked, by every
// group, and of every tenant.
func TestAnswers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	type occurrence struct {
		Key
		nominal, due int64
	}
	for frame, f := range Frames {
		width := f.Width.Milliseconds()
		b := NewBuilder(f, now)
		var all []occurrence
		for range 5000 {
			o := occurrence{Key: Key{
				Tenant: fmt.Sprint("t", rng.IntN(3)), Channel: fmt.Sprint("c", rng.IntN(3)),
				Priority: fmt.Sprint("p", rng.IntN(3)),
			}, nominal: now + rng.Int64N(f.EndOf(now)-now+10*width) - 2*width}
			o.due = o.nominal + rng.Int64N(3*width)
			b.Add(o.Key, o.nominal, o.due)
			all = append(all, o)
		}
		p := b.Picture()
		for _, later := range []int64{0, width, 7 * width} {
			for _, tenant := range []string{"", "t0", "t1", "nobody"} {
				for _, by := range append([]string{""}, Groups...) {
					q := Query{
						Frame: frame, FirstMS: f.First(now + later), N: 1 + rng.IntN(f.Buckets-10),
						Tenant: tenant, By: by,
					}
					want := newAnswer(q.N)
					want.AtMS = now
					for _, o := range all {
						if tenant != "" && o.Tenant != tenant {
							continue
						}
						if o.due < now { // overdue
							o.nominal, o.due = now, now
						}
						if i := (o.nominal - q.FirstMS) / width; o.nominal >= max(now, q.FirstMS) && i < int64(q.N) {
							want.Counts[i].Nominal++
						}
						if i := (o.due - q.FirstMS) / width; o.due >= q.FirstMS && i < int64(q.N) {
							want.Counts[i].Due++
							if by != "" {
								want.due(o.group(by))[i]++
							}
						}
					}
					if got := p.Answer(q); !reflect.DeepEqual(got, want) {
						t.Fatalf("%s: %+v: %+v, want %+v", f.Name, q, got, want)
					}
				}
			}
		}
	}
}

// A picture is full with maxCells counts: all together stay right, and it says that others
// are too low.
func TestManyKeys(t *testing.T) {
	f := Frames[1]
	b := NewBuilder(f, now)
	const n = maxCells + 1000
	for i := range int64(n) {
		at := now + 3600_000*(i%2000)
		b.Add(Key{Tenant: fmt.Sprint("t", i/2000)}, at, at)
	}
	p := b.Picture()
	all := p.Answer(Query{Frame: 1, FirstMS: f.First(now), N: 2000})
	sum := int64(0)
	for _, c := range all.Counts {
		sum += c.Due
	}
	if sum != n || all.Incomplete || p.cells != maxCells {
		t.Errorf("%d in %d cells, %v", sum, p.cells, all.Incomplete)
	}
	if own := p.Answer(Query{Frame: 1, FirstMS: f.First(now), N: 5, Tenant: "t1"}); !own.Incomplete {
		t.Error("a tenant does not hear that its counts may be too low")
	}
}

// Partitions add up, over the wire as well; the oldest picture says how old the sum is.
func TestJoin(t *testing.T) {
	f := Frames[0]
	q := Query{FirstMS: f.First(now), N: 3, By: "channel"}
	var all []Answer
	for i := range int64(3) {
		b := NewBuilder(f, now+i)
		b.Add(Key{Channel: fmt.Sprint("c", i%2)}, now+60_000, now+120_000)
		wire, err := json.Marshal(b.Picture().Answer(q))
		if err != nil {
			t.Fatal(err)
		}
		var a Answer
		if err := json.Unmarshal(wire, &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	got := Join(3, append(all, Answer{}))
	want := Answer{
		AtMS: now, Counts: []Count{{}, {Nominal: 3}, {Due: 3}},
		By: map[string][]int64{"c0": {0, 0, 2}, "c1": {0, 0, 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What an occurrence costs.
func BenchmarkAdd(b *testing.B) {
	f := Frames[1]
	p := NewBuilder(f, now)
	keys := []Key{{"acme", "push", "normal"}, {"acme", "sms", "normal"}, {"blue", "push", "high"}}
	for i := int64(0); b.Loop(); i++ {
		at := now + i%7_000_000*1000
		p.Add(keys[i%3], at, at+1000)
	}
}
