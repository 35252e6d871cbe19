package pipeline_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

// keysOn are n keys that belong to a partition of two.
func keysOn(partition int32, prefix string, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint(prefix, i); topics.Partition([]byte(key), 2) == partition {
			keys = append(keys, key)
		}
	}
	return keys
}

// withoutLeader lets nobody write to a partition of commands or receipts until it is removed.
func withoutLeader(w *sim.World, topic string, partition int32) *kfake.FaultHandle {
	return w.Cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{partition},
		Err: kerr.NotLeaderForPartition, Count: -1,
	})
}

// unreadableBelow answers no fetch of a partition of commands from below an
// offset until it is removed: as if the old segments lay on a disk that is slow.
func unreadableBelow(w *sim.World, partition int32, offset int64) *kfake.FaultHandle {
	name, id := w.Names.Commands(), w.Cluster.TopicInfo(w.Names.Commands()).TopicID
	return w.Cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: name, Partitions: []int32{partition},
		Err: kerr.NotLeaderForPartition, Count: -1, When: func(req kmsg.Request) bool {
			for _, t := range req.(*kmsg.FetchRequest).Topics {
				for _, p := range t.Partitions {
					if (t.Topic == name || t.TopicID == id) && p.Partition == partition && p.FetchOffset < offset {
						return true
					}
				}
			}
			return false
		},
	})
}

// endOf is the high watermark of a partition of commands.
func endOf(w *sim.World, partition int32) int64 {
	return w.Cluster.PartitionInfo(w.Names.Commands(), partition).HighWatermark
}

// copies are how often a partition of a topic holds what was forwarded from each
// place.
func copies(w *sim.World, topic string, partition int32) map[string]int {
	out := map[string]int{}
	for _, r := range w.Dump(topic) {
		if origin := pipelinetest.Header(r, "wcx-origin"); r.Partition == partition && origin != "" {
			out[origin]++
		}
	}
	return out
}

// TestForwardOpening: a partition opens, decides and fires although what it still
// owes to another cannot be read again for ten minutes.
func TestForwardOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 21})
		w.MaxLate = 3 * time.Second
		w.Start("a")
		w.AwaitOwners()
		target := withoutLeader(w, w.Names.Commands(), 1)
		for _, key := range keysOn(1, "astray", 50) {
			w.RegisterOn(0, key, time.Now().Add(30*time.Minute))
		}
		time.Sleep(2 * time.Second)
		w.Kill("a")
		target.Remove()
		source := unreadableBelow(w, 0, endOf(w, 0))
		begin := time.Now()
		w.Start("a")
		w.AwaitOwners()
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("it took %v to open", took)
		}
		w.Register(keysOn(0, "own", 1)[0], time.Now().Add(5*time.Second))
		time.Sleep(10 * time.Minute)
		if source.Hits() == 0 {
			t.Error("nothing was read again")
		}
		w.RequireDelivered(keysOn(0, "own", 1)[0], 1)
		source.Remove()
		time.Sleep(30 * time.Minute)
		w.CheckInvariants()
	})
}

// TestForwardWithoutTarget: however much is owed to a partition that takes
// nothing, commands that stand where they belong are decided.
func TestForwardWithoutTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &logtest.Buffer{}
		w := sim.New(t, sim.Options{Seed: 22, Change: func(_ string, o *pipeline.Options) {
			o.Logger = slog.New(slog.NewTextHandler(said, nil))
		}})
		w.MaxLate = 30 * time.Second
		w.Start("a")
		w.AwaitOwners()
		target := withoutLeader(w, w.Names.Commands(), 1)
		due, keys := time.Now().Add(time.Hour), keysOn(1, "astray", 25_000)
		w.FloodOn(0, len(keys), func(i int) (string, time.Time) { return keys[i], due })
		time.Sleep(10 * time.Second)
		own := keysOn(0, "own", 1)[0]
		w.Register(own, time.Now().Add(5*time.Second))
		time.Sleep(time.Minute)
		w.RequireDelivered(own, 1)
		if !strings.Contains(said.String(), "their correct partition accepts none") {
			t.Error("the log does not say that records wait")
		}
		target.Remove()
		time.Sleep(90 * time.Minute)
		w.CheckInvariants()
	})
}

// TestForwardResumes: an owner that is killed while it forwards is followed by
// one that goes on near where it was, also when nothing but forwarding went on.
func TestForwardResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 23})
		w.Start("a")
		w.AwaitOwners()
		name, id := w.Names.Commands(), w.Cluster.TopicInfo(w.Names.Commands()).TopicID
		slow := true
		w.Cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			for _, rt := range req.(*kmsg.ProduceRequest).Topics {
				if slow && (rt.Topic == name || rt.TopicID == id) && rt.Partitions[0].Partition == 1 {
					w.Cluster.SleepControl(func() { time.Sleep(500 * time.Millisecond) })
					w.Stamp(req.(*kmsg.ProduceRequest))
				}
			}
			return nil, nil, false
		})
		due, keys := time.Now().Add(time.Hour), keysOn(1, "astray", 6000)
		w.FloodOn(0, len(keys), func(i int) (string, time.Time) { return keys[i], due })
		time.Sleep(25 * time.Second)
		before := len(copies(w, name, 1))
		w.Kill("a")
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(40 * time.Second)
		slow = false
		time.Sleep(90 * time.Minute)
		twice := 0
		for _, n := range copies(w, name, 1) {
			twice += n - 1
		}
		t.Logf("forwarded before the kill: %d; sent again: %d", before, twice)
		if before < 3000 || twice > 1300 {
			t.Errorf("%d of %d were sent again; in 5 s and the batch under way are at most 1,100", twice, before)
		}
		w.CheckInvariants()
	})
}

// lostRecords are the records of topic rejected that name a range of offsets
// which could not be forwarded.
func lostRecords(w *sim.World) (out []string) {
	for _, r := range w.Dump(w.Names.Rejected()) {
		if pipelinetest.Header(r, "wc-error-code") == "misrouted" {
			out = append(out, pipelinetest.Header(r, "wc-source")+": "+pipelinetest.Header(r, "wc-error-detail"))
		}
	}
	return out
}

// TestForwardLost: what retention takes before it could be forwarded is named,
// once, and the rest goes on.
func TestForwardLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		opened bool // DeleteRecords while it is not open
		memory int
		sent   int // from the beginning, although the log begins at 10
		want   string
	}{
		{
			"while nobody runs it", true, 0, 0,
			"waterclock.commands/0/0: the log of waterclock.commands/0 no longer holds offsets 0 to 9",
		},
		{
			"while it runs", false, 1, 1,
			"waterclock.commands/0/1: the log of waterclock.commands/0 no longer holds offsets 1 to 9",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: 24, Change: func(_ string,
					o *pipeline.Options,
				) {
					o.ForwardMemory = c.memory
				}})
				w.Start("a")
				w.AwaitOwners()
				target := withoutLeader(w, w.Names.Commands(), 1)
				keys, due := keysOn(1, "astray", 20), time.Now().Add(time.Hour)
				for i, key := range keys {
					if i < c.sent || i >= 10 {
						w.RegisterOn(0, key, due)
						continue
					}
					w.SendTo(0, key, `{"op":"register","delay":"1h"}`)
				}
				time.Sleep(10 * time.Second)
				if c.opened {
					w.Kill("a")
				}
				if err := w.Cluster.DeleteRecords(w.Names.Commands(), 0, 10); err != nil {
					t.Fatal(err)
				}
				if c.opened {
					w.Start("a")
					w.AwaitOwners()
				}
				time.Sleep(10 * time.Second)
				target.Remove()
				time.Sleep(20 * time.Second)
				for range 2 {
					w.Kill("a")
					w.Start("a")
					w.AwaitOwners()
					time.Sleep(20 * time.Second)
				}
				if got := lostRecords(w); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
					t.Errorf("rejected holds %q, want one %q…", got, c.want)
				}
				time.Sleep(2 * time.Hour)
				w.CheckInvariants()
			})
		})
	}
}

// TestForwardSourceSilent: a source partition whose leader does not say how far
// it reaches holds up nobody to whom it has forwarded.
func TestForwardSourceSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 25, Brokers: 2, Change: func(_ string, o *pipeline.Options) {
			o.Group = "engine" // the first broker coordinates it: a connection to the second hangs for good
		}})
		w.MaxLate = 5 * time.Second
		a := w.Start("a")
		w.AwaitOwners()
		for _, key := range keysOn(1, "first", 3) { // everybody knows the leaders of everything
			w.Register(key, time.Now())
		}
		if err := w.Cluster.MoveTopicPartition(w.Names.Commands(), 0, 1); err != nil {
			t.Fatal(err)
		}
		var asked, answers atomic.Int64
		w.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			// A barrier asks about receipts in the same request, a reader about what is committed.
			r := req.(*kmsg.ListOffsetsRequest)
			if answers.Load() == 0 && w.Cluster.CurrentNode() == 1 && len(r.Topics) == 1 && r.IsolationLevel == 0 &&
				len(r.Topics[0].Partitions) == 1 {
				asked.Add(1)
				return nil, nil, true // no answer ever
			}
			return nil, nil, false
		})
		for i, key := range keysOn(1, "astray", 20) {
			w.RegisterOn(0, key, time.Now().Add(time.Duration(10+i)*time.Second))
		}
		for _, key := range keysOn(1, "own", 20) {
			w.Register(key, time.Now().Add(5*time.Second))
			time.Sleep(3 * time.Second)
		}
		time.Sleep(5 * time.Minute)
		answers.Store(1) // else the invariants' own questions may wait on a connection that is held up
		time.Sleep(time.Minute)
		if asked.Load() == 0 {
			t.Error("nobody asked how far the source reaches")
		}
		if w.Node("a") != a || len(a.Engine.Partitions()) != 2 {
			t.Error("the engine has given up")
		}
		w.CheckInvariants()
	})
}

// scheduled is roughly how many times goroutines were put on a processor.
func scheduled() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	for _, c := range s[0].Value.Float64Histogram().Counts {
		n += c
	}
	return n
}

// TestForwardIdle: a partition that has forwarded once is as idle as before.
func TestForwardIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 26})
		w.Start("a")
		w.AwaitOwners()
		for p := range int32(2) { // the clients know everything there is to know
			w.Register(keysOn(p, "first", 1)[0], time.Now())
		}
		idle := func() (goroutines int, wakeups uint64) {
			time.Sleep(5 * time.Minute) // and connections that nobody uses are closed
			from := scheduled()
			time.Sleep(10 * time.Minute)
			return runtime.NumGoroutine(), scheduled() - from
		}
		goroutines, wakeups := idle()
		for p := range int32(2) {
			for _, key := range keysOn(p, "astray", 10) {
				w.RegisterOn(1-p, key, time.Now().Add(time.Minute))
				w.Produce(&kgo.Record{
					Topic: w.Names.Receipts(), Partition: 1 - p, Key: []byte(key),
					Value: []byte(`{}`),
				})
			}
		}
		after, wakeupsAfter := idle()
		t.Logf("goroutines %d, then %d; wake-ups in ten idle minutes %d, then %d", goroutines, after, wakeups,
			wakeupsAfter)
		if wakeupsAfter > 2*wakeups+500 {
			t.Errorf("%d wake-ups in ten idle minutes; before anything was forwarded %d", wakeupsAfter, wakeups)
		}
		w.CheckInvariants()
	})
}

// TestForwardedTwice: a run_now that stands twice on its right partition fires
// once, whether a successor or a zombie has sent it again.
func TestForwardedTwice(t *testing.T) {
	run := func(t *testing.T, repeat func(w *sim.World, target *kfake.FaultHandle)) {
		synctest.Test(t, func(t *testing.T) {
			w := sim.New(t, sim.Options{Seed: 27})
			w.Start("a")
			w.AwaitOwners()
			key := keysOn(1, "k", 1)[0]
			w.Register(key, time.Now().Add(24*time.Hour))
			time.Sleep(time.Second)
			target := withoutLeader(w, w.Names.Commands(), 1)
			w.SendTo(0, key, `{"op":"run_now"}`)
			time.Sleep(2 * time.Second)
			repeat(w, target)
			time.Sleep(time.Minute)
			w.RequireDelivered(key, 1)
			if all := copies(w, w.Names.Commands(), 1); len(all) != 1 || all["0/0"] != 2 {
				t.Errorf("forwarded copies by origin: %v, want two of one", all)
			}
		})
	}
	t.Run("by a successor", func(t *testing.T) {
		run(t, func(w *sim.World, target *kfake.FaultHandle) {
			target.Remove()
			for len(copies(w, w.Names.Commands(), 1)) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			w.Kill("a")
			w.Start("a")
		})
	})
	t.Run("by a zombie", func(t *testing.T) {
		run(t, func(w *sim.World, target *kfake.FaultHandle) {
			w.Start("b")
			w.Node("a").Mute()
			time.Sleep(20 * time.Second) // b owns all; a does not know
			target.Remove()
		})
	})
}
