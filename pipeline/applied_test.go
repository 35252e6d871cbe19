package pipeline

import (
	"maps"
	"testing"
)

// TestWith: what is set joins what was there, and the old map stays as it was.
func TestWith(t *testing.T) {
	old := map[int32]int64{1: 10, 2: 20}
	next := with(old, 2, 21)
	if !maps.Equal(next, map[int32]int64{1: 10, 2: 21}) || !maps.Equal(old, map[int32]int64{1: 10, 2: 20}) {
		t.Errorf("%v makes %v", old, next)
	}
}
