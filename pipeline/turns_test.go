package pipeline_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// soak says that there is time for the long variants.
func soak() bool { return os.Getenv("WATERCLOCK_TEST_SOAK") != "" }

// TestHerd: 50,000, or in a soak 200,000, are due at one instant. They go out in bounded turns;
// commands sent meanwhile are decided before the herd is through, and cancels
// of what has not gone out yet are honoured.
func TestHerd(t *testing.T) {
	herd, most := 50_000, 1250
	if soak() {
		herd, most = 200_000, 5000
	}
	synctest.Test(t, func(t *testing.T) {
		var turns atomic.Int64
		var w *sim.World = sim.New(t, sim.Options{Partitions: 1, Change: func(_ string,
			o *pipeline.Options,
		) {
			o.MaxTurnRecords = most
		}})
		w.Start("a")
		w.AwaitOwners()
		due := time.Now().Add(time.Minute)
		w.Flood(herd, func(i int) (string, time.Time) { return fmt.Sprintf("h%06d", i), due })
		time.Sleep(time.Until(due.Add(-time.Second)))
		probes := make(chan struct{})
		w.OnStep(func(_ string, _ int32, step string) {
			if step != "emit" || time.Now().Before(due) {
				return
			}
			if n := turns.Add(1); n == 10 { // in the middle of the herd
				go func() {
					defer close(probes)
					w.Register("probe", time.Now().Add(time.Hour))
					for i := range 20 {
						w.Cancel(fmt.Sprintf("h%06d", herd-1-i))
					}
				}()
				<-probes
			}
		})
		time.Sleep(5 * time.Minute)
		<-probes
		judgeHerd(t, w, herd, most)
		time.Sleep(time.Hour)
		w.CheckInvariants()
	})
}

// judgeHerd looks at the turns by their manifests: none is too large, the
// probe was registered before the last of the herd went, and so were the
// cancels.
func judgeHerd(t *testing.T, w *sim.World, herd, most int) {
	t.Helper()
	fired := 0
	for _, r := range w.Dump(w.Names.State()) {
		if string(r.Key) != string(topics.KeyProgress) {
			continue
		}
		p, err := topics.DecodeProgress(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Manifest {
			if m.Topic == w.Names.Due("default") {
				fired += m.Records
				if m.Records > most {
					t.Errorf("turn %d fired %d, the most is %d", p.Seq, m.Records, most)
				}
			}
		}
	}
	after := 0
	registered := false
	cancels := 0
	for _, r := range w.Dump(w.Names.Events()) {
		e, err := topics.DecodeEvent(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Trigger == "probe" && e.Type == string(trigger.Registered):
			registered = true
		case e.Type == string(trigger.CancelledFact):
			cancels++
		case e.Type == string(trigger.OccurrenceFired) && registered:
			after++
		}
	}
	if after < herd/2 {
		t.Errorf("a register sent in the middle of a herd was decided when only %d of it were left", after)
	}
	if cancels != 20 || fired != herd-20 {
		t.Errorf("%d fired and %d cancelled of %d, want 20 cancelled", fired, cancels, herd)
	}
}

// TestManyTransactions burns through the 16 bits of a producer's epoch: more
// than 32,767 transactions on one transactional id.
func TestManyTransactions(t *testing.T) {
	const want = 40_000
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			o.MaxTurnRecords,
				o.MinInterval = 1, -1
		}})
		w.Start("a")
		w.AwaitOwners()
		due := time.Now().Add(time.Minute)
		w.Flood(want/2, func(i int) (string, time.Time) {
			return fmt.Sprintf("t%d", i), due.Add(time.Duration(i) * time.Millisecond)
		})
		time.Sleep(10 * time.Minute)
		if n := w.Heard("turns"); n < want {
			t.Errorf("only %d transactions", n)
		}
		w.CheckInvariants()
	})
}

// TestIdle: five hours, or in a soak eight days, without a command. The partition commits often enough
// that its transactional id does not expire, and then fires as ever.
func TestIdle(t *testing.T) {
	idle := 5 * time.Hour
	if soak() {
		idle = 8 * 24 * time.Hour
	}
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.MaxLate = time.Second
		w.Start("a")
		w.AwaitOwners()
		before := w.Heard("turns")
		time.Sleep(idle)
		if beats := time.Duration(w.Heard("turns") - before); beats < idle/time.Hour-1 || beats > idle/time.Hour+1 {
			t.Errorf("%d turns in %v idle, want one an hour", beats, idle)
		}
		w.Register("after", time.Now().Add(time.Second))
		time.Sleep(5 * time.Second)
		w.CheckInvariants()
	})
}

// TestPast: what is already due when it is registered fires at once, also
// behind everything that has fired before, and across a restart.
func TestPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		for i := range 50 {
			w.Register(fmt.Sprintf("n%d", i), begin.Add(time.Duration(i)*time.Second))
		}
		time.Sleep(time.Minute)
		for i, ago := range []time.Duration{0, time.Millisecond, time.Second, 30 * time.Second, 55 * time.Second} {
			at := time.Now()
			w.Register(fmt.Sprintf("p%d", i), at.Add(-ago))
			time.Sleep(2 * time.Second)
			w.RequireDelivered(fmt.Sprintf("p%d", i), 1)
			crashIf(w, i%2 == 0)
			w.AwaitOwners()
		}
		time.Sleep(time.Minute)
		w.CheckInvariants()
	})
}

// TestAroundNow registers at every millisecond around the one that fires.
func TestAroundNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2})
		w.MaxLate = time.Second
		w.Start("a")
		w.AwaitOwners()
		for i := range 400 {
			w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Duration(i%5-2)*time.Millisecond))
			time.Sleep(time.Duration(i%3) * time.Millisecond / 2)
		}
		time.Sleep(10 * time.Second)
		w.CheckInvariants()
	})
}

// TestDone: what has fired is remembered up to a bound, which is counted, and
// for the horizon, and then forgotten everywhere.
func TestDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			o.MaxDone, o.Machine.Horizon = 100, time.Hour
		}})
		w.Start("a")
		w.AwaitOwners()
		for i := range 300 {
			w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Second))
		}
		time.Sleep(time.Minute)
		w.Register("next", time.Now().Add(24*time.Hour)) // what is too many goes with the next turn
		time.Sleep(time.Minute)
		if n := w.Heard("evicted"); n < 200 {
			t.Errorf("%d of 200 done records too many were evicted, and counted", n)
		}
		if done := w.Owner(0).Engine.Partitions()[0].Done; done > 110 {
			t.Errorf("%d done records are remembered, the bound is 100", done)
		}
		repeat := func(want int) {
			t.Helper()
			w.SendTo(0, "again", `{"op":"register","fire_at":"2000-01-01T00:00:00Z"}`)
			time.Sleep(5 * time.Second)
			w.RequireDelivered("again", want)
		}
		repeat(1)
		repeat(1) // inside the horizon: a late retry of the same
		time.Sleep(2 * time.Hour)
		if done := w.Owner(0).Engine.Partitions()[0].Done; done != 0 {
			t.Errorf("%d done records are remembered beyond the horizon", done)
		}
		left := map[string]bool{} // in topic state, once it is compacted
		for _, r := range w.Dump(w.Names.State()) {
			left[string(r.Key)] = r.Value != nil
		}
		if left["k0"] || left["again"] || !left["next"] {
			t.Errorf("topic state has still: k0 %v, again %v, next %v", left["k0"], left["again"], left["next"])
		}
		repeat(2) // beyond it: a new life
	})
}

// TestGroups: a member that joins, leaves and crashes moves partitions, and
// nothing else.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 6})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		for i := range 240 {
			w.Register(fmt.Sprintf("k%d", i), begin.Add(time.Duration(i)*500*time.Millisecond))
		}
		for _, step := range strings.Fields("+b +c -a +a -b +b !c +c -a -b +a +b") {
			switch name := step[1:]; step[0] {
			case '+':
				w.Start(name)
			case '-':
				_ = w.Stop(name)
			case '!':
				w.Kill(name)
			}
			time.Sleep(9 * time.Second)
		}
		time.Sleep(time.Minute)
		w.AwaitOwners()
		w.CheckInvariants()
	})
}

// TestLateness: with an interval between turns and registers flowing in, what
// is due goes with the next turn, not the one after (docs/testing.md F7).
func TestLateness(t *testing.T) {
	for _, interval := range []time.Duration{-1, 5 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(fmt.Sprint("interval ", interval), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string,
					o *pipeline.Options,
				) {
					o.MinInterval = interval
				}})
				w.MaxLate = max(2*interval, 0) + 10*time.Millisecond
				w.Start("a")
				w.AwaitOwners()
				for i := range 1000 {
					w.Register(fmt.Sprintf("k%d", i), time.Now().
						Add(time.Duration(100+w.Rand.IntN(900))*time.Millisecond))
					time.Sleep(7 * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				w.CheckInvariants()
			})
		})
	}
}

// TestRestartRepeatsNothing: a new owner goes on behind the last command and the
// last receipt, and applies neither again.
func TestRestartRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		order(w, "s", `{"op":"register","recurrence":"every:1h"}`)
		order(w, "s", `{"op":"run_now"}`)
		time.Sleep(2 * time.Second)
		reported := len(w.Dump(w.Names.Events()))
		_ = w.Stop("a")
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(5 * time.Second)
		w.RequireDelivered("s", 1)
		if n := len(w.Dump(w.Names.Events())); n != reported {
			t.Errorf("%d events became %d by a restart", reported, n)
		}
	})
}

// TestAtTheEndOfTheWindow registers at every millisecond around the one up to
// which the due index is in the wheel.
func TestAtTheEndOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		end := time.Now().Add(5 * time.Minute) // within a second of it
		w.Flood(2000, func(i int) (string, time.Time) {
			return fmt.Sprintf("k%04d", i), end.Add(time.Duration(i-1000) * time.Millisecond)
		})
		time.Sleep(6 * time.Minute)
		if n := len(w.Dump(w.Names.Due("default"))); n != 2000 {
			t.Errorf("%d of 2,000 have fired", n)
		}
	})
}

// TestMaxPending: a partition at its limit refuses what is new, and nothing else.
func TestMaxPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) { o.MaxPending = 5 }})
		w.Start("a")
		w.AwaitOwners()
		refused := func(want int) {
			t.Helper()
			time.Sleep(time.Second)
			if n := len(w.Dump(w.Names.Rejected())); n != want {
				t.Errorf("%d registers are refused, want %d", n, want)
			}
		}
		for i := range 5 {
			order(w, fmt.Sprintf("k%d", i), `{"op":"register","delay":"1h"}`)
		}
		refused(0)
		order(w, "one more", `{"op":"register","delay":"1h"}`)
		refused(1)
		order(w, "k0", `{"op":"register","delay":"2h"}`)
		order(w, "k1", `{"op":"cancel"}`)
		refused(1)
		order(w, "another", `{"op":"register","delay":"1h"}`)
		refused(1)
	})
}

// TestBasis: a due event says in which turn it was decided, and what had been
// applied then.
func TestBasis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		for i := range 5 {
			order(w, fmt.Sprintf("k%d", i), `{"op":"register","delay":"0s"}`)
			time.Sleep(time.Second)
		}
		var turns []int64 // that wrote due events
		for _, r := range w.Dump(w.Names.State()) {
			if string(r.Key) != string(topics.KeyProgress) {
				continue
			}
			pr, err := topics.DecodeProgress(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(pr.Manifest,
				func(c topics.TopicCount) bool { return c.Topic == w.Names.Due("default") }) {
				turns = append(turns, pr.Seq)
			}
		}
		due := w.Dump(w.Names.Due("default"))
		if len(due) != 5 || len(turns) != 5 {
			t.Fatalf("%d due events of %d turns", len(due), len(turns))
		}
		for i, r := range due {
			var term, seq, commands int64
			if _, err := fmt.Sscanf(headerOf(r, "ce_wcbasis"), "%d.%d.%d.", &term, &seq, &commands); err != nil ||
				seq != turns[i] || commands != int64(i)+1 {
				t.Errorf("%s was decided by %q, want turn %d and command %d applied (%v)", r.Key,
					headerOf(r, "ce_wcbasis"), turns[i], i, err)
			}
		}
	})
}

// TestManyPartitionsShareTransactions: 64 partitions that always have work begin no more
// transactions than the budget allows, though each could turn at once. A timer of priority
// high does not wait for a slot.
func TestManyPartitionsShareTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 64})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		for i := range 3 { // far apart, so that each comes after a while without another
			key, at := fmt.Sprintf("otp%d", i), begin.Add(time.Duration(2*i+1)*time.Second+time.Millisecond)
			w.SendFree(w.Home(key), key, fmt.Sprintf(`{"op":"register","fire_at":%q,"priority":"high"}`,
				at.UTC().Format(time.RFC3339Nano)))
		}
		turns := turnsOf(w)
		for i := 0; time.Since(begin) < 6*time.Second; i++ {
			w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Second))
			time.Sleep(2 * time.Millisecond)
		}
		perSecond := float64(turnsOf(w)-turns) / time.Since(begin).Seconds()
		if perSecond > 305 || perSecond < 200 {
			t.Errorf("%.0f turns a second, want at most 300, and most of them", perSecond)
		}
		time.Sleep(10 * time.Second)
		w.CheckInvariants()
		late := map[string]int64{}
		for _, r := range w.Dump(w.Names.Events()) {
			e, err := topics.DecodeEvent(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == string(trigger.OccurrenceFired) && strings.HasPrefix(e.Trigger, "otp") {
				late[e.Trigger] = *e.LatenessMS
			}
		}
		if len(late) != 3 {
			t.Errorf("%d of 3 timers of priority high have fired", len(late))
		}
		for key, ms := range late {
			if ms > 10 {
				t.Errorf("%s, of priority high, was %d ms late", key, ms)
			}
		}
	})
}

// turnsOf counts the turns of all partitions.
func turnsOf(w *sim.World) (turns uint64) {
	last := map[int32]uint64{}
	for _, r := range w.Dump(w.Names.State()) {
		if string(r.Key) == string(topics.KeyProgress) {
			if p, err := topics.DecodeProgress(r.Value); err == nil {
				last[r.Partition] = max(last[r.Partition], uint64(p.Seq))
			}
		}
	}
	for _, n := range last {
		turns += n
	}
	return turns
}
