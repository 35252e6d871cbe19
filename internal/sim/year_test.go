package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestSpring runs a fleet of series through the five weeks in which most clocks change. What
// fires must be what preview returned before. TestYear, a soak, continues for years.
func TestSpring(t *testing.T) {
	first, _ := seeds(1)
	synctest.Test(t, func(t *testing.T) { liveThrough(t, first, 37, 2*len(sim.Rules)) })
}

// TestSeriesCheckCatches makes the engine skip, repeat and end an occurrence without the check's
// knowledge. The check must report each.
func TestSeriesCheckCatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1})
		w.Start("a")
		w.AwaitOwners()
		for _, key := range []string{"skipped", "doubled", "ended", "moved", "left"} {
			w.RegisterSeries(key, sim.Series{Recurrence: "FREQ=DAILY;BYHOUR=0,2,3", Timezone: "Europe/Dublin"})
		}
		pass := func(d time.Duration) { // hours of a stopped engine cost nothing
			_ = w.Stop("a")
			time.Sleep(d)
			w.Start("a")
			w.AwaitOwners()
			time.Sleep(2 * time.Second)
		}
		pass(10 * time.Hour)
		w.Send("skipped", `{"op":"skip"}`)
		w.Send("doubled", `{"op":"run_now"}`)
		w.Send("ended", `{"op":"cancel"}`)
		w.Send("moved", `{"op":"rezone","timezone":"Europe/Paris"}`)
		time.Sleep(time.Second)
		pass(26 * time.Hour)
		all := strings.Join(w.Violations(), "\n")
		for _, key := range []string{"skipped", "doubled", "ended", "moved"} {
			if !strings.Contains(all, "series "+key) {
				t.Errorf("nothing is said of %s", key)
			}
		}
		if strings.Contains(all, "series left") {
			t.Error("something is said of the one that was left alone")
		}
		t.Log(all)
	})
}

// liveThrough simulates so many days from 1 March 2026 on.
func liveThrough(t *testing.T, seed uint64, days, series int) {
	time.Sleep(time.Until(time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))) // a bubble begins in the year 2000
	w := sim.New(t, sim.Options{Seed: seed, Change: func(_ string,
		o *pipeline.Options,
	) {
		o.Machine.MisfireAfter = 30 * 24 * time.Hour
	}})
	w.Start("a")
	w.AwaitOwners()
	keys := w.Fleet(series, sim.Reach{Days: 300, Start: 9, Jitter: 7 * time.Minute})
	begin := time.Now()
	for n := 0; time.Since(begin) < time.Duration(days)*24*time.Hour; n++ {
		visit(w, n)
		w.CheckUpcoming(keys[w.Rand.IntN(len(keys))], 20)
		depart(w)
	}
	w.Start("z")
	w.AwaitOwners()
	time.Sleep(20 * time.Minute) // the longest jitter, and a rest
	w.CheckInvariants()
	t.Logf("seed %d: %d days, %d series fired %d times, %d openings, %d aborted turns", seed, days, series,
		w.Heard("fired"), w.Heard("openings"), w.Heard("aborted"))
}

// visit runs nodes for some minutes, with faults. Between visits time leaps: an idle engine polls
// its broker every second, and a year has many seconds.
func visit(w *sim.World, n int) {
	names := []string{fmt.Sprint("n", n%3), fmt.Sprint("n", (n+1)%3)}
	for _, name := range names {
		if w.Node(name) == nil {
			w.Start(name)
		}
	}
	for range w.Rand.IntN(3) {
		time.Sleep(time.Duration(w.Rand.IntN(20_000)) * time.Millisecond)
		hit(w, names[w.Rand.IntN(2)])
	}
	for _, node := range w.Nodes() { // also zombies of the last departure
		node.Thaw()
		node.Heal()
	}
	for _, name := range names {
		if w.Node(name) == nil {
			w.Start(name)
		}
	}
	w.AwaitOwners()
	time.Sleep(time.Duration(1+w.Rand.IntN(90)) * time.Second)
}

func hit(w *sim.World, name string) {
	node := w.Node(name)
	if node == nil {
		w.Start(name)
		return
	}
	switch w.Rand.IntN(6) {
	case 0:
		w.Kill(name)
	case 1:
		w.PowerLoss(name)
	case 2:
		node.Freeze()
		time.AfterFunc(15*time.Second, node.Thaw)
	case 3:
		node.Hang()
		time.AfterFunc(12*time.Second, node.Heal)
	case 4:
		node.Cut()
	case 5:
		_ = w.Stop(name)
	}
}

// depart ends every node, each in a different way, and lets hours or days pass. A node that is
// only frozen returns as a zombie.
func depart(w *sim.World) {
	leap := time.Duration(w.Rand.Int64N(int64(5 * 24 * time.Hour)))
	for _, node := range w.Nodes() {
		switch w.Rand.IntN(8) {
		case 0:
			node.Freeze()
			leap = min(leap, 20*time.Minute)
		case 1, 2:
			_ = w.Stop(node.Name)
		case 3, 4, 5:
			w.Kill(node.Name)
		default:
			w.PowerLoss(node.Name)
		}
	}
	time.Sleep(leap)
}
