package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// outage is a fleet of every-minute triggers that no engine fires for a while.
type outage struct {
	policy   string
	triggers int
	down     time.Duration
	frozen   bool    // the engine is frozen and resumed, not restarted
	crash    bool    // it crashes once more while it catches up
	most     int     // Machine.MaxCatchUp
	rate     float64 // CatchUpRate
}

// TestComeBack checks what fires after an outage. It must be what the misfire policy promises,
// after a freeze and after a restart alike, no faster than the catch-up rate. Timers that are due
// on time must not be late because of it.
func TestComeBack(t *testing.T) {
	const week = 7*24*time.Hour - time.Hour // at 7 days the engine refuses: see longest
	for name, o := range map[string]outage{
		"fire_all/restart":  {policy: "fire_all", triggers: 10, down: week, most: 300, rate: 600},
		"fire_all/crash":    {policy: "fire_all", triggers: 40, down: week, most: 20, rate: 80, crash: true},
		"fire_all/live":     {policy: "fire_all", triggers: 10, down: time.Hour, most: 40, rate: 100, frozen: true},
		"fire_once/restart": {policy: "fire_once", triggers: 200, down: week, most: 1000, rate: 1000},
		"fire_once/live": {
			policy: "fire_once", triggers: 100, down: 20 * time.Minute, most: 1000, rate: 1000,
			frozen: true,
		},
		"skip/restart": {policy: "skip", triggers: 200, down: week, most: 1000, rate: 1000},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, o.run) })
	}
}

// A turn here fires at most 20 and begins every 20 ms, so that work takes simulated time: 1,000
// per second.
const (
	perTurn  = 20
	interval = 20 * time.Millisecond
	punctual = 1000 // one-shots that are due on time during the catch-up
)

// period alternates. So the order in which missed occurrences are due differs from the order in
// which they are planned.
func period(i int) time.Duration { return []time.Duration{time.Minute, 7 * time.Minute}[i%2] }

func (o outage) run(t *testing.T) {
	w := sim.New(t, sim.Options{Seed: 1, Change: func(_ string, p *pipeline.Options) {
		p.Machine.MaxCatchUp, p.CatchUpRate = o.most, o.rate
		p.MaxTurnRecords, p.MinInterval = perTurn, interval
	}})
	w.Start("a")
	w.AwaitOwners()
	for i := range o.triggers {
		start := time.Now().Add(time.Duration(60_000+60_000*i/o.triggers) * time.Millisecond)
		w.Send(fmt.Sprint("every", i), fmt.Sprintf(`{"op":"register","recurrence":"every:%v","start":%q,"misfire":%q}`,
			period(i), start.UTC().Format(time.RFC3339Nano), o.policy))
	}
	time.Sleep(2*time.Minute + 500*time.Millisecond)
	before := len(w.Dump(w.Names.Due("default")))
	if o.frozen {
		w.Node("a").Freeze()
	} else {
		w.Kill("a")
	}
	time.Sleep(o.down - 30*time.Second)
	back := time.Now().Add(30 * time.Second)
	w.Flood(punctual, func(i int) (string, time.Time) { // on time, 100 per second, during the catch-up
		return fmt.Sprint("once", i), back.Add(5*time.Second + time.Duration(i)*10*time.Millisecond)
	})
	time.Sleep(30 * time.Second)
	if o.frozen {
		w.Node("a").Thaw()
	} else {
		w.Start("a")
	}
	w.AwaitOwners()
	if o.crash {
		for _, end := range []func(string){w.Kill, w.PowerLoss, func(n string) { _ = w.Stop(n) }} {
			time.Sleep(1300 * time.Millisecond)
			end("a")
			w.Start("a")
			w.AwaitOwners()
		}
	}
	time.Sleep(30 * time.Second)
	end := time.Now()
	_ = w.Stop("a")
	o.check(w, w.Dump(w.Names.Due("default")), before, end)
}

// check compares what fired with the policy, the rate and the punctual one-shots.
func (o outage) check(w *sim.World, due []*kgo.Record, before int, end time.Time) {
	t := w.T
	fired := map[string][]time.Time{}
	seconds := map[int64]int{}
	var late []time.Duration
	for _, r := range due {
		at, err := time.Parse(time.RFC3339, pipelinetest.Header(r, "ce_time"))
		if err != nil {
			t.Fatal(err)
		}
		switch key := string(r.Key); {
		case key[:4] == "once":
			late = append(late, r.Timestamp.Sub(at))
		default:
			fired[key] = append(fired[key], at)
			if r.Timestamp.Sub(at) > time.Minute {
				seconds[r.Timestamp.Unix()]++
			}
		}
	}
	for i := range o.triggers {
		key := fmt.Sprint("every", i)
		o.checkSeries(w, key, period(i), fired[key], end)
	}
	for second, n := range seconds {
		if most := int(o.rate*1.2) + 4; o.policy == "fire_all" && n > most {
			t.Errorf("%d missed occurrences went in second %d, want at most %d", n, second, most)
		}
	}
	slices.Sort(late)
	if len(late) != punctual {
		t.Fatalf("%d of %d fired that were due on time", len(late), punctual)
	}
	bound := 5 * interval
	switch {
	case o.triggers > 1000: // what is due in the last second takes some turns
		bound = 20 * interval
	case o.frozen: // its connections have died, which it must detect
		bound = 15 * interval
	}
	if worst := late[len(late)-1]; worst > bound && !o.crash {
		t.Errorf("what was due on time is up to %v late, want %v; p50 %v", worst, bound, late[punctual/2])
	}
	t.Logf("%d due events in all, %d before the outage; on time p50 %v max %v; %d misfired", len(due), before,
		late[punctual/2], late[len(late)-1], w.Heard("misfired"))
}

// checkSeries compares the firings of one trigger with the list of its occurrences.
func (o outage) checkSeries(w *sim.World, key string, period time.Duration, fired []time.Time, end time.Time) {
	runs := o.runs(w, key, period)
	end = end.Add(-2 * time.Second)
	fired = slices.DeleteFunc(fired, end.Before)
	var want []time.Time
	for at := fired[0]; !at.After(end); at = at.Add(period) {
		i := slices.IndexFunc(runs, func(r span) bool { return !at.Before(r.first) && !at.After(r.last) })
		switch {
		case i < 0:
			want = append(want, at)
		case o.policy == "skip":
		case o.policy == "fire_once" && !at.Equal(runs[i].last):
		case int(runs[i].last.Sub(at)/period) >= o.most:
		default:
			want = append(want, at)
		}
	}
	if !slices.EqualFunc(fired, want, time.Time.Equal) {
		w.T.Errorf("%s: fired %d times, want %d; missed %v\n got  %v\n want %v", key, len(fired), len(want), runs,
			brief(fired), brief(want))
	}
}

// span is a run of missed occurrences.
type span struct{ first, last time.Time }

// runs checks the runs of missed occurrences that events report, and returns them. Occurrences
// that become late during the catch-up are a run of their own. No occurrence may be in two runs,
// and none between two.
func (o outage) runs(w *sim.World, key string, period time.Duration) (all []span) {
	named := w.Misfires(key)
	if len(named) == 0 || (len(named) > 2 && o.policy != "fire_all") {
		w.T.Fatalf("%s: %d runs were told", key, len(named))
	}
	var before time.Time
	for i, run := range named {
		from, to := parse(w.T, run.First), parse(w.T, run.Last)
		if n := int(to.Sub(from)/period) + 1; n != run.Count || (i > 0 && from.Sub(before) != period) {
			w.T.Errorf("%s: run %d is told as %d from %v to %v, after %v", key, i, run.Count, from, to, before)
		}
		if at := time.UnixMicro(run.EventUS); at.Sub(to) <= time.Minute || at.Sub(to) > time.Minute+period {
			w.T.Errorf("%s: at %v the last missed one is %v", key, at, to)
		}
		before = to
		all = append(all, span{from, to})
	}
	return all
}

func parse(t testing.TB, s string) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func brief(all []time.Time) []time.Time { return all[max(0, len(all)-5):] }

// TestBacklogUnderCommands has three thousand overdue timers when the engine returns, and a
// thousand commands per second. The overdue timers must not wait for a pause in the commands
// (F12). Timers that are due on time must not wait for the overdue ones.
func TestBacklogUnderCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1, Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			o.MaxTurnRecords, o.MinInterval = 50, interval // 2,500 firings per second
		}})
		back := time.Now().Add(3 * time.Hour)
		w.Start("a")
		w.Flood(3300, func(i int) (string, time.Time) {
			if i < 3000 {
				return fmt.Sprint("overdue", i), back.Add(-2 * time.Hour)
			}
			return fmt.Sprint("punctual", i), back.Add(200*time.Millisecond + time.Duration(i-3000)*5*time.Millisecond)
		})
		time.Sleep(10 * time.Second)
		w.Kill("a")
		time.Sleep(time.Until(back))
		w.Start("a")
		for i := range 3000 {
			w.Register(fmt.Sprint("new", i), time.Now().Add(2*time.Second))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		w.CheckInvariants()
		worst := map[byte]time.Duration{}
		for _, r := range w.Dump(w.Names.Due("default")) {
			at := parse(t, pipelinetest.Header(r, "ce_time"))
			if r.Key[0] == 'o' {
				at = back
			}
			worst[r.Key[0]] = max(worst[r.Key[0]], r.Timestamp.Sub(at))
		}
		if worst['o'] > 5*time.Second || worst['p'] > 8*interval || worst['n'] > 8*interval {
			t.Errorf("overdue ones took %v, want 5 s; on time were %v and %v late, want %v", worst['o'], worst['p'],
				worst['n'], 8*interval)
		}
		t.Logf("overdue %v, punctual %v, new %v", worst['o'], worst['p'], worst['n'])
	})
}
