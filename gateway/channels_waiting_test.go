package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// TestChannelsSayWhatWaits: of a channel whose worker's group has committed offsets, a list says how many due events
// it has not read. The markers of transactions do not make a group look behind that has read all.
func TestChannelsSayWhatWaits(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.WorkerGroup = func(channel string) string { return "g." + channel } })
	topic := topics.Names{}.Due("made")
	w.createTopic(topic)
	w.createTopic(topics.HighLane(topic))
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.TransactionalID("engine"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	write := func(topic string, n int) {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range n {
			cl.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte("due")}, nil)
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(topic string, at int64) {
		t.Helper()
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: at})
		if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "g.made", offsets); err != nil {
			t.Fatal(err)
		}
	}
	requires := func(want string) {
		t.Helper()
		list := w.must(http.StatusOK, "GET", "/v1/channels", "").body
		_, of, _ := strings.Cut(list, `"name":"made"`)
		of, _, _ = strings.Cut(of, "}")
		if _, got, _ := strings.Cut(of, `"waiting":`); got != want {
			t.Errorf("%q wait, want %q: %s", got, want, of)
		}
	}
	write(topic, 3)
	requires("")
	commit(topic, 1)
	requires("2")
	commit(topic, 3)
	requires("0")
	write(topics.HighLane(topic), 5)
	commit(topics.HighLane(topic), 0)
	requires("5")
}

// TestSettingsAreShown: an operator sees the settings as the process shows them.
func TestSettingsAreShown(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Settings = func() []Setting { return []Setting{{Key: "listen", Value: ":8080", Source: "default"}} }
	})
	want := `{"items":[{"key":"listen","value":":8080","source":"default"}]}`
	if got := strings.TrimSpace(w.must(http.StatusOK, "GET", "/v1/settings", "").body); got != want {
		t.Errorf("the settings are %s, want %s", got, want)
	}
}
