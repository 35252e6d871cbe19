package pipeline_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/trigger"
)

// readHow hears how many records restores read.
type readHow struct {
	pipeline.Listener
	records *atomic.Int64
}

func (r readHow) Restored(p int32, n int64, took time.Duration) {
	r.records.Add(n)
	r.Listener.Restored(p, n, took)
}

// TestRestoreBrokenOff strikes at batches of restores of empty disks. What is
// on the disk then must not pass for complete: the next restore goes on from
// there, and ends with the very store that lived.
func TestRestoreBrokenOff(t *testing.T) {
	for _, blow := range []struct {
		name string
		hit  func(w *sim.World)
	}{
		{"kill -9", func(w *sim.World) { w.Kill("a") }},
		{"power loss", func(w *sim.World) { w.PowerLoss("a") }},
	} {
		for _, at := range []int{1, 2, 5, 12, 25} {
			t.Run(fmt.Sprintf("%s at batch %d", blow.name, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var passes, strike, read atomic.Int64
					w := sim.New(t, sim.Options{
						Seed: uint64(at), Partitions: 1,
						Change: func(_ string, o *pipeline.Options) {
							pipeline.RestoreInChunks(o, 16)
							o.Listener = readHow{o.Listener, &read}
						},
					})
					w.OnStep(func(_ string, _ int32, step string) {
						if step == "restore" {
							if passes.Add(1) == strike.Load() {
								blow.hit(w)
							}
						}
					})
					a := w.Start("a")
					w.AwaitOwners()
					for i := range 300 {
						w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Duration(3+i%7)*time.Minute))
						// or nothing of Pebble's log reaches the disk
						w.Send(fmt.Sprintf("large%d", i),
							fmt.Sprintf(`{"op":"register","delay":"9d","payload":"%03000d"}`, i))
					}
					for i := range 60 { // later in the log than batches that know them
						w.Cancel(fmt.Sprintf("k%d", i*5))
						w.Register(fmt.Sprintf("k%d", i*5+1), time.Now().Add(3*time.Minute))
					}
					time.Sleep(5 * time.Second)
					live := contents(t, a)
					_ = w.Stop("a")
					w.SetDisk("a", nil)
					w.Start("a")
					w.AwaitOwners()
					first := read.Load()
					_ = w.Stop("a")
					w.SetDisk("a", nil)
					passes.Store(0)
					strike.Store(int64(at))
					w.Start("a")
					time.Sleep(10 * time.Second)
					if w.Node("a") != nil {
						t.Fatalf("there were only %d batches", passes.Load())
					}
					read.Store(0)
					rebuilt := contents(t, restarted(w))
					equal(t, live, rebuilt)
					if blow.name == "kill -9" && at >= 12 && read.Load() >= first {
						t.Errorf("%d records were read, and %d from the beginning: it began anew", read.Load(), first)
					}
					time.Sleep(10 * time.Minute)
					w.CheckInvariants()
				})
			})
		}
	}
}

func restarted(w *sim.World) *sim.Node {
	n := w.Start("a")
	w.AwaitOwners()
	return n
}

func equal(t *testing.T, live, rebuilt map[trigger.Key]string) {
	t.Helper()
	if len(rebuilt) != len(live) {
		t.Errorf("%d triggers live, %d rebuilt", len(live), len(rebuilt))
	}
	for key, want := range live {
		if rebuilt[key] != want {
			t.Errorf("%s differs", key)
		}
	}
}
