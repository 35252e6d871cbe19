package kafkapart

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What a group subscribes to is read, and nothing else; when its members have gone
// nobody reads it.
func TestTopicsRead(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "read", "lonely", "commands"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	cl, err := kgo.NewClient(seeds)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	await := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			read, err := TopicsRead(t.Context(), cl)
			if err == nil && read["read"] == want && !read["lonely"] {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("read are %v, %v; want %v", read, err, want)
			}
		}
	}
	if read, err := TopicsRead(t.Context(), cl); err == nil {
		t.Errorf("with no group to be seen: %v", read)
	}
	engine, err := kgo.NewClient(seeds, kgo.ConsumerGroup("engines"), kgo.ConsumeTopics("commands"))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	await(false)
	worker, err := kgo.NewClient(seeds, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("read"))
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	await(true)
	if read, err := TopicsRead(t.Context(), cl, "g"); err != nil || read["read"] || !read["commands"] {
		t.Errorf("but for the group g: %v, %v", read, err)
	}
	if read, err := TopicsRead(t.Context(), cl, "g", "engines"); err != nil || len(read) != 0 {
		t.Errorf("but for both: %v, %v", read, err)
	}
	worker.Close()
	await(false)
}
