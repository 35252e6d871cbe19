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
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// TestChannelsOfTheCluster: the bound on channels that commands create holds for the
// cluster and not for each partition, and one tenant has a share of it. What one
// engine has created is no new channel for another.
func TestChannelsOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 8})
		w.Start("a")
		w.Start("b")
		w.AwaitOwners()
		rejected := 0
		refused := func() int {
			time.Sleep(5 * time.Second)
			all := w.Dump(w.Names.Rejected())
			n := len(all) - rejected
			rejected = len(all)
			return n
		}
		register := func(tenant, id, channel string) {
			w.Send(tenant+"/"+id, fmt.Sprintf(`{"op":"register","channel":%q,"delay":"1d"}`, channel))
		}
		for i := range 100 {
			register("greedy", fmt.Sprint(i), fmt.Sprintf("new-%d", i))
		}
		const share, nodes = 20, 2
		if n := refused(); n < 100-nodes*share || n > 100-share {
			t.Errorf("%d of 100 were refused to one tenant", n)
		}
		for i := range 8 { // on every partition
			register("other", fmt.Sprint(i), "shared")
		}
		if n := refused(); n != 0 {
			t.Errorf("%d of 8 were refused another tenant's first channel", n)
		}
		for tenant := range 20 {
			for i := range 10 {
				register(fmt.Sprintf("t%d", tenant), fmt.Sprint(i), fmt.Sprintf("t%d-%d", tenant, i))
				time.Sleep(1100 * time.Millisecond) // each engine sees what the other has created
			}
		}
		refused()
		n := 0
		for _, name := range w.Topics() {
			if w.Names.Channel(name) != "" && !strings.HasSuffix(name, ".high") {
				n++
			}
		}
		if n < pipeline.MaxChannels-20 || n > pipeline.MaxChannels {
			t.Errorf("there are %d channels", n)
		}
		register("late", "1", "one-more")
		register("late", "2", "shared")
		if n := refused(); n != 1 {
			t.Errorf("%d of 2 were refused", n)
		}
	})
}

// TestChannelsRemoved: channels that an operator has removed no longer count for the tenant that created them.
func TestChannelsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		register := func(i int) (refused bool) {
			before := len(w.Dump(w.Names.Rejected()))
			w.Send(fmt.Sprintf("acme/%d", i), fmt.Sprintf(`{"op":"register","channel":"new-%d","delay":"1d"}`, i))
			time.Sleep(5 * time.Second)
			return len(w.Dump(w.Names.Rejected())) > before
		}
		const share = 20
		for i := range share {
			if register(i) {
				t.Fatalf("channel %d of %d is refused", i, share)
			}
		}
		if !register(share) {
			t.Fatal("one more than a tenant may create is taken")
		}
		for i := range 2 {
			if err := w.Cluster.DeleteTopic(w.Names.Due(fmt.Sprintf("new-%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []bool{false, false, true} {
			if got := register(share + 1 + i); got != want {
				t.Errorf("two were removed, one more is created: refused %v, want %v", got, want)
			}
		}
	})
}

// TestChannelsOfSlowBrokers: while one partition asks which channels there are, no
// other waits with a lock in its way. In a bubble such a one stands still for good.
func TestChannelsOfSlowBrokers(t *testing.T) {
	watch := time.AfterFunc(time.Minute, func() { panic("a partition waits for a lock that is held over a request") })
	defer watch.Stop()
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 4})
		n := w.Start("a")
		w.AwaitOwners()
		n.Delay(kmsg.Metadata, time.Second)
		for round := range 3 {
			for i := range 8 { // on every partition
				w.SendFree(w.Home(fmt.Sprint("k", i)), fmt.Sprint("k", i),
					fmt.Sprintf(`{"op":"register","channel":"new-%d","delay":"%dh"}`, round, round+1))
			}
			time.Sleep(20 * time.Second)
		}
		n.Heal()
		if all := w.Dump(w.Names.Rejected()); len(all) > 0 {
			t.Errorf("%d were refused, the first as %s", len(all), pipelinetest.Header(all[0], "wc-error-code"))
		}
		if all := w.Dump(w.Names.Events()); len(all) != 24 {
			t.Errorf("%d events, want one for each of 24 registers", len(all))
		}
	})
}
