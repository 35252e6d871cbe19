package fair

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

func dueAt(at trigger.Instant, p trigger.Priority, key string) statestore.DueKey {
	return statestore.DueKey{Due: at, Ref: statestore.Ref(trigger.Timer{
		Due: at, Priority: p, Kind: trigger.TimerSeries,
		Occurrence: "o",
	}, trigger.Key(key))}
}

func keysOf(due []statestore.DueKey) []string {
	var out []string
	for _, d := range due {
		_, key, _, _, _ := statestore.ParseRef(d.Ref)
		out = append(out, string(key))
	}
	return out
}

func TestQueueIsFair(t *testing.T) {
	var r Queue
	for i := range 10_000 {
		r.push(dueAt(1000, trigger.Normal, fmt.Sprintf("herd/%05d", i)), false)
	}
	r.push(dueAt(1001, trigger.Normal, "other/a"), false)
	r.push(dueAt(1002, trigger.Low, "other/low"), false)
	r.push(dueAt(1003, trigger.High, "herd/otp"), false)
	if first, ok := r.First(); !ok || first != 1000 {
		t.Errorf("first %v %v", first, ok)
	}
	got := keysOf(r.Take(100, 0).Due)
	if len(got) != 100 {
		t.Errorf("%d taken, want 100", len(got))
	}
	if got[0] != "herd/otp" {
		t.Errorf("the first is %s, want the high one", got[0])
	}
	if want := "other/a"; got[1+Quantum] != want {
		t.Errorf("after one quantum of the herd comes %s, want %s", got[1+Quantum], want)
	}
	rest := keysOf(r.Take(1<<20, 0).Due)
	if r.n != 0 || len(got)+len(rest) != 10_003 {
		t.Fatalf("%d left, %d taken", r.n, len(got)+len(rest))
	}
	if last := rest[len(rest)-1]; last != "other/low" {
		t.Errorf("the last is %s, want the low one", last)
	}
	if _, ok := r.First(); ok {
		t.Error("an empty queue has a first")
	}
}

// A turn takes what it asked for and no more, also where tenants share it and a quantum is cut.
func TestQueueTakesNoMore(t *testing.T) {
	var r Queue
	for i := range 200 {
		for _, tenant := range []string{"a", "b", "c"} {
			r.push(dueAt(1000, trigger.Normal, fmt.Sprintf("%s/%03d", tenant, i)), false)
		}
	}
	for _, n := range []int{1, Quantum - 1, Quantum, Quantum + 1, 2*Quantum + 5, 100} {
		if got := len(r.Take(n, 0).Due); got != n {
			t.Errorf("%d taken, want %d", got, n)
		}
	}
}

// A turn knows how many of its timers are on time and of priority high.
func TestQueueCountsHigh(t *testing.T) {
	var r Queue
	for i := range 30 {
		for p, tenant := range []string{"a", "b", "c"} {
			r.push(dueAt(1000, trigger.Priority(p), fmt.Sprintf("%s/%02d", tenant, i)), false)
			r.push(dueAt(10, trigger.High, fmt.Sprintf("%s/late%02d", tenant, i)), true)
		}
	}
	for _, want := range []int{18, 12, 0, 0} { // of 20, an eighth is for what is overdue
		if got := r.Take(20, 0); got.High != want {
			t.Errorf("%d of the timers are high, want %d", got.High, want)
		}
	}
}

// With one tenant and one priority the order is that of the due index.
func TestQueueKeepsOrder(t *testing.T) {
	var r Queue
	for i := range 1000 {
		r.push(dueAt(trigger.Instant(i), trigger.Normal, fmt.Sprintf("k%04d", i)), false)
	}
	n := 0
	for _, size := range []int{1, 31, 33, 500, 1000} {
		for _, d := range r.Take(size, 0).Due {
			if d.Due != trigger.Instant(n) {
				t.Fatalf("number %d is due at %d", n, d.Due)
			}
			n++
		}
	}
	if n != 1000 {
		t.Errorf("%d came out", n)
	}
}

// What is on time goes before what was missed, which gets its share all the
// same, and the pacer's timers come beside both.
func TestQueueOnTimeFirst(t *testing.T) {
	r := Queue{pacer: pacer{rate: 100}}
	for i := range 1000 {
		r.push(dueAt(trigger.Instant(i), trigger.High, fmt.Sprintf("missed%04d", i)), true)
		r.push(dueAt(trigger.Instant(5000+i), trigger.Low, fmt.Sprintf("ontime%04d", i)), false)
		r.Pace(dueAt(trigger.Instant(i), trigger.High, fmt.Sprintf("paced%04d", i)))
	}
	got := r.Take(80, 6000)
	count := map[string]int{}
	for _, key := range keysOf(got.Due) {
		count[key[:6]]++
	}
	if count["ontime"] != 70 || count["missed"] != 10 || count["paced0"] != 10 || got.Paced != 10 {
		t.Errorf("taken %v, %d paced", count, got.Paced)
	}
	if more := r.Take(80, 6000); more.Paced != 0 {
		t.Errorf("%d paced at the same instant", more.Paced)
	}
}

// The pacer lets its rate go in pulses, and no more after a rest.
func TestPacer(t *testing.T) {
	p := pacer{rate: 1000}
	p.grant(1_000_000, 10_000) // the full bucket
	n, pulses := 0, 0
	for now := trigger.Instant(10_000); now < 20_000; pulses++ {
		now = p.next(1_000_000, now)
		n += p.grant(1_000_000, now)
	}
	if n < 9_900 || n > 10_100 || pulses > 220 {
		t.Errorf("%d in 10 s, in %d pulses; want 10,000 in 200", n, pulses)
	}
	if got := p.grant(1_000_000, 500_000); got != 100 {
		t.Errorf("%d after a rest, want two pulses", got)
	}
	if at := p.next(1, 500_000); at > 500_003 {
		t.Errorf("one alone waits until %d", at)
	}
}

// Whatever comes when, the earliest comes out first, and is known before: a
// successor reads the due index from there on.
func TestQueueKnowsTheEarliest(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var r Queue
		var model []trigger.Instant
		for range 2000 {
			if rng.IntN(2) == 0 {
				at := trigger.Instant(rng.IntN(1000))
				r.push(dueAt(at, trigger.Normal, fmt.Sprintf("k%d", rng.IntN(9))), false)
				model = append(model, at)
			} else {
				n, had := rng.IntN(4), len(model)
				taken := r.Take(n, 0).Due
				if len(taken) != min(n, had) {
					t.Fatalf("seed %d: %d came out of %d, want %d", seed, len(taken), had, n)
				}
				for _, d := range taken {
					slices.Sort(model)
					if d.Due != model[0] {
						t.Fatalf("seed %d: %d came out, the earliest is %d", seed, d.Due, model[0])
					}
					model = model[1:]
				}
			}
			if first, ok := r.First(); ok != (len(model) > 0) || ok && first != slices.Min(model) {
				t.Fatalf("seed %d: first is %d, want %d", seed, first, slices.Min(model))
			}
		}
	}
}

// What has waited in the queue for long is overdue, and what falls due now goes first. Whatever comes when, each timer
// comes out once, and the earliest is known.
func TestQueueAges(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		r, left, now := New(0), map[statestore.DueKey]bool{}, trigger.Instant(10_000)
		for i := range 4000 {
			now += trigger.Instant(rng.IntN(3))
			late := trigger.Instant(rng.IntN(2))
			if rng.IntN(50) == 0 {
				late = trigger.Instant(rng.IntN(3000))
			}
			d := dueAt(now-late, trigger.Priority(rng.IntN(3)), fmt.Sprintf("t%d/%d", rng.IntN(3), i))
			r.Push(d, now)
			left[d] = true
			if i%100 == 99 {
				n := 1 + rng.IntN(95)
				checkTake(t, seed, &r, n, now, left)
			}
		}
		for len(left) > 0 {
			now += 700
			checkTake(t, seed, &r, 200, now, left)
		}
		if r.n != 0 || r.onTime.n != 0 || r.overdue.n != 0 || len(r.onTime.sets[0].by)+len(r.overdue.sets[1].by) != 0 {
			t.Errorf("seed %d: empty, it holds %+v", seed, r)
		}
	}
}

// checkTake takes from a queue, and requires what TestQueueAges says. left is what the queue holds.
func checkTake(t *testing.T, seed uint64, r *Queue, n int, now trigger.Instant, left map[statestore.DueKey]bool) {
	t.Helper()
	had, overdue := len(left), 0
	for _, d := range r.Take(n, now).Due {
		if !left[d] {
			t.Fatalf("seed %d: %q came out twice", seed, d.Ref)
		}
		delete(left, d)
		if priority, _, _, _, _ := statestore.ParseRef(d.Ref); priority != trigger.High && isOverdue(d, now) {
			overdue++
		}
	}
	if had-len(left) != min(n, had) {
		t.Fatalf("seed %d: %d came out of %d, want %d", seed, had-len(left), had, n)
	}
	first := now
	for d := range left {
		if !isOverdue(d, now) && overdue > n/overdueShare {
			t.Fatalf("seed %d: %d overdue timers of %d go before %q, which is on time", seed, overdue, n, d.Ref)
		}
		first = min(first, d.Due)
	}
	if at, ok := r.First(); ok != (len(left) > 0) || ok && at != first {
		t.Fatalf("seed %d: first is %d, want %d", seed, at, first)
	}
}

// A herd of priority high that takes longer than a second goes before lower priorities to its end.
func TestHighDoesNotAge(t *testing.T) {
	r := New(0)
	for i := range 1000 {
		r.Push(dueAt(1000, trigger.High, fmt.Sprintf("h%d", i)), 1000)
		r.Push(dueAt(2500, trigger.Low, fmt.Sprintf("l%d", i)), 2500)
	}
	got := r.Take(80, 2600)
	if got.High != 80 || len(got.Due) != 80 || r.onTime.n != 1920 {
		t.Errorf("%d of %d are of priority high, and %d still on time", got.High, len(got.Due), r.onTime.n)
	}
}

// What has aged keeps its order, and a herd that ages is not copied.
func TestQueueAgesInOrder(t *testing.T) {
	const herd = 10_000
	r := New(0)
	for i := range herd {
		r.Push(dueAt(trigger.Instant(1000+i/10), trigger.Normal, fmt.Sprintf("k%05d", i)), 2000)
	}
	moved := &r.onTime.sets[trigger.Normal].order[0].queue.pieces[8][0]
	r.Take(0, 2500)
	if r.onTime.n != herd/2 || r.overdue.n != herd/2 {
		t.Errorf("%d are on time, %d overdue", r.onTime.n, r.overdue.n)
	}
	pieces := r.overdue.sets[trigger.Normal].order[0].queue.pieces
	if !slices.ContainsFunc(pieces, func(p []statestore.DueKey) bool { return &p[0] == moved }) {
		t.Error("what has aged was copied")
	}
	r.Take(0, 4000)
	got := r.Take(herd, 4000).Due
	byDue := func(a, b statestore.DueKey) int { return cmp.Compare(a.Due, b.Due) }
	if len(got) != herd || !slices.IsSortedFunc(got, byDue) {
		t.Errorf("%d came out, or in another order", len(got))
	}
}

// Flows counts what fell due and what was taken, each once: what is read from the store was counted when it was left
// there. What waits for the pacer does not count.
func TestQueueFlows(t *testing.T) {
	q := New(0)
	timer := func(key trigger.Key, due trigger.Instant) statestore.DueKey {
		tm := trigger.Timer{Due: due, Kind: trigger.TimerSeries}
		return statestore.DueKey{Due: due, Ref: statestore.Ref(tm, key)}
	}
	q.Push(timer("a/1", 20_000), 60_000)
	q.Push(timer("a/2", 59_900), 60_000)
	q.Came(timer("a/3", 10_000))
	q.PushRead(timer("a/3", 10_000), 60_000)
	q.Came(timer("b/1", 59_000)) // left in the store
	q.Pace(timer("c/1", 5_000))
	if got := q.Take(2, 60_000); len(got.Due) < 2 {
		t.Fatal(got)
	}
	flows := func() map[string]Flow {
		all := map[string]Flow{}
		q.Flows(func(tenant string, f Flow) { all[tenant] = f })
		return all
	}
	want := map[string]Flow{"a": {Came: 3, Took: 2, Oldest: 20_000}, "b": {Came: 1}}
	if got := flows(); !maps.Equal(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	q.Take(10, 60_000)
	if got := flows(); !maps.Equal(got, map[string]Flow{"a": {Took: 1}}) {
		t.Errorf("then %+v", got)
	}
}
