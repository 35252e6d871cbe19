package pipeline_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestWhatIsCompressed: batches of events and states are, by zstd, unless that would make
// them no smaller, as the single record of an opening. Due events never are, whatever their
// payload.
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
	if due := w.Dump(w.Names.Due("push")); len(due) != n || !bytes.HasPrefix(due[0].Value, []byte(`{"event_id":"`)) {
		t.Fatalf("%d due events; want %d, with payloads that look like an event", len(due), n)
	}
	for _, c := range []struct {
		topic string
		zstd  bool
	}{
		{w.Names.Events(), true},
		{w.Names.State(), true},
		{w.Names.Due("push"), false},
	} {
		compressed := 0
		for _, b := range batches(t, w, c.topic) {
			switch codec := kgo.CompressionCodecType(b.Codec()); {
			case codec == kgo.CodecZstd:
				compressed++
			case codec != kgo.CodecNone:
				t.Errorf("%s/%d: codec %d", c.topic, b.First(), codec)
			case c.zstd:
				if plain := b.Bytes[batchHeader:]; len(zipped(t, plain)) < len(plain) {
					t.Errorf("%s/%d: %d records are plain: %.60q", c.topic, b.First(), b.Count(), plain)
				}
			}
		}
		if (compressed > 0) != c.zstd {
			t.Errorf("%s: %d batches are compressed", c.topic, compressed)
		}
	}
}

const batchHeader = 61 // of a record batch, before its records

// batches are those of partition 0 of a topic, as they lie there, without markers.
func batches(t *testing.T, w *pipelinetest.World, topic string) (all []*kafkapart.Batch) {
	t.Helper()
	cl := w.Client()
	defer cl.Close()
	r, at := kafkapart.NewReader(cl), kafkapart.TopicPartition{Topic: topic}
	for next := int64(0); ; {
		p, err := r.Fetch(t.Context(), at, next, kafkapart.ReadUncommitted)
		if err != nil {
			t.Fatal(err)
		}
		before := next
		for b := range kafkapart.Batches(p) {
			if next = b.Last() + 1; !b.Hidden {
				all = append(all, b)
			}
		}
		if next == before {
			return all
		}
	}
}

// zipped is what the fastest level of zstd makes of records.
func zipped(t *testing.T, records []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(records, nil)
}

// TestCompressedByFirstRecord: the first record of a batch tells whether it is compressed.
func TestCompressedByFirstRecord(t *testing.T) {
	state, err := topics.AppendState(nil, &trigger.State{Key: "acme/k", Status: trigger.Fired, Revision: 1, Seq: 2})
	if err != nil {
		t.Fatal(err)
	}
	progress, err := topics.AppendProgress(nil, &topics.Progress{Seq: 7, Owner: "10.0.0.1:8080"})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := topics.AppendGuard(nil, &topics.Guard{Seq: 7, Group: "waterclock"})
	if err != nil {
		t.Fatal(err)
	}
	watermark := topics.Watermark{Partition: 3, Due: map[string]map[int32]int64{"waterclock.due.push": {3: 40}}}
	event := topics.AppendEvent(nil, "acme/k", &trigger.Fact{Type: trigger.OccurrenceFired}, topics.EventEnv{})
	for _, c := range []struct {
		name    string
		value   []byte
		headers int
		want    kgo.CompressionCodecType
	}{
		{"event", event, 0, kgo.CodecZstd},
		{"state", state, 0, kgo.CodecZstd},
		{"tombstone", nil, 0, kgo.CodecZstd},
		{"progress", progress, 0, kgo.CodecZstd},
		{"guard", guard, 0, kgo.CodecZstd},
		{"watermark", watermark.Value(), 0, kgo.CodecNone},
		{"due event with a payload like an event", event, 12, kgo.CodecNone},
		{"due event with a payload like a state", state, 12, kgo.CodecNone},
		{"due event without a payload", []byte{}, 12, kgo.CodecNone},
		{"refused tombstone", nil, 3, kgo.CodecNone},
	} {
		src := bytes.Repeat(record(c.value, c.headers), 100)
		for _, uncompressed := range []bool{false, true} {
			zip, err := pipeline.NewCompressor(&pipeline.Options{Uncompressed: uncompressed})
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if uncompressed {
				want = kgo.CodecNone
			}
			out, codec := zip.Compress(new(bytes.Buffer), src)
			if codec != want || (out == nil) != (want == kgo.CodecNone) {
				t.Errorf("%s, uncompressed %v: codec %d, want %d", c.name, uncompressed, codec, want)
			}
			if _, codec := zip.Compress(new(bytes.Buffer), src, kgo.CompressDisableZstd); codec != kgo.CodecNone {
				t.Errorf("%s for a broker without zstd: codec %d", c.name, codec)
			}
		}
	}
}

// record is one record of a batch, as kmsg writes it.
func record(value []byte, headers int) []byte {
	r := kmsg.NewRecord()
	r.Key, r.Value, r.Headers = []byte("acme/k"), value, make([]kmsg.Header, headers)
	r.Length = int32(len(r.AppendTo(nil)) - 1) // without the byte of a length of 0
	return r.AppendTo(nil)
}
