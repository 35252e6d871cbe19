package chaos

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// What becomes of the brokers.
var brokerFaults = []*fault{
	{name: "a broker is stopped", least: 4 * time.Second, most: 12 * time.Second, strike: func(w *world) func() {
		n := w.anyNode()
		w.kafka.Stop(n)
		return func() { w.kafka.Restart(n) }
	}},
	{name: "a broker is killed", least: time.Second, most: 12 * time.Second, strike: func(w *world) func() {
		return w.killNode(w.anyNode())
	}},
	{name: "brokers are restarted one after another", strike: func(w *world) func() {
		for n := range nodes {
			w.kafka.Restart(n + 1)
			w.awaitInSync()
		}
		return nil
	}},
	{
		name: "two of three brokers are killed", least: 2 * time.Second, most: 10 * time.Second,
		strike: func(w *world) func() {
			a, b := w.twoNodes()
			w.kafka.Kill9(a)
			w.kafka.Kill9(b)
			return func() { w.kafka.RestartAll(a, b) }
		},
	},
	{name: "all brokers are killed at once", least: time.Second, most: 6 * time.Second, strike: func(w *world) func() {
		for n := range nodes {
			w.kafka.Kill9(n + 1)
		}
		return func() { w.kafka.RestartAll(1, 2, 3) }
	}},
	{name: "a broker is frozen", least: 3 * time.Second, most: 14 * time.Second, strike: func(w *world) func() {
		n := w.anyNode()
		w.kafka.Pause(n)
		return func() { w.kafka.Cont(n) }
	}},
	{
		name: "the transaction coordinator is killed", least: 2 * time.Second, most: 8 * time.Second,
		strike: func(w *world) func() {
			return w.killNode(w.leads("__transaction_state"))
		},
	},
	{
		name: "the group coordinator is killed", least: 2 * time.Second, most: 8 * time.Second,
		strike: func(w *world) func() {
			return w.killNode(w.groupCoordinator())
		},
	},
	{
		name: "the leader of commands is frozen", least: 8 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			n := w.leads(prefix + "commands")
			w.kafka.Pause(n)
			return func() { w.kafka.Cont(n) }
		},
	},
	{
		name: "a broker's disk is full", needs: root, least: 5 * time.Second, most: 12 * time.Second,
		strike: func(w *world) func() {
			n := w.anyNode()
			w.kafka.FillDisk(n)
			return func() {
				w.kafka.FreeDisk(n)
				time.Sleep(time.Second)
				if w.kafka.Alive(n) { // it may have halted, or lost its only directory
					w.kafka.Kill9(n)
				}
				w.kafka.Restart(n)
			}
		},
	},
}

func (w *world) killNode(n int) (heal func()) {
	w.kafka.Kill9(n)
	return func() { w.kafka.Restart(n) }
}

// awaitInSync waits until one broker after another may be taken away.
func (w *world) awaitInSync() {
	for begin := time.Now(); time.Since(begin) < time.Minute && w.inSync() != nil; {
		time.Sleep(200 * time.Millisecond)
	}
}

// leads is the broker that leads a partition of a topic, drawn.
func (w *world) leads(topic string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	partition := int32(w.rng.IntN(6))
	all, err := w.admin.ListTopicsWithInternal(ctx, topic)
	if err != nil || all[topic].Partitions[partition].Leader < 1 {
		return 1
	}
	return int(all[topic].Partitions[partition].Leader)
}

// groupCoordinator is the broker that coordinates the engines' group.
func (w *world) groupCoordinator() int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found := w.admin.FindGroupCoordinators(ctx, group)
	var n int
	found.EachError(func(r kadm.FindCoordinatorResponse) { w.t.Logf("group coordinator: %v", r.Err) })
	if n = int(found[group].NodeID); n < 1 {
		n = 1
	}
	return n
}
