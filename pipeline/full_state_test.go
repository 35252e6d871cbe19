package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestFullState: a trigger whose record has no room for more content, since what
// is in flight takes it, can be paused, resumed, acked and cancelled all the same.
func TestFullState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{
			Partitions: 1, Channels: []string{"r-x"},
			Change: func(_ string, o *pipeline.Options) { o.Limits.Payload = topics.MaxPayload },
		})
		cl := w.Client()
		defer cl.Close()
		size := "131072"
		if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(),
			[]kadm.AlterConfig{{Name: "max.message.bytes", Value: &size}}, w.Names.State()); err != nil {
			t.Fatal(err)
		}
		n := w.Start("a")
		w.AwaitOwners()
		w.Send("k", fmt.Sprintf(`{"op":"register","channel":"r-x","recurrence":"every:1m","payload":%q}`,
			strings.Repeat("x", 81_000)))
		time.Sleep(20*time.Minute + time.Second)
		for _, c := range []struct {
			order string
			live  int
			is    trigger.Status
		}{
			{`{"op":"pause"}`, 20, trigger.Paused},
			{`{"op":"resume"}`, 20, trigger.Pending},
			{`{"op":"ack","occurrence":"2000-01-01T00:01:00.100Z"}`, 19, trigger.Pending},
			{`{"op":"cancel"}`, 0, trigger.Cancelled},
		} {
			w.Send("k", c.order)
			time.Sleep(time.Second)
			s, err := n.Engine.Get(t.Context(), "k")
			if err != nil || s == nil {
				t.Fatalf("after %s: %v, %v", c.order, s, err)
			}
			if len(s.Live) != c.live || s.Status != c.is {
				t.Errorf("after %s: %v, %d live", c.order, s.Status, len(s.Live))
			}
		}
	})
}
