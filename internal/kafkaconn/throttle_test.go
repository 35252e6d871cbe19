package kafkaconn

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/fold"
	"github.com/waterclock/waterclock/internal/logtest"
)

// TestThrottle: an answer that says how long to pause is counted, and forgotten
// by Recent after a minute.
func TestThrottle(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cluster.ControlKey(int16(kmsg.ListGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
		resp.ThrottleMillis = 40
		return resp, nil, true
	})
	now := time.Unix(1_000_000, 0)
	log := &logtest.Buffer{}
	counted := NewThrottle(func() time.Time { return now }, slog.New(fold.New(slog.NewTextHandler(log, nil))))
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.WithHooks(counted))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ask := func() {
		if _, err := kmsg.NewPtrListGroupsRequest().RequestWith(t.Context(), cl); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	now = now.Add(30 * time.Second)
	ask()
	want := func(what string, recent, total time.Duration, answers int64) {
		t.Helper()
		pause, n := counted.Total()
		if got := counted.Recent(); got != recent || pause != total || n != answers {
			t.Errorf("%s: recent %v, total %v in %d answers", what, got, pause, n)
		}
	}
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "quota") ||
		!strings.Contains(said, "pause=40ms") {
		t.Errorf("the log has\n%s", said)
	}
	want("both", 80*time.Millisecond, 80*time.Millisecond, 2)
	now = now.Add(45 * time.Second)
	want("the first is a minute ago", 40*time.Millisecond, 80*time.Millisecond, 2)
	now = now.Add(time.Hour)
	want("much later", 0, 80*time.Millisecond, 2)
	ask()
	want("again", 40*time.Millisecond, 120*time.Millisecond, 3)
}
