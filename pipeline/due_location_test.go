package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/trigger"
)

// lanes has a channel "shared" that is partitioned by key and has a lane for
// priority high.
type lanes struct{ pipelinetest.Channels }

func (c lanes) Settings(name string) pipeline.ChannelSettings {
	s := c.Channels.Settings(name)
	s.ByKey, s.HighLane = name == "shared", name == "shared"
	return s
}

// An event says where the due event lies, and so does a cancel that came too
// late: in the lane for priority high, and where its key belongs.
func TestEventsNameTheDueEventsLocation(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 4})
	w.Start("a", func(o *pipeline.Options) { o.Channels = lanes{pipelinetest.Channels{Names: o.Names}} })
	events := w.Tail(w.Names.Events())
	for _, priority := range []string{"normal", "high"} {
		topic := w.Names.Due("shared")
		if priority == "high" {
			topic += ".high"
		}
		due := w.Tail(topic)
		for i := range 6 { // some of the targets belong to another partition than the trigger
			key := fmt.Sprint(priority, i)
			w.Send(key,
				fmt.Sprintf(`{"op":"register","channel":"shared","delay":"1ms","priority":%q,"target_key":"target-%d"}`,
					priority, i))
			r := due.Next()
			location := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
			w.Send(key, `{"op":"cancel"}`)
			for _, kind := range []trigger.FactType{trigger.OccurrenceFired, trigger.CancelTooLate} {
				e := events.Event(key, kind)
				if reported := fmt.Sprintf("%s/%d", e.DueTopic, *e.DuePartition); reported != location {
					t.Errorf("%s of %s says %s, the due event is in %s", kind, key, reported, location)
				}
			}
		}
	}
}
