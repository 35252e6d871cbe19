package pipeline_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestWhatIsCompressed: events are, by zstd. Due events are not, whatever their payload, and
// states are not.
func TestWhatIsCompressed(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1})
	w.Start("a")
	w.AwaitOwners()
	const n = 20
	w.SendAll(n, func(i int) (string, string) {
		return fmt.Sprint("t", i), `{"op":"register","delay":"10ms","channel":"push","payload":{"event_id":"0-1","type":1}}`
	})
	events := w.Tail(w.Names.Events())
	for fired := 0; fired < n; {
		e, err := topics.DecodeEvent(events.Next().Value)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == string(trigger.OccurrenceFired) {
			fired++
		}
	}
	for _, c := range []struct {
		topic string
		codec kgo.CompressionCodecType
	}{
		{w.Names.Events(), kgo.CodecZstd},
		{w.Names.Due("push"), kgo.CodecNone},
		{w.Names.State(), kgo.CodecNone},
	} {
		all := w.Dump(c.topic)
		if len(all) < n {
			t.Fatalf("%s has %d records", c.topic, len(all))
		}
		for _, r := range all {
			if codec := kgo.CompressionCodecType(r.Attrs.CompressionType()); codec != c.codec && !r.Attrs.IsControl() {
				t.Errorf("%s/%d: codec %d, want %d: %.60q", c.topic, r.Offset, codec, c.codec, r.Value)
			}
		}
	}
	for _, r := range w.Dump(w.Names.Due("push")) {
		if !bytes.HasPrefix(r.Value, []byte(`{"event_id":"`)) {
			t.Errorf("the payload does not look like an event: %s", r.Value)
		}
	}
}
