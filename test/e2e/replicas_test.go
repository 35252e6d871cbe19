package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/test/services"
)

// TestDueTopicWithoutLeader kills one of three brokers, the only one with a
// channel's due topic, under load. What is due there waits; other channels go
// on, and when the broker is back everything that waited fires, once.
func TestDueTopicWithoutLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	t.Parallel() // it waits, most of the time, and its brokers are its own
	k := services.Kafka(t, services.Nodes(3))
	c := newClusterOn(t, k.Bootstrap, 1)
	good, alone := c.prefix+"due.default", c.prefix+"due.alone"
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.DefaultProduceTopic(c.prefix+"commands"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	createOn(t, cl, alone, 3)
	register := func(key, channel string, in time.Duration) {
		t.Helper()
		body := fmt.Sprintf(`{"op":"register","channel":%q,"delay":%q}`, channel, in)
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte(key), Value: []byte(body)}).
			FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.nodes(t, 1, 1)
	register("before", "alone", time.Second)
	awaitKey(t, c.brokers, alone, "before")

	// Every half second one for each channel, from before the broker is killed on.
	const n, killed, back = 120, 20, 100
	begin := time.Now()
	for i := range n {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / 2)))
		switch i {
		case killed:
			k.Kill9(3)
		case back:
			k.Restart(3)
		}
		register(fmt.Sprintf("alone-%d", i), "alone", time.Second)
		register(fmt.Sprintf("good-%d", i), "default", time.Second)
	}
	for topic, name := range map[string]string{good: "good", alone: "alone"} {
		deadline := time.Now().Add(2 * time.Minute)
		for len(dump(t, c.brokers, topic)) < n && time.Now().Before(deadline) {
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second) // for what is too much
		fired, late := map[string]int{}, map[int]time.Duration{}
		for _, r := range dump(t, c.brokers, topic) {
			fired[string(r.Key)]++
			var i int
			if _, err := fmt.Sscanf(string(r.Key), name+"-%d", &i); err == nil {
				late[i] = r.Timestamp.Sub(begin.Add(time.Duration(i)*time.Second/2 + time.Second)).
					Round(time.Millisecond)
			}
		}
		t.Logf("%s: lateness %v", topic, late)
		for i := range n {
			if key := fmt.Sprintf("%s-%d", name, i); fired[key] != 1 {
				t.Errorf("%s fired %d times", key, fired[key])
			}
		}
		if most := late[back-1]; name == "good" && most > 5*time.Second {
			t.Errorf("with the other topic away for long, this one fires %v late", most)
		}
	}
}

// createOn creates a topic of one partition on certain brokers.
func createOn(t *testing.T, cl *kgo.Client, topic string, brokers ...int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: brokers}}
	rt.Configs = []kmsg.CreateTopicsRequestTopicConfig{{
		Name:  "message.timestamp.type",
		Value: kmsg.StringPtr("LogAppendTime"),
	}}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
}
