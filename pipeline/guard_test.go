package pipeline_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
)

// TestTwoGroups: a node of another group on the same prefix refuses, naming both,
// and disturbs nothing. With --take-over it fences the other for good.
func TestTwoGroups(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("the first runs %v", running), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takeOver := ""
				w := sim.New(t, sim.Options{Seed: 3, Change: func(name string, o *pipeline.Options) {
					if name != "a" {
						o.Group, o.TakeOverGroup = "other", takeOver
					}
				}})
				w.Start("a")
				w.AwaitOwners()
				for i := range 60 {
					w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Duration(10+i)*time.Second))
				}
				time.Sleep(5 * time.Second)
				if !running {
					_ = w.Stop("a")
				}
				aborted, openings := w.Heard("aborted"), w.Heard("openings")
				b := w.Start("b")
				if err := b.Wait(); !errors.Is(err, pipeline.ErrForeignGroup) ||
					!strings.Contains(err.Error(), `"waterclock.engine"`) || !strings.Contains(err.Error(), `"other"`) {
					t.Fatalf("the second group's node said %v", err)
				}
				w.Kill("b")
				if n := w.Heard("aborted"); n > aborted || w.Heard("openings") > openings {
					t.Errorf("the owner was disturbed: %d turns aborted, %d openings", n-aborted,
						w.Heard("openings")-openings)
				}
				time.Sleep(10 * time.Second)
				takeOver = "waterclock.engine"
				a := w.Node("a")
				w.Start("c")
				w.AwaitOwners()
				if running {
					if err := a.Wait(); !errors.Is(err, pipeline.ErrForeignGroup) {
						t.Errorf("the node that was fenced ended with %v", err)
					}
				}
				time.Sleep(2 * time.Minute)
				w.CheckInvariants()
			})
		})
	}
}

// TestSecondWriter: what only a second writer can have written to state stops
// the partition, and no other.
func TestSecondWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{})
		n := w.Start("a")
		w.AwaitOwners()
		w.RegisterOn(0, keyOn(0), time.Now().Add(time.Minute))
		w.RegisterOn(1, keyOn(1), time.Now().Add(time.Minute))
		time.Sleep(5 * time.Second)
		w.Produce(&kgo.Record{Topic: w.Names.State(), Partition: 0, Key: []byte("x"), Value: []byte{8, 1}})
		time.Sleep(2 * time.Minute)
		for _, s := range n.Engine.Partitions() {
			if want := map[int32]string{0: "second_writer"}[s.Partition]; s.Refused != want {
				t.Errorf("partition %d: refused %q, want %q", s.Partition, s.Refused, want)
			}
		}
		w.RequireDelivered(keyOn(1), 1)
		w.RequireDelivered(keyOn(0), 0) // the turn that notices it is not committed: the other may have fired the same
	})
}

// rewrite puts a guard on state that remembers other records than there are, as
// after a truncation that producers have filled again.
func rewrite(t *testing.T, w *sim.World, change func(g *topics.Guard)) {
	t.Helper()
	var last *topics.Guard
	for _, r := range w.Dump(w.Names.State()) {
		if string(r.Key) == string(topics.KeyGuard) && r.Partition == 0 {
			g, err := topics.DecodeGuard(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			last = g
		}
	}
	if last == nil {
		t.Fatal("there is no guard")
	}
	change(last)
	value, err := topics.AppendGuard(nil, last)
	if err != nil {
		t.Fatal(err)
	}
	w.Produce(&kgo.Record{Topic: w.Names.State(), Partition: 0, Key: topics.KeyGuard, Value: value})
}

// TestTruncatedInputs: a log that lost its end, and was filled again past what
// had been read, is not resumed as if nothing had been.
func TestTruncatedInputs(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(g *topics.Guard)
		epochs     bool // the leader says that the epoch ended earlier
	}{
		{"nothing", "", func(*topics.Guard) {}, false},
		{
			"another record of commands", "waterclock.commands/0 was read up to",
			func(g *topics.Guard) { g.Commands.Sum++ }, false,
		},
		{
			"another record of receipts", "waterclock.receipts/0 was read up to",
			func(g *topics.Guard) { g.Receipts.Sum++ }, false,
		},
		{"an epoch that ended before", "the log lost its end at 1 ", func(*topics.Guard) {}, true},
		{"receipts made again", "receipts in the old one are lost", func(g *topics.Guard) { g.ReceiptsID[0]++ }, false},
		{"control made again", "", func(g *topics.Guard) { g.ControlID[0]++ }, false},
		{"another group", "another group", func(g *topics.Guard) { g.Group = "other" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, accept := gapWorld(t)
				for i := range 5 {
					w.Register(fmt.Sprint("k", i), time.Now().Add(time.Hour))
					w.Produce(&kgo.Record{
						Topic: w.Names.Receipts(), Key: []byte("k0"),
						Value: []byte(`{"due_id":"k0@x#0","outcome":"accepted"}`),
					})
				}
				time.Sleep(5 * time.Second)
				_ = w.Stop("a")
				rewrite(t, w, c.change)
				if c.epochs {
					w.Cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch),
						func(req kmsg.Request) (kmsg.Response, error, bool) {
							w.Cluster.KeepControl()
							return epochEnds(req.(*kmsg.OffsetForLeaderEpochRequest), w.Names.Commands(), 1), nil, true
						})
				}
				n := w.Start("a")
				if c.name == "another group" {
					if err := n.Wait(); !errors.Is(err, pipeline.ErrForeignGroup) {
						t.Errorf("the engine ended with %v", err)
					}
					return
				}
				time.Sleep(20 * time.Second)
				why := fmt.Sprint(n.Engine.Unready())
				if c.want == "" {
					if n.Engine.Unready() != nil {
						t.Errorf("not ready: %s", why)
					}
					return
				}
				if !strings.Contains(why, c.want) {
					t.Fatalf("not ready: %s, want %q in it", why, c.want)
				}
				*accept = gapsOf(t, n)
				w.Kill("a")
				w.Start("a")
				w.AwaitOwners()
				w.Register("after", time.Now().Add(time.Minute))
				time.Sleep(2 * time.Hour)
				w.RequireDelivered("after", 1)
				_ = w.Stop("a")
				w.Start("a") // the gap was accepted once, and is none any more
				w.AwaitOwners()
			})
		})
	}
}

// epochEnds says that every epoch of a topic ended at an offset.
func epochEnds(req *kmsg.OffsetForLeaderEpochRequest, topic string, at int64) *kmsg.OffsetForLeaderEpochResponse {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, 1<<40
			if t.Topic == topic {
				rp.EndOffset = at
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// TestTruncatedState: topic state does not hold the last turn of our store. It
// lost turns that were committed, and what they fired may fire again: the
// operator decides, and then the store is what the topic holds.
func TestTruncatedState(t *testing.T) {
	for _, c := range []struct {
		at      int64
		refused bool // no leader shows for a while what is there, as during an election
	}{
		{at: 0}, {at: 0, refused: true}, // another record stands there
		{at: 1 << 20}, // the topic ends before it
	} {
		at := c.at
		t.Run(fmt.Sprint("turn at ", at, ", refused ", c.refused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, accept := gapWorld(t)
				w.Register("x", time.Now().Add(time.Hour))
				time.Sleep(5 * time.Second)
				_ = w.Stop("a")
				st, err := statestore.Open(statestore.Options{
					Dir: "store/0", FS: w.Disk("a"),
					Cache: statestore.NewCache(1 << 20),
				})
				if err != nil {
					t.Fatal(err)
				}
				raw, err := st.Meta("progress")
				if err != nil {
					t.Fatal(err)
				}
				last, err := topics.DecodeProgress(raw)
				if err != nil {
					t.Fatal(err)
				}
				b := st.NewBatch()
				b.SetMeta("progress_at", binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(at)),
					uint64(last.Seq)))
				if err := errors.Join(b.Commit(), st.Close()); err != nil {
					t.Fatal(err)
				}
				if c.refused {
					hidden := w.Cluster.Fault(kfake.Fault{
						Keys: []kmsg.Key{kmsg.Fetch}, Topic: w.Names.State(), Err: kerr.NotLeaderForPartition,
						Count: -1,
						When: func(req kmsg.Request) bool {
							r := req.(*kmsg.FetchRequest)
							return r.IsolationLevel == 0 && r.Topics[0].Partitions[0].FetchOffset == at
						},
					})
					time.AfterFunc(5*time.Second, func() { hidden.Remove() })
				}
				n := w.Start("a")
				time.Sleep(20 * time.Second)
				if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "waterclock.state/0") ||
					!strings.Contains(why, "lost its end") {
					t.Fatalf("not ready: %s", why)
				}
				*accept = gapsOf(t, n)
				w.Kill("a")
				w.Start("a")
				w.AwaitOwners()
				time.Sleep(2 * time.Hour)
				w.RequireDelivered("x", 1)
			})
		})
	}
}

// TestStoreThatAnOlderVersionHasUsed: an older version goes on with the store of
// this one, and does not write where its turns stand. What this version wrote
// of that is of an earlier turn then, and no sign that the log lost its end.
func TestStoreThatAnOlderVersionHasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		location := func(write []byte) (was []byte) {
			st, err := statestore.Open(statestore.Options{
				Dir: "store/0", FS: w.Disk("a"),
				Cache: statestore.NewCache(1 << 20),
			})
			if err != nil {
				t.Fatal(err)
			}
			if was, err = st.Meta("progress_at"); err != nil {
				t.Fatal(err)
			}
			was = bytes.Clone(was)
			b := st.NewBatch()
			if write != nil {
				b.SetMeta("progress_at", write)
			}
			if err := errors.Join(b.Commit(), st.Close()); err != nil {
				t.Fatal(err)
			}
			return was
		}
		turns := func(name string) {
			w.Start("a")
			w.AwaitOwners()
			w.Register(name, time.Now().Add(time.Hour))
			time.Sleep(5 * time.Second)
			_ = w.Stop("a")
		}
		turns("before")
		was := location(nil)
		turns("meanwhile")
		location(was)
		n := w.Start("a")
		time.Sleep(20 * time.Second)
		if why := n.Engine.Unready(); why != nil {
			t.Fatalf("not ready: %v", why)
		}
		time.Sleep(2 * time.Hour)
		w.RequireDelivered("before", 1)
		w.RequireDelivered("meanwhile", 1)
	})
}
