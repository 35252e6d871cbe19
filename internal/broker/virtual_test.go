package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBubble runs the broker in a synctest bubble, on disk and in memory: its
// append times are the bubble's, and nothing of it is left behind.
func TestBubble(t *testing.T) {
	for _, c := range []struct {
		name string
		dir  string
	}{
		{"in memory", ""},
		{"on disk", t.TempDir()},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { bubble(t, c.dir) })
		})
	}
}

func bubble(t *testing.T, dir string) {
	var nw kfake.VirtualNetwork
	b, err := Start(context.Background(), Options{
		Dir: dir, Listen: "127.0.0.1:9092", ListenFn: nw.Listen, Sync: true,
		Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.Dialer(nw.DialContext), kgo.TransactionalID("x"),
		kgo.ConsumeTopics("a"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	stamped := "LogAppendTime"
	if _, err := kadm.NewClient(cl).CreateTopic(context.Background(), 1, 1,
		map[string]*string{"message.timestamp.type": &stamped}, "a"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	now := time.Now()
	transact(t, cl, true, &kgo.Record{Topic: "a", Value: []byte("v")})
	for _, r := range cl.PollFetches(context.Background()).Records() {
		if d := r.Timestamp.Sub(now); d < 0 || d > time.Second {
			t.Errorf("append time %v, now %v", r.Timestamp, now)
		}
	}
	cl.Close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
