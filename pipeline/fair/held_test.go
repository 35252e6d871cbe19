package fair

import (
	"fmt"
	"slices"
	"testing"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// TestQueueHolds: what waits for receipts is counted and known as the earliest, but does not
// come out, before it is released up to an instant.
func TestQueueHolds(t *testing.T) {
	var r Queue
	for _, at := range []trigger.Instant{300, 100, 200, 100} {
		r.Hold(dueAt(at, trigger.Normal, fmt.Sprint("h", r.Held())))
	}
	r.push(dueAt(150, trigger.Normal, "other"), false)
	for _, c := range []struct {
		through trigger.Instant
		held    int
		newest  trigger.Instant
		first   trigger.Instant // before anything is taken
		out     []string
	}{
		{99, 4, 300, 100, []string{"other"}},
		{100, 2, 300, 100, []string{"h1", "h3"}},
		{199, 2, 300, 200, nil},
		{250, 1, 300, 200, []string{"h2"}},
		{300, 0, 0, 300, []string{"h0"}},
		{400, 0, 0, 0, nil},
	} {
		r.Release(c.through, 400)
		if r.Held() != c.held || r.HeldNewest() != c.newest || r.Unpaced() != c.held+len(c.out) {
			t.Errorf("through %d: %d held, up to %d, %d in all; want %d, up to %d, %d", c.through, r.Held(),
				r.HeldNewest(), r.Unpaced(), c.held, c.newest, c.held+len(c.out))
		}
		first, ok := r.First()
		if want := c.held+len(c.out) > 0; ok != want || ok && first != c.first {
			t.Errorf("through %d: the first is %d, %v; want %d, %v", c.through, first, ok, c.first, want)
		}
		if got := keysOf(r.Take(10, 400).Due); !slices.Equal(got, c.out) {
			t.Errorf("through %d: %v came out, want %v", c.through, got, c.out)
		}
	}
}

// TestQueueReleasesOverdue: what was held for longer than overdueAfter goes behind what is on
// time, as if the wheel had released it then.
func TestQueueReleasesOverdue(t *testing.T) {
	var r Queue
	r.Hold(dueAt(1000, trigger.Normal, "late"))
	r.Release(1000, 2001)
	r.push(dueAt(2000, trigger.Normal, "now"), false)
	if got := keysOf(r.Take(2, 2001).Due); !slices.Equal(got, []string{"now", "late"}) {
		t.Errorf("%v", got)
	}
}

// TestQueuePush: a second late is on time, a millisecond more is overdue.
func TestQueuePush(t *testing.T) {
	var r Queue
	r.Push(dueAt(999, trigger.High, "overdue"), 2000)
	r.Push(dueAt(1000, trigger.Low, "on time"), 2000)
	if r.Newest() != 0 {
		t.Errorf("%d skipped the wheel", r.Newest())
	}
	r.PushRead(dueAt(998, trigger.Normal, "behind"), 2000)
	if r.Newest() != 998 {
		t.Errorf("the newest that skipped the wheel is %d", r.Newest())
	}
	for d, want := range map[statestore.DueKey]int{
		dueAt(1000, trigger.Low, "x"): 1, dueAt(1000, trigger.Normal, "x"): 0, dueAt(999, trigger.Normal, "x"): 1,
		dueAt(999, trigger.Low, "x"): 0, dueAt(999, trigger.High, "other/x"): 0,
	} {
		if n := r.Waiting(d, 2000); n != want {
			t.Errorf("%v: %d wait, want %d", d, n, want)
		}
	}
	if got := keysOf(r.Take(3, 2000).Due); !slices.Equal(got, []string{"on time", "overdue", "behind"}) {
		t.Errorf("%v", got)
	}
}

// TestQueueWakes: at what is in the lanes, else when the pacer allows one.
func TestQueueWakes(t *testing.T) {
	r := New(10)
	wake := func(name string, now, want trigger.Instant, wantOK bool) {
		t.Helper()
		if at, ok := r.Wake(now); at != want || ok != wantOK {
			t.Errorf("%s: %d, %v; want %d, %v", name, at, ok, want, wantOK)
		}
	}
	wake("empty", 1000, 0, false)
	r.Hold(dueAt(500, trigger.Normal, "held"))
	wake("held alone", 1000, 0, false)
	for i := range 3 {
		r.Pace(dueAt(trigger.Instant(900+i), trigger.Normal, fmt.Sprint("paced", i)))
	}
	wake("a full bucket", 1000, 1000, true)
	if got := r.Take(10, 1000); got.Paced != 2 || r.Paced() != 1 || r.Unpaced() != 1 || r.Newest() != 902 {
		t.Errorf("%d paced, %d left, %d others, newest %d", got.Paced, r.Paced(), r.Unpaced(), r.Newest())
	}
	wake("an empty bucket", 1000, 1101, true)
	wake("half a token", 1050, 1101, true)
	wake("a whole one", 1101, 1101, true)
	r.push(dueAt(1200, trigger.Normal, "ready"), false)
	wake("one is ready", 1050, 902, true)
}

// TestPacerOff: without a rate everything goes at once.
func TestPacerOff(t *testing.T) {
	for _, rate := range []float64{0, -1} {
		p := pacer{rate: rate}
		if n, at := p.grant(7, 1000), p.next(7, 1000); n != 7 || at != 1000 {
			t.Errorf("rate %v: %d at %d", rate, n, at)
		}
	}
}

// TestQueueTenantsTakeTurns: each gets a quantum, whoever joined first, and one that has
// nothing left does not come back.
func TestQueueTenantsTakeTurns(t *testing.T) {
	var r Queue
	for i := range Quantum + 1 {
		r.push(dueAt(trigger.Instant(i), trigger.Normal, fmt.Sprintf("a/%03d", i)), false)
	}
	for i := range Quantum {
		r.push(dueAt(trigger.Instant(i), trigger.Normal, fmt.Sprintf("b/%03d", i)), false)
	}
	got := keysOf(r.Take(2*Quantum, 0).Due)
	if got[Quantum-1] != "a/031" || got[Quantum] != "b/000" || got[2*Quantum-1] != "b/031" {
		t.Errorf("%v", got)
	}
	r.push(dueAt(0, trigger.Normal, "b/new"), false) // its lane was gone
	if got := keysOf(r.Take(9, 0).Due); !slices.Equal(got, []string{"a/032", "b/new"}) {
		t.Errorf("%v", got)
	}
	if r.n != 0 || len(r.onTime.sets[trigger.Normal].by) != 0 {
		t.Errorf("%d left, %v", r.n, r.onTime.sets[trigger.Normal].by)
	}
}

// TestPacerWholeTokens: with as many tokens as are asked for nothing waits.
func TestPacerWholeTokens(t *testing.T) {
	p := pacer{rate: 10}
	if n := p.grant(1, 1000); n != 1 || p.tokens != 1 {
		t.Fatalf("%d, and %v are left", n, p.tokens)
	}
	if at := p.next(1, 1000); at != 1000 {
		t.Errorf("at %d", at)
	}
}

// TestBefore: the order of the due index is strict, and of one instant that of the refs.
func TestBefore(t *testing.T) {
	a, b, later := dueAt(100, trigger.Normal, "a"), dueAt(100, trigger.Normal, "b"), dueAt(101, trigger.Normal, "a")
	for _, c := range []struct {
		name string
		x, y statestore.DueKey
		want bool
	}{
		{"itself", a, a, false},
		{"one instant", a, b, true},
		{"one instant, the other way", b, a, false},
		{"a later instant", b, later, true},
		{"an earlier one", later, b, false},
	} {
		if got := Before(&c.x, &c.y); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestDueQueuePieces: pieces are filled, and double up to the longest.
func TestDueQueuePieces(t *testing.T) {
	var q dueQueue
	for i := range 16 + 32 + 64 + 128 + 256 + 512 + 1024 + 1024 + 1 {
		q.push(statestore.DueKey{Due: trigger.Instant(i)})
	}
	var sizes []int
	for _, p := range q.pieces {
		sizes = append(sizes, cap(p))
	}
	if !slices.Equal(sizes, []int{16, 32, 64, 128, 256, 512, 1024, 1024, 1024}) {
		t.Errorf("%v", sizes)
	}
}
