package output

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
)

// TestIsDue: none of our own topics is ever taken for a channel's.
func TestIsDue(t *testing.T) {
	n := topics.Names{Prefix: "waterclock."}
	d := &Topics{Config: Config{Names: n}}
	for _, ours := range []string{n.State(), n.Events(), n.Rejected(), n.DeadLetter(), n.Commands(), n.Receipts()} {
		if d.IsDue(ours) {
			t.Errorf("%s is ours", ours)
		}
	}
	if !d.IsDue(n.Due("push")) || !d.IsDue("theirs") {
		t.Error("a channel's topic may be called anything")
	}
}

// TestAllIsAsNewAsAsked: a list serves all that came before the brokers were asked, and nobody who
// came later.
func TestAllIsAsNewAsAsked(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "w.due.push", "w.commands", "theirs"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if req.(*kmsg.MetadataRequest).Topics == nil {
			asked.Add(1)
		}
		return nil, nil, false
	})
	kafka := []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}
	cl, err := kgo.NewClient(kafka...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	d := New(Config{Kafka: kafka, Names: topics.Names{Prefix: "w."}}, cl)
	came := time.Now()
	names := func(since time.Time) (all []string) {
		due, err := d.All(t.Context(), since)
		if err != nil {
			t.Error(err)
		}
		for _, at := range due {
			all = append(all, at.Name)
		}
		slices.Sort(all)
		return all
	}
	var beside sync.WaitGroup
	for range 20 {
		beside.Go(func() {
			if got := names(came); !slices.Equal(got, []string{"w.due.push"}) {
				t.Errorf("listed are %q", got)
			}
		})
	}
	beside.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("20 that came together asked %d times", n)
	}
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "w.due.sms"); err != nil {
		t.Fatal(err)
	}
	if got := names(came); len(got) != 1 || asked.Load() != 1 {
		t.Errorf("listed for who came before: %q, asked %d times", got, asked.Load())
	}
	if got := names(time.Now()); !slices.Equal(got, []string{"w.due.push", "w.due.sms"}) ||
		asked.Load() != 2 {
		t.Errorf("listed for who came later: %q, asked %d times", got, asked.Load())
	}
}

// TestDueTopicWithAnError: a topic that comes with an error is not left out, unless it does not exist.
func TestDueTopicWithAnError(t *testing.T) {
	d := &Topics{Config: Config{Names: topics.Names{Prefix: "w."}, ByKey: map[string]bool{"theirs": true}}}
	topic := func(name string, err *kerr.Error) kmsg.MetadataResponseTopic {
		return kmsg.MetadataResponseTopic{Topic: &name, ErrorCode: err.Code}
	}
	got := d.dueTopics([]kmsg.MetadataResponseTopic{
		topic("theirs", kerr.LeaderNotAvailable), topic("w.due.push", kerr.LeaderNotAvailable),
		topic("w.due.gone", kerr.UnknownTopicOrPartition), topic("w.commands", kerr.LeaderNotAvailable),
	})
	if want := []Topic{{"theirs", 1, true}, {"w.due.push", 1, false}}; !slices.Equal(got, want) {
		t.Errorf("due topics are %+v, want %+v", got, want)
	}
	if all := got[0].WrittenBy(3); len(all) != 1 {
		t.Errorf("of a topic whose partitions nobody knows, %v are asked for", all)
	}
}
