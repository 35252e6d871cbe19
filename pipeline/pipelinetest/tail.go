package pipelinetest

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Tail reads a topic from its beginning, committed records only.
func (w *World) Tail(topic string) *Tail {
	w.T.Helper()
	cl := w.Client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.MetadataMaxAge(time.Second))
	w.T.Cleanup(cl.Close)
	return &Tail{w: w, cl: cl, topic: topic}
}

// Tail is a reader of one topic.
type Tail struct {
	w     *World
	cl    *kgo.Client
	topic string
	held  []*kgo.Record
}

// Next waits for the next record.
func (t *Tail) Next() *kgo.Record {
	t.w.T.Helper()
	return t.Take(1)[0]
}

// Take waits for the next n records.
func (t *Tail) Take(n int) []*kgo.Record {
	t.w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for len(t.held) < n {
		fs := t.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.w.T.Fatalf("waiting for %d records of %s: have %d", n, t.topic, len(t.held))
		}
		t.held = append(t.held, fs.Records()...)
	}
	out := t.held[:n:n]
	t.held = t.held[n:]
	return out
}

// Quiet fails if another record comes within d.
func (t *Tail) Quiet(d time.Duration) {
	t.w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for ctx.Err() == nil {
		t.held = append(t.held, t.cl.PollFetches(ctx).Records()...)
		if len(t.held) > 0 {
			t.w.T.Fatalf("unexpected record on %s: %s", t.topic, t.held[0].Key)
		}
	}
}

// Event waits for the next event of a type about a key.
func (t *Tail) Event(key string, typ trigger.FactType) topics.Event {
	t.w.T.Helper()
	for {
		e, err := topics.DecodeEvent(t.Next().Value)
		if err != nil {
			t.w.T.Fatalf("event: %v", err)
		}
		if e.Trigger == key && e.Type == string(typ) {
			return e
		}
	}
}
