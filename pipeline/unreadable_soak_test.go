//go:build soak

package pipeline_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/rawbatch"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

// TestSoakBatches sends batches of every codec, of records with a key, a value
// or a header of up to 2 GiB, for minutes: nothing but the refusals is missing,
// and memory stays where it is. Topic commands takes 16 MiB here, so that lz4
// and snappy reach further.
func TestSoakBatches(t *testing.T) { onEach(t, 2, soakBatches) }

func soakBatches(t *testing.T, w *pipelinetest.World) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	w.Configure(w.Names.Commands(), "max.message.bytes", "16777216")
	w.Start("a", func(o *pipeline.Options) { o.BatchBytes = bombBytes })
	w.AwaitOwners()
	due, rejected := w.Tail(w.Names.Due("default")), w.Tail(w.Names.Rejected())
	peak, began := watchHeap(t), heapBytes()
	var sources []string
	for i, end := 0, time.Now().Add(2*time.Minute); time.Now().Before(end); i++ {
		codec, part := rawbatch.Codecs[1+rnd.IntN(4)], rawbatch.Parts[rnd.IntN(3)]
		zeros := int64(math.Exp(rnd.Float64() * math.Log(1<<31-1<<20)))
		switch codec {
		case "snappy":
			zeros = min(zeros, 280<<20)
		case "lz4":
			zeros = min(zeros, 1<<31-1<<20)
		}
		batch := rawbatch.Spec{Codec: codec, Records: []rawbatch.Record{{
			Key: []byte("\x01"), Value: []byte("x"),
			Large: part, Zeros: zeros,
		}}}.Batch()
		sources = append(sources, topics.Source(w.Names.Commands(), 0, w.SendBatch(w.Names.Commands(), 0, batch)))
		key := goodKey(w, i)
		w.SendTo(0, key, `{"op":"register","delay":"10ms"}`)
		takeDue(t, due, []string{key})
	}
	reported := map[string]bool{}
	for _, r := range rejected.Take(len(sources)) {
		source := pipelinetest.Header(r, "wc-source")
		if reported[source] {
			t.Errorf("%s is refused twice", source)
		}
		reported[source] = true
	}
	for i, source := range sources {
		if !reported[source] {
			t.Errorf("batch %d, %s, is not refused", i, source)
		}
	}
	most := peak()
	t.Logf("%d batches; the heap has grown by %d MB", len(sources), (most-began)>>20)
	if most > began+24*bombBytes {
		t.Errorf("the heap has grown by %d MB", (most-began)>>20)
	}
}
