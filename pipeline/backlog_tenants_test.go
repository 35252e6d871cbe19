package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestBacklogBeyondMemory: a tenant has 120 times as many overdue triggers as find room in
// memory. What falls due meanwhile of another tenant, and of its own, is on time all the same,
// and each trigger fires once, also if the engine is killed in the middle.
func TestBacklogBeyondMemory(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const room, overdue, onTime = 200, 3 * 8192, 50
				w := sim.New(t, sim.Options{Seed: 41, Partitions: 1, Change: func(_ string, o *pipeline.Options) {
					pipeline.HoldTimers(o, room, 0)
				}})
				w.Start("a")
				w.AwaitOwners()
				due := map[string]time.Time{}
				register := func(n int, name string, at func(i int) time.Time) {
					w.SendAll(n, func(i int) (key, body string) {
						key = fmt.Sprintf("%s-%d", name, i)
						due[key] = at(i).Truncate(time.Millisecond)
						return key, fmt.Sprintf(`{"op":"register","fire_at":%q}`, due[key].UTC().Format(time.RFC3339Nano))
					})
				}
				begin := time.Now().Add(time.Minute)
				every := func(d time.Duration) func(i int) time.Time {
					from := begin
					return func(i int) time.Time { return from.Add(time.Duration(i) * d) }
				}
				register(overdue, "acme/old", every(time.Millisecond))
				begin = begin.Add(time.Minute)
				for _, name := range []string{"blue/now", "acme/now"} {
					register(onTime, name, every(100*time.Millisecond))
				}
				time.Sleep(10 * time.Second)
				_ = w.Stop("a")
				time.Sleep(time.Until(begin.Add(-2 * time.Second)))
				a := w.Start("a")
				a.Delay(kmsg.EndTxn, 200*time.Millisecond)
				w.AwaitOwners()
				if killed {
					time.Sleep(time.Until(begin.Add(2 * time.Second)))
					w.Kill("a")
					w.Start("a").Delay(kmsg.EndTxn, 200*time.Millisecond)
				}
				last := map[string]time.Time{} // when the last of each name fired
				for _, r := range w.Tail(w.Names.Due("default")).Take(len(due)) {
					key := string(r.Key)
					at, ok := due[key]
					if !ok {
						t.Fatalf("%s fired twice", key)
					}
					delete(due, key)
					name, _, _ := strings.Cut(key, "-")
					last[name] = r.Timestamp
					if late := r.Timestamp.Sub(at); name != "acme/old" && !killed && late > time.Second {
						t.Errorf("%s fired %v late", key, late)
					}
				}
				if !killed && last["acme/old"].Before(last["blue/now"].Add(time.Second)) {
					t.Errorf("the backlog ended at %v, what was on time at %v", last["acme/old"], last["blue/now"])
				}
			})
		})
	}
}

// TestDueFasterThanFired: for twenty seconds, timers of a tenant fall due faster than they fire, and what is
// overdue finds no room in memory. What another tenant registers meanwhile is on time all the same, also where several
// of its timers fall due in one turn.
func TestDueFasterThanFired(t *testing.T) {
	for _, room := range []int{400, 3000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { dueFasterThanFired(t, room) })
		})
	}
}

func dueFasterThanFired(t *testing.T, room int) {
	const flood, beside, atOnce = 60_000, 200, 2
	w := sim.New(t, sim.Options{Seed: 43, Partitions: 1, Change: func(_ string, o *pipeline.Options) {
		pipeline.HoldTimers(o, room, 0)
		o.MaxTurnRecords = 400
	}})
	a := w.Start("a")
	w.AwaitOwners()
	due := map[string]time.Time{}
	register := func(key string, at time.Time) (string, string) {
		due[key] = at.Truncate(time.Millisecond)
		return key, fmt.Sprintf(`{"op":"register","fire_at":%q}`, due[key].UTC().Format(time.RFC3339Nano))
	}
	begin := time.Now().Add(time.Minute)
	w.SendAll(flood, func(i int) (key, body string) {
		return register(fmt.Sprint("acme/flood-", i), begin.Add(20*time.Second*time.Duration(i)/flood))
	})
	time.Sleep(time.Until(begin.Add(-time.Second)))
	a.Delay(kmsg.EndTxn, 200*time.Millisecond)
	a.Delay(kmsg.ListOffsets, 100*time.Millisecond)
	for i := 0; i < beside; i += atOnce {
		w.SendAll(atOnce, func(j int) (key, body string) {
			return register(fmt.Sprintf("blue/now-%d-%d", i, j), time.Now().Add(time.Second))
		})
		w.SendAll(40, func(j int) (key, body string) {
			return register(fmt.Sprintf("acme/more-%d-%d", i, j), time.Now().Add(time.Duration(j%10+1)*time.Second))
		})
		time.Sleep(20 * time.Second * atOnce / beside)
	}
	var latest, flooded time.Duration
	for _, r := range w.Tail(w.Names.Due("default")).Take(len(due)) {
		late := r.Timestamp.Sub(due[string(r.Key)])
		if strings.HasPrefix(string(r.Key), "blue/") {
			latest = max(latest, late)
		} else {
			flooded = max(flooded, late)
		}
	}
	t.Logf("beside %v, flood %v", latest, flooded)
	if latest > time.Second || flooded < 5*time.Second {
		t.Errorf("beside a flood that is %v late, another tenant is %v late", flooded, latest)
	}
}
