package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestLostAnswers drops the broker's answer to a request that succeeded. The node retries, and
// nothing may fire twice.
func TestLostAnswers(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.Fetch, kmsg.ListOffsets} {
		t.Run(key.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: 1})
				n := w.Start("a")
				w.AwaitOwners()
				lost := 0
				n.Storm(func(k kmsg.Key) (time.Duration, bool) {
					if k == key && lost < 3 {
						lost++
						return 0, true
					}
					return 0, false
				})
				for i := range 20 {
					w.Register(fmt.Sprint("k", i), time.Now().Add(time.Duration(i)*time.Second))
				}
				time.Sleep(2 * time.Minute)
				if lost == 0 {
					t.Error("no answer was lost")
				}
				w.CheckInvariants()
			})
		})
	}
}

// TestTruncate checks what the nodes see of a log that lost its end: its records up to that
// offset, and right after them what was appended since.
func TestTruncate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1, Partitions: 1, Brokers: 2})
		for i := range 6 {
			w.Send(fmt.Sprint("k", i), `{"op":"cancel"}`)
		}
		w.Truncate(w.Names.Commands(), 0, 3)
		w.Send("k6", `{"op":"cancel"}`)
		n := w.Start("a")
		w.AwaitOwners()
		time.Sleep(5 * time.Second)
		var named []string
		for _, r := range w.Dump(w.Names.Events()) {
			named = append(named, string(r.Key))
		}
		if got := strings.Join(named, " "); got != "k0 k1 k2 k6" {
			t.Errorf("the engine has read %s", got)
		}
		for _, s := range n.Partitions() {
			if s.CommandsOffset != 4 {
				t.Errorf("it stands at %d, want 4", s.CommandsOffset)
			}
		}
	})
}

// TestFullDisk checks that a process that writes to a full disk dies, and that its successor
// loses nothing.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1})
		w.Start("a")
		w.AwaitOwners()
		w.Fill("a", true)
		due := time.Now().Add(3 * time.Minute)
		// more than the log keeps in memory
		w.Flood(3000, func(i int) (string, time.Time) { return fmt.Sprint("k", i), due })
		time.Sleep(time.Minute)
		if w.Node("a") != nil {
			t.Fatal("it lives")
		}
		w.Fill("a", false)
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(5 * time.Minute)
		w.CheckInvariants()
	})
}
