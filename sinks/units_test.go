package sinks

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// taker is a sink that refuses one partition.
type taker struct {
	Writer
	refuses int32
	at      map[int32]Progress
	took    []int64 // offsets
}

func (k *taker) OwnsOffsets() bool                                    { return true }
func (k *taker) Progress(context.Context) (map[int32]Progress, error) { return k.at, nil }

func (k *taker) Apply(_ context.Context, batch []EventRecord) error {
	for _, e := range batch {
		if e.Partition == k.refuses {
			return fmt.Errorf("partition %d: %w", e.Partition, ErrRefused)
		}
		k.took = append(k.took, e.Offset)
	}
	return nil
}

func testProjector(t *testing.T, sink Writer) *Projector {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	p, err := NewProjector(sink, Options{Topic: "events"})
	if err != nil {
		t.Fatal(err)
	}
	p.client = cl
	p.owned = map[int32]int64{0: 5, 1: 5}
	return p
}

// twoPartitions returns a batch with one record each of partitions 0 and 1.
func twoPartitions(offset int64) batch {
	var f fetched
	for p := range int32(2) {
		f.add(EventRecord{Partition: p, Offset: offset}, &kgo.Record{Topic: "events", Partition: p, Offset: offset})
	}
	return f.batch(0, 2)
}

// TestDeliverStopsTheRefused checks that refused records are kept and not committed. The other
// partitions must continue, including records fetched before.
func TestDeliverStopsTheRefused(t *testing.T) {
	sink := &taker{refuses: 1}
	p := testProjector(t, sink)
	for offset := range int64(2) {
		p.deliver(t.Context(), twoPartitions(5+offset))
	}
	if s := p.stopped[1]; len(p.stopped) != 1 || s == nil || len(s.waiting) != 2 {
		t.Fatalf("stopped: %+v", p.stopped)
	}
	if p.owned[0] != 7 || p.owned[1] != 5 {
		t.Errorf("next offsets %v", p.owned)
	}
}

// TestGivenAwayIsNotCommitted checks that the next owner's offset is not moved back.
func TestGivenAwayIsNotCommitted(t *testing.T) {
	p := testProjector(t, &taker{refuses: -1})
	delete(p.owned, 1)
	if heads := p.moveOn(twoPartitions(5)); len(heads) != 1 || heads[0] == nil || p.owned[0] != 6 || len(p.owned) != 1 {
		t.Errorf("to be committed: %v; next offsets %v", heads, p.owned)
	}
}

// TestResumeFromSink checks that a sink's own offsets replace those of the group. A partition
// that the sink does not know starts at the beginning.
func TestResumeFromSink(t *testing.T) {
	p := testProjector(t, &taker{at: map[int32]Progress{0: {Next: 42}}})
	at := func(n int64) kgo.Offset { return kgo.NewOffset().At(n) }
	offsets, err := p.resumeFromSink(t.Context(), map[string]map[int32]kgo.Offset{"events": {0: at(7), 1: at(9)}})
	if err != nil {
		t.Fatal(err)
	}
	begin := kgo.NewOffset().AtStart().EpochOffset().Offset
	if a, b := offsets["events"][0].EpochOffset().Offset, offsets["events"][1].EpochOffset().Offset; a != 42 ||
		b != begin {
		t.Errorf("goes on at %d and %d, want 42 and %d", a, b, begin)
	}
}

// TestRebuildReadsToTheEnd checks that a partition is complete at its last record, not at the one
// before.
func TestRebuildReadsToTheEnd(t *testing.T) {
	sink := &taker{refuses: -1}
	b := &rebuild{
		o:      RebuildOptions{Into: sink, MaxRecords: 10, MaxBytes: 1 << 20, Progress: func(RebuildProgress) {}},
		report: &Report{Window: Window{From: map[int32]int64{}, To: map[int32]int64{}}}, ends: map[int32]int64{0: 3},
	}
	for offset := range int64(4) {
		r := &kgo.Record{Topic: "events", Offset: offset, Value: []byte("poison")}
		f := kgo.Fetches{{Topics: []kgo.FetchTopic{{
			Topic:      "events",
			Partitions: []kgo.FetchPartition{{Records: []*kgo.Record{r}}},
		}}}}
		if err := b.take(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if _, more := b.ends[0]; more != (offset < 2) {
			t.Errorf("behind offset %d of 3 there is more: %v", offset, more)
		}
	}
	if !reflect.DeepEqual(sink.took, []int64{0, 1, 2}) {
		t.Errorf("applied %v", sink.took)
	}
}

// TestBlank checks that an erased event shows what happened, but neither user nor content.
func TestBlank(t *testing.T) {
	e := topics.Event{
		Type: "occurrence.fired", Trigger: "k", UserID: "u", Detail: "d", CorrelationID: "c", PayloadBase64: "AA==",
		Tags: map[string]string{"a": "b"}, Payload: []byte(`"p"`),
	}
	if Blank(&e); !reflect.DeepEqual(e, topics.Event{Type: "occurrence.fired", Trigger: "k"}) {
		t.Errorf("left: %+v", e)
	}
}

// TestMinuteUntil checks that an entry is kept past its due time, however far ahead, and as long
// as its event.
func TestMinuteUntil(t *testing.T) {
	now, retention := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), 30*24*time.Hour
	for _, c := range []struct{ due, want time.Time }{
		{now.Add(time.Hour), now.Add(retention)},
		{now.Add(2 * 365 * 24 * time.Hour), now.Add(2 * 365 * 24 * time.Hour).Add(afterDue)},
	} {
		if got := minuteUntil(now.UnixMicro(), trigger.At(c.due), retention); got != c.want.Unix() {
			t.Errorf("due at %v: kept until %v, want %v", c.due, time.Unix(got, 0).UTC(), c.want)
		}
	}
}
