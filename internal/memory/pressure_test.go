package memory

import (
	"runtime"
	"testing"
)

// TestPressure walks up and down: a level is left only well below where it
// was entered.
func TestPressure(t *testing.T) {
	p := Calm
	for _, step := range []struct {
		percent int64
		want    Pressure
	}{
		{10, Calm},
		{74, Calm},
		{75, Slow},
		{70, Slow},
		{84, Slow},
		{85, Shed},
		{78, Shed},
		{76, Slow},
		{68, Slow},
		{66, Calm},
		{74, Calm},
		{120, Shed},
		{0, Calm},
	} {
		if p = p.Next(step.percent*1000, 100_000); p != step.want {
			t.Fatalf("at %d %%: level %d, want %d", step.percent, p, step.want)
		}
	}
	if got := Shed.Next(1<<40, 0); got != Calm {
		t.Errorf("without a limit: level %d", got)
	}
}

// TestWatcherCountsWhatLives: what is in use counts, what a collection frees does not.
func TestWatcherCountsWhatLives(t *testing.T) {
	runtime.GC()
	before := NewWatcher(1 << 40)
	block := make([]byte, 64*mib)
	for i := range block {
		block[i] = 1
	}
	runtime.GC()
	with := NewWatcher(before.Usage().Used + 32*mib)
	if grew := with.Usage().Used - before.Usage().Used; grew < 48*mib || grew > 96*mib {
		t.Errorf("64 MiB more in use count as %d MiB", grew/mib)
	}
	if !with.Shedding() || !with.Pressed() || before.Pressed() {
		t.Errorf("levels: %+v, before %+v", with.Usage(), before.Usage())
	}
	runtime.KeepAlive(block) // and not beyond
	runtime.GC()
	if !with.sample() || with.Shedding() {
		t.Errorf("after the collection: %+v", with.Usage())
	}
}
