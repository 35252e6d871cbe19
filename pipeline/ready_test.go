package pipeline

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

func dueAt(at trigger.Instant, p trigger.Priority, key string) statestore.DueKey {
	return statestore.DueKey{Due: at, Ref: statestore.Ref(trigger.Timer{Due: at, Priority: p, Kind: trigger.TimerSeries, Occurrence: "o"}, trigger.Key(key))}
}

func keysOf(due []statestore.DueKey) []string {
	var out []string
	for _, d := range due {
		_, key, _, _, _ := statestore.ParseRef(d.Ref)
		out = append(out, string(key))
	}
	return out
}

func TestReadyIsFair(t *testing.T) {
	var r ready
	for i := range 10_000 {
		r.push(dueAt(1000, trigger.Normal, fmt.Sprintf("herd/%05d", i)))
	}
	r.push(dueAt(1001, trigger.Normal, "other/a"))
	r.push(dueAt(1002, trigger.Low, "other/low"))
	r.push(dueAt(1003, trigger.High, "herd/otp"))
	if first, ok := r.first(); !ok || first != 1000 {
		t.Errorf("first %v %v", first, ok)
	}
	got := keysOf(r.take(100))
	if got[0] != "herd/otp" {
		t.Errorf("the first is %s, want the high one", got[0])
	}
	if want := "other/a"; got[1+quantum] != want {
		t.Errorf("after one quantum of the herd comes %s, want %s", got[1+quantum], want)
	}
	rest := keysOf(r.take(1 << 20))
	if r.n != 0 || len(got)+len(rest) != 10_003 {
		t.Fatalf("%d left, %d taken", r.n, len(got)+len(rest))
	}
	if last := rest[len(rest)-1]; last != "other/low" {
		t.Errorf("the last is %s, want the low one", last)
	}
	if _, ok := r.first(); ok {
		t.Error("an empty queue has a first")
	}
}

// With one tenant and one priority the order is that of the due index.
func TestReadyKeepsOrder(t *testing.T) {
	var r ready
	for i := range 1000 {
		r.push(dueAt(trigger.Instant(i), trigger.Normal, fmt.Sprintf("k%04d", i)))
	}
	n := 0
	for _, size := range []int{1, 31, 33, 500, 1000} {
		for _, d := range r.take(size) {
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
