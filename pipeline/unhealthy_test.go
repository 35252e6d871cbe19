package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// sicknesses are due topics that refuse records, and what makes them well.
var sicknesses = []struct {
	name  string
	begin func(t *testing.T, w *sim.World) (cure func())
	found time.Duration // how long it takes until the topic is put aside
	ends  bool          // it is nobody's fault, and nothing is given up
}{
	{name: "missing", begin: func(t *testing.T, w *sim.World) func() {
		if err := w.Cluster.DeleteTopic(w.Names.Due("bad")); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := w.Cluster.CreateTopic(w.Names.Due("bad"), w.P,
				map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{name: "denied", begin: func(_ *testing.T, w *sim.World) func() {
		return w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Due("bad"),
			Err: kerr.TopicAuthorizationFailed, Count: -1,
		}).Remove
	}},
	{name: "too small for the record", begin: func(_ *testing.T, w *sim.World) func() {
		return w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Due("bad"),
			Err: kerr.MessageTooLarge, Count: -1,
		}).Remove
	}},
	{name: "with too few replicas", begin: func(_ *testing.T, w *sim.World) func() {
		return w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Due("bad"),
			Err: kerr.NotEnoughReplicas, Count: -1,
		}).Remove
	}, found: 8 * time.Second, ends: true},
	{name: "without a leader", begin: func(_ *testing.T, w *sim.World) func() {
		known := w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Metadata}, Topic: w.Names.Due("bad"),
			Partitions: []int32{0, 1}, Err: kerr.LeaderNotAvailable, Count: -1,
		})
		leads := w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Due("bad"),
			Err: kerr.NotLeaderForPartition, Count: -1,
		})
		return func() { known.Remove(); leads.Remove() }
	}, found: 8 * time.Second, ends: true},
}

// newSick is a world with a due topic bad beside the one that works.
func newSick(t *testing.T) *sim.World {
	w := sim.New(t, sim.Options{Seed: 4, Change: func(_ string, o *pipeline.Options) {
		o.ManageTopics = false
		o.FetchMaxWait = time.Second // a partition that just misses the first fetch waits for its end
	}})
	if err := w.Cluster.CreateTopic(w.Names.Due("bad"), w.P,
		map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
		t.Fatal(err)
	}
	w.Start("a")
	w.AwaitOwners()
	return w
}

func registerBad(w *sim.World, key string, in time.Duration) {
	w.Send(key, fmt.Sprintf(`{"op":"register","channel":"bad","fire_at":%q}`,
		time.Now().Add(in).UTC().Format(time.RFC3339Nano)))
}

// TestSickTopicRecovers: what is due there waits, everything else is on time,
// and once the topic takes records again everything goes out, once.
func TestSickTopicRecovers(t *testing.T) {
	for _, c := range sicknesses {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSick(t)
				for i := range 10 {
					registerBad(w, fmt.Sprintf("b%d", i), 5*time.Second)
				}
				time.Sleep(time.Second)
				cure := c.begin(t, w)
				begin := time.Now()
				for i := range 120 {
					w.Register(fmt.Sprintf("g%d", i), begin.Add(time.Duration(i)*time.Second/2+5*time.Second))
				}
				time.Sleep(3 * time.Minute)
				onTime(t, w, begin, 120, max(c.found, 3*time.Second))
				if s, err := w.Owner(topics.Partition([]byte("b0"), w.P)).Engine.Get(t.Context(), "b0"); err != nil ||
					s == nil || s.Status != trigger.Pending {
					t.Errorf("what waits is %+v, %v", s, err)
				}
				cure()
				time.Sleep(time.Hour)
				fired := map[string]int{}
				for _, r := range w.Dump(w.Names.Due("bad")) {
					fired[string(r.Key)]++
				}
				for i := range 10 {
					if n := fired[fmt.Sprintf("b%d", i)]; n != 1 {
						t.Errorf("b%d fired %d times", i, n)
					}
				}
			})
		})
	}
}

// onTime: of the channel that works, nothing is lost or doubled, and nothing
// waits longer than a sick topic takes to be found out.
func onTime(t *testing.T, w *sim.World, begin time.Time, n int, found time.Duration) {
	t.Helper()
	seen := map[string]int{}
	for _, r := range w.Dump(w.Names.Due("default")) {
		var i int
		fmt.Sscanf(string(r.Key), "g%d", &i)
		seen[string(r.Key)]++
		if late := r.Timestamp.Sub(begin.Add(time.Duration(i)*time.Second/2 + 5*time.Second)); late > found {
			t.Errorf("%s, of a channel that works, is %v late", r.Key, late)
		}
	}
	for i := range n {
		if seen[fmt.Sprintf("g%d", i)] != 1 {
			t.Errorf("g%d fired %d times", i, seen[fmt.Sprintf("g%d", i)])
		}
	}
}

// TestSickTopicForEver: at last a trigger whose topic never takes it is failed,
// and a dead letter says why.
func TestSickTopicForEver(t *testing.T) {
	for _, c := range sicknesses {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSick(t)
				registerBad(w, "b", 5*time.Second)
				time.Sleep(time.Second)
				c.begin(t, w)
				w.Register("good", time.Now().Add(time.Hour+55*time.Minute))
				time.Sleep(2 * time.Hour) // emissions are given up after 20 minutes
				w.RequireDelivered("good", 1)
				if c.ends {
					if s, err := w.Owner(topics.Partition([]byte("b"), w.P)).Engine.Get(t.Context(), "b"); err != nil ||
						s == nil || s.Status != trigger.Pending {
						t.Errorf("what waits is %+v, %v", s, err)
					}
					return
				}
				failed := 0
				for _, r := range w.Dump(w.Names.Events()) {
					if e, err := topics.DecodeEvent(r.Value); err == nil && e.Trigger == "b" &&
						e.Type == string(trigger.FailedFact) {
						failed++
					}
				}
				dead := w.Dump(w.Names.DeadLetter())
				if failed != 1 || len(dead) != 1 {
					t.Fatalf("%d trigger.failed and %d dead letters, want one of each", failed, len(dead))
				}
				if id := pipelinetest.Header(dead[0], "ce_id"); string(dead[0].Key) != "b" ||
					!strings.Contains(id, "b") {
					t.Errorf("dead letter of %s, ce_id %q", dead[0].Key, id)
				}
			})
		})
	}
}
