package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

// byKey has a channel "shared" whose topic all partitions of the engine write.
type byKey struct{ pipelinetest.Channels }

func (c byKey) Settings(name string) pipeline.ChannelSettings {
	s := c.Channels.Settings(name)
	s.ByKey = name == "shared"
	return s
}

// TestHungOwnerOfASharedPartition freezes an owner whose transaction is open on
// a partition of a due topic that others write as well (`partitioning: by_key`,
// docs/testing.md F19). What another owner commits there meanwhile is on time and
// hidden from readers of committed records until the broker ends that
// transaction: no longer than its time-out. On a channel without by_key nobody
// waits for anybody. All is delivered once in the end.
func TestHungOwnerOfASharedPartition(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		// of a transaction; the session, after which somebody else fences the owner, is longer
		const timeout = 5 * time.Second
		w := sim.New(t, sim.Options{Seed: seed, Partitions: 2, Change: func(_ string, o *pipeline.Options) {
			o.Channels, o.TransactionTimeout = byKey{pipelinetest.Channels{Names: o.Names}}, timeout
		}})
		var hang atomic.Bool
		w.OnStep(func(node string, partition int32, step string) {
			if partition == 0 && step == "end" && hang.CompareAndSwap(true, false) {
				w.Node(node).Freeze()
			}
		})
		if err := w.Cluster.CreateTopic(w.Names.Due("shared"), 1, nil); err != nil {
			t.Fatal(err)
		}
		w.Start("a")
		w.Start("b")
		shared(t, w, 2, time.Minute)
		hung := w.Owner(0)
		due := map[string]time.Time{}
		register := func(partition int32, channel string, at time.Time) {
			at = at.Truncate(time.Millisecond)
			key := fmt.Sprint(channel, len(due))
			for topics.Partition([]byte(key), w.P) != partition {
				key += "x"
			}
			due[key] = at
			w.SendTo(partition, key, fmt.Sprintf(`{"op":"register","channel":%q,"fire_at":%q}`, channel,
				at.UTC().Format(time.RFC3339Nano)))
		}
		begin := time.Now()
		for i := range 300 {
			for _, channel := range []string{"shared", "own"} {
				register(int32(i%2), channel, begin.Add(10*time.Second+time.Duration(i)*100*time.Millisecond))
			}
		}
		seen := follow(t, w, w.Names.Due("shared"), w.Names.Due("own"))
		time.Sleep(time.Until(begin.Add(20 * time.Second)))
		hang.Store(true)
		time.Sleep(15 * time.Second)
		if hang.Load() {
			t.Fatal("no owner hung")
		}
		hung.Thaw()
		time.Sleep(time.Minute)

		held := time.Duration(0)
		for key, at := range due {
			r := seen.of(key)
			if len(r) != 1 {
				t.Errorf("%s, due %v, was delivered %d times", key, at, len(r))
				continue
			}
			if topics.Partition([]byte(key), w.P) == 0 {
				continue // of the hung owner: late until another takes over
			}
			if late := r[0].Timestamp.Sub(at); late < 0 || late > time.Second {
				t.Errorf("%s was fired %v late by an owner that nothing is wrong with", key, late)
			}
			hidden := r[0].seen.Sub(r[0].Timestamp)
			if r[0].Topic == w.Names.Due("shared") {
				held = max(held, hidden)
			} else if hidden > time.Second {
				t.Errorf("%s was hidden for %v, by nobody who may write its partition", key, hidden)
			}
		}
		t.Logf("held back on the shared partition for at most %v", held)
		if held < time.Second || held > timeout+time.Second {
			t.Errorf("the shared partition was held back for %v; the transaction's time-out is %v", held, timeout)
		}
	})
}

// sighting is a due record, and when a reader of committed records was given it.
type sighting struct {
	*kgo.Record
	seen time.Time
}

type sightings struct {
	mu    sync.Mutex
	byKey map[string][]sighting
}

func (s *sightings) of(key string) []sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

// follow reads the committed records of topics as they become visible.
func follow(t *testing.T, w *sim.World, names ...string) *sightings {
	s := &sightings{byKey: map[string][]sighting{}}
	cl := w.Client(kgo.ConsumeTopics(names...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			fs := cl.PollFetches(ctx)
			s.mu.Lock()
			fs.EachRecord(func(r *kgo.Record) {
				s.byKey[string(r.Key)] = append(s.byKey[string(r.Key)], sighting{r, time.Now()})
			})
			s.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); reading.Wait(); cl.Close() })
	return s
}
