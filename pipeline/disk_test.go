package pipeline_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// copyTree copies a directory between file systems.
func copyTree(t *testing.T, from vfs.FS, src string, to vfs.FS, dst string) {
	t.Helper()
	if err := to.MkdirAll(dst, 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := from.List(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a, b := from.PathJoin(src, name), to.PathJoin(dst, name)
		if info, err := from.Stat(a); err != nil {
			t.Fatal(err)
		} else if info.IsDir() {
			copyTree(t, from, a, to, b)
			continue
		}
		in, err := from.Open(a)
		if err != nil {
			t.Fatal(err)
		}
		out, err := to.Create(b, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, in); err != nil {
			t.Fatal(err)
		}
		in.Close()
		out.Close()
	}
}

// halfway is a world in which half of what a registered has fired, and a is
// stopped. The other half is due in two hours.
func halfway(t *testing.T) *sim.World {
	w := sim.New(t, sim.Options{Seed: 3, Tombstones: time.Hour, Change: func(_ string, o *pipeline.Options) {
		o.Machine.Horizon, o.MaxAway = 10*time.Minute, 30*time.Minute
	}})
	w.Start("a")
	w.AwaitOwners()
	for i := range 40 {
		w.Register(fmt.Sprintf("n%d", i), time.Now().Add(time.Second))
		w.Register(fmt.Sprintf("l%d", i), time.Now().Add(2*time.Hour))
	}
	time.Sleep(5 * time.Second)
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestDisks starts an engine on disks that are not what they should be.
func TestDisks(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, w *sim.World)
	}{
		{"deleted", func(_ *testing.T, w *sim.World) { w.SetDisk("a", nil) }},
		{"of the other partition", func(t *testing.T, w *sim.World) {
			fs := vfs.NewCrashableMem()
			copyTree(t, w.Disk("a"), "store/0", fs, "store/1")
			copyTree(t, w.Disk("a"), "store/1", fs, "store/0")
			w.SetDisk("a", fs)
		}},
		{"both of one partition", func(t *testing.T, w *sim.World) {
			if err := w.Disk("a").RemoveAll("store/1"); err != nil {
				t.Fatal(err)
			}
			copyTree(t, w.Disk("a"), "store/0", w.Disk("a"), "store/1")
		}},
		{"a copy from before somebody else's work", func(t *testing.T, w *sim.World) {
			w.Start("b")
			w.AwaitOwners()
			for i := range 20 {
				w.Cancel(fmt.Sprintf("l%d", i))
				w.Register(fmt.Sprintf("m%d", i), time.Now().Add(time.Second))
			}
			time.Sleep(5 * time.Second)
			_ = w.Stop("b")
		}},
		{"older than tombstones are kept", func(t *testing.T, w *sim.World) { awayFor(t, w, 5*time.Hour) }},
		{"a flipped bit in every file", func(t *testing.T, w *sim.World) { flip(t, w.Disk("a"), "store") }},
		{"no manifest", func(t *testing.T, w *sim.World) {
			for _, dir := range []string{"store/0", "store/1"} {
				removeLike(t, w.Disk("a"), dir, "MANIFEST")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := halfway(t)
				c.damage(t, w)
				w.Start("a")
				w.AwaitOwners()
				time.Sleep(2*time.Hour + time.Minute)
				w.CheckInvariants()
			})
		})
	}
}

// awayFor lets b run the partitions until what a knows is compacted away with
// its tombstones. CheckInvariants then sees a compacted topic, so the turns
// before are judged here.
func awayFor(t *testing.T, w *sim.World, d time.Duration) {
	t.Helper()
	w.Start("b")
	w.AwaitOwners()
	time.Sleep(d)
	w.Register("fresh", time.Now().Add(time.Second))
	time.Sleep(3 * time.Second)
	_ = w.Stop("b")
	w.CheckInvariants()
	w.CompactState()
}

func flip(t *testing.T, fs *vfs.MemFS, dir string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			flip(t, fs, path)
			continue
		}
		flipFile(t, fs, path)
	}
}

func flipFile(t *testing.T, fs *vfs.MemFS, path string) {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if len(b) == 0 {
		return
	}
	b[len(b)/2] ^= 0x40
	out, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(b); err != nil {
		t.Fatal(err)
	}
	out.Close()
}

func removeLike(t *testing.T, fs *vfs.MemFS, dir, part string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.Contains(name, part) {
			if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTopics changes the topics under a stopped engine. It must refuse and say
// why; with AcceptGap it goes on where that can be.
func TestTopics(t *testing.T) {
	prefix := ""
	for _, c := range []struct {
		name, want string
		err        error
		accept     bool // AcceptGap helps
		change     func(t *testing.T, w *sim.World)
	}{
		{
			"commands made again", "deleted and made again", pipeline.ErrGap, true,
			func(t *testing.T, w *sim.World) { remake(t, w, w.Names.Commands()) },
		},
		{
			"state made again", "deleted and made again", pipeline.ErrGap, false,
			func(t *testing.T, w *sim.World) { remake(t, w, w.Names.State()) },
		},
		{"commands deleted unread", "begins at", pipeline.ErrGap, true, func(t *testing.T, w *sim.World) {
			for i := range 20 {
				w.SendTo(int32(i%2), "lost", "lost")
			}
			for p := range w.P {
				if err := w.Cluster.DeleteRecords(w.Names.Commands(), p, -1); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{
			"another prefix", `topics.prefix is set to "other.". Set topics.prefix: waterclock.`,
			pipeline.ErrForeignPrefix, false, func(t *testing.T, w *sim.World) {
				prefix = "other."
				names := topics.Names{Prefix: prefix}
				for _, topic := range topics.Catalogue(names, w.P, 1, nil) {
					if err := w.Cluster.CreateTopic(topic.Name, cmp.Or(topic.Partitions, w.P),
						map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
						t.Fatal(err)
					}
				}
			},
		},
		{
			"partitions added to commands", "has 3 partitions", recovery.ErrPartitions, false,
			func(t *testing.T, w *sim.World) { grow(t, w, w.Names.Commands()) },
		},
		{
			"partitions added to state", "has 3 partitions", recovery.ErrPartitions, false,
			func(t *testing.T, w *sim.World) { grow(t, w, w.Names.State()) },
		},
		{
			"partitions added to receipts", "has 3 partitions", recovery.ErrPartitions, false,
			func(t *testing.T, w *sim.World) { grow(t, w, w.Names.Receipts()) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var accept []pipeline.Gap
				w := sim.New(t, sim.Options{Seed: 5, Change: func(_ string,
					o *pipeline.Options,
				) {
					o.AcceptGaps, o.Names.Prefix = accept, cmp.Or(prefix, o.Names.Prefix)
				}})
				defer func() { prefix = "" }()
				w.Start("a")
				w.AwaitOwners()
				for i := range 20 {
					w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Hour))
				}
				time.Sleep(5 * time.Second)
				_ = w.Stop("a")
				c.change(t, w)
				n := w.Start("a")
				if c.err != pipeline.ErrGap {
					if err := n.Wait(); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
						t.Fatalf("the engine said %v, want %q in it", err, c.want)
					}
					return
				}
				if time.Sleep(20 * time.Second); !strings.Contains(fmt.Sprint(n.Engine.Unready()), c.want) {
					t.Fatalf("not ready: %v, want %q in it", n.Engine.Unready(), c.want)
				}
				accept = gapsOf(t, n)
				w.Kill("a")
				if !c.accept {
					return
				}
				w.Start("a")
				w.AwaitOwners()
				w.Register("after", time.Now().Add(time.Second))
				time.Sleep(time.Hour)
				for i := range 20 {
					w.RequireDelivered(fmt.Sprintf("k%d", i), 1)
				}
				w.RequireDelivered("after", 1)
			})
		})
	}
}

// gapsOf are the gaps that a node's partitions ask to accept.
func gapsOf(t *testing.T, n *sim.Node) []pipeline.Gap {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile(`--accept-gap (\d+:\d+)`).FindAllStringSubmatch(fmt.Sprint(n.Engine.Unready()),
		-1) {
		all = append(all, m[1])
	}
	gaps, err := pipeline.ParseGaps(strings.Join(all, ","))
	if err != nil {
		t.Fatal(err)
	}
	return gaps
}

func remake(t *testing.T, w *sim.World, topic string) {
	t.Helper()
	if err := w.Cluster.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := w.Cluster.CreateTopic(topic, w.P,
		map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
		t.Fatal(err)
	}
}

func grow(t *testing.T, w *sim.World, topic string) {
	t.Helper()
	cl := w.Client()
	defer cl.Close()
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, w.P+1
	req.Topics = append(req.Topics, rt)
	req.TimeoutMillis = 1000
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil || kerr.ErrorForCode(resp.Topics[0].ErrorCode) != nil {
		t.Fatalf("create partitions: %v %+v", err, resp)
	}
}

// TestPartitionsAddedWhileRunning: nobody turns a partition that no key
// belongs to, and the engine says so and stops.
func TestPartitionsAddedWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 6})
		n := w.Start("a")
		w.AwaitOwners()
		grow(t, w, w.Names.Commands())
		if err := n.Wait(); !errors.Is(err, recovery.ErrPartitions) {
			t.Errorf("the engine ended with %v", err)
		}
	})
}

// TestRestoreEqualsLive rebuilds a store from topic state alone and compares
// it with the one that lived through the turns, byte by byte.
func TestRestoreEqualsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 8})
		a := w.Start("a")
		w.AwaitOwners()
		for i := range 300 {
			key := fmt.Sprintf("k%d", i)
			w.Register(key, time.Now().Add(time.Duration(w.Rand.IntN(3600))*time.Second))
			if i%7 == 0 {
				w.Cancel(key)
			}
		}
		for i := range 50 {
			w.Send(fmt.Sprint("r", i),
				fmt.Sprintf(`{"op":"register","recurrence":"FREQ=MINUTELY;COUNT=%d","timezone":"Europe/Berlin","user_id":"u%d","channel":"r-x"}`, 1+i, i%3))
		}
		time.Sleep(30 * time.Minute)
		live := contents(t, a)
		_ = w.Stop("a")
		w.SetDisk("a", nil)
		b := w.Start("a")
		w.AwaitOwners()
		if len(live) != 350 {
			t.Errorf("%d triggers live", len(live))
		}
		equal(t, live, contents(t, b))
	})
}

func contents(t *testing.T, n *sim.Node) map[trigger.Key]string {
	t.Helper()
	out := map[trigger.Key]string{}
	for _, status := range n.Engine.Partitions() {
		err := n.Engine.Scan(t.Context(), status.Partition, true, "", func(s *trigger.State) bool {
			b, err := topics.AppendState(nil, s)
			if err != nil {
				t.Error(err)
			}
			out[s.Key] = string(b)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestForwardedOnceMore kills an owner that has read misrouted commands but could
// not bring them home, and starts it while the broker is slow to answer.
func TestForwardedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 9})
		w.Start("a")
		w.AwaitOwners()
		refuse := w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Commands(),
			Partitions: []int32{1}, Err: kerr.NotLeaderForPartition, Count: -1,
		})
		for i := range 20 {
			if key := fmt.Sprintf("k%d", i); topics.Partition([]byte(key), 2) == 1 {
				w.RegisterOn(0, key, time.Now().Add(2*time.Minute))
			}
		}
		time.Sleep(2 * time.Second)
		if w.Heard("forwarded") == 0 || refuse.Hits() == 0 {
			t.Fatal("nothing was to be forwarded")
		}
		w.Kill("a")
		refuse.Remove()
		begin := time.Now()
		w.Cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			if time.Since(begin) < 20*time.Second {
				w.Cluster.KeepControl()
				w.Cluster.SleepControl(func() { time.Sleep(5 * time.Second) })
			}
			return nil, nil, false
		})
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(5 * time.Minute)
		w.CheckInvariants()
	})
}
