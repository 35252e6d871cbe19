package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// The hourly check covers a bounded part of a partition's triggers. It covers each trigger
// exactly once in as many hours as there are parts.
func TestSlices(t *testing.T) {
	const triggers, rows = 10_000, 700
	begin := time.Date(2026, 11, 25, 7, 30, 0, 0, time.UTC)
	of := sliceAt(begin, time.Hour, triggers, rows).of
	if of != 16 { // less than twice 10,000 / 700
		t.Fatalf("%d slices", of)
	}
	seen := map[trigger.Key]int{}
	for hour := range of {
		s := sliceAt(begin.Add(time.Duration(hour)*time.Hour), time.Hour, triggers, rows)
		n := 0
		for i := range triggers {
			if key := trigger.Key(fmt.Sprintf("trg_%d", i)); s.has(key) {
				seen[key]++
				n++
			}
		}
		if n > 2*rows {
			t.Errorf("hour %d: %d triggers", hour, n)
		}
	}
	if len(seen) != triggers {
		t.Errorf("%d of %d triggers were taken", len(seen), triggers)
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s was taken %d times", key, n)
		}
	}
	for _, all := range []slice{sliceAt(begin, time.Hour, 5, 5), sliceAt(begin, time.Hour, triggers, 0)} {
		if all.of != 1 || !all.has("x") {
			t.Errorf("%+v is not all", all)
		}
	}
}
