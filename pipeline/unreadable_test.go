package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/rawbatch"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestBombs: batches that are small on the wire and up to 2 GiB decompressed,
// in every codec, as key, value and header: each is refused once, by its
// offsets, in memory that does not grow with it. What stands before, between
// and behind them fires, also after a restart and a takeover.
func TestBombs(t *testing.T) { onEach(t, 2, bombs) }

// bomb is one batch that nobody should read.
type bomb struct {
	name  string
	topic string
	batch []byte
	n     int64 // records
	first int64
}

// bombBytes is limits.batch_bytes of these tests: snappy holds no more than 22
// MB in the 1 MiB that topic commands takes.
const bombBytes = 16 << 20

func makeBombs(w *pipelinetest.World) (all []*bomb) {
	sizes := map[string]int64{"gzip": 980 << 20, "snappy": 18 << 20, "lz4": 240 << 20, "zstd": 1<<31 - 1<<20}
	for _, codec := range rawbatch.Codecs[1:] {
		for _, part := range rawbatch.Parts {
			spec := rawbatch.Spec{Codec: codec, Records: []rawbatch.Record{
				{Key: []byte("beside"), Value: []byte(`{"op":"register","delay":"1s"}`)},
				{Key: []byte("k"), Value: []byte(`{"op":"cancel"}`), Large: part, Zeros: sizes[codec]},
			}}
			all = append(all, &bomb{name: codec + " " + part, topic: w.Names.Commands(), batch: spec.Batch(), n: 2})
		}
	}
	receipt := rawbatch.Spec{Codec: "zstd", Records: []rawbatch.Record{{
		Key: []byte("k"), Large: "value",
		Zeros: 1 << 30,
	}}}
	all = append(all, &bomb{name: "a receipt", topic: w.Names.Receipts(), batch: receipt.Batch(), n: 1})
	tiny := make([]rawbatch.Record, 120_000) // 20 MB of records in 1 MB
	for i := range tiny {
		tiny[i].Key = []byte("k")
	}
	all = append(all, &bomb{
		name: "many records", topic: w.Names.Commands(),
		batch: rawbatch.Spec{Codec: "gzip", Records: tiny}.Batch(), n: int64(len(tiny)),
	})
	headers := rawbatch.Spec{Codec: "gzip", Records: []rawbatch.Record{{
		Key:     []byte("k"),
		Headers: make([]kgo.RecordHeader, 450_000),
	}}}
	return append(all, &bomb{name: "many headers", topic: w.Names.Commands(), batch: headers.Batch(), n: 1})
}

func bombs(t *testing.T, w *pipelinetest.World) {
	small := func(o *pipeline.Options) { o.BatchBytes = bombBytes }
	w.Start("a", small)
	w.AwaitOwners()
	all := makeBombs(w)
	due := w.Tail(w.Names.Due("default"))
	debug.FreeOSMemory()
	began := heapBytes()
	peak := watchHeap(t)
	var want []string
	for i, b := range all {
		b.first = w.SendBatch(b.topic, 0, b.batch)
		key := goodKey(w, i)
		w.SendTo(0, key, `{"op":"register","delay":"100ms"}`)
		want = append(want, key)
	}
	takeDue(t, due, want)
	if most := peak(); most > began+16*bombBytes {
		t.Errorf("the heap has grown by %d MB", (most-began)>>20)
	} else {
		t.Logf("the heap has grown by %d MB", (most-began)>>20)
	}
	checkBombs(t, w, all)
	if err := w.Stop("a"); err != nil {
		t.Error(err)
	}
	w.Start("a", small) // it finds its store
	w.AwaitOwners()
	w.SendTo(0, goodKey(w, 1000), `{"op":"register","delay":"100ms"}`)
	takeDue(t, due, []string{goodKey(w, 1000)})
	_ = w.Stop("a")
	last := &bomb{name: "while nobody looked", topic: w.Names.Commands(), batch: all[9].batch, n: 2}
	last.first = w.SendBatch(last.topic, 0, last.batch)
	w.Start("b", small) // it has none
	w.AwaitOwners()
	w.SendTo(0, goodKey(w, 1001), `{"op":"register","delay":"100ms"}`)
	takeDue(t, due, []string{goodKey(w, 1001)})
	checkBombs(t, w, append(all, last))
}

// goodKey is a key of partition 0.
func goodKey(w *pipelinetest.World, n int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("good-%d-%d", n, i); topics.Partition([]byte(key), w.P) == 0 {
			return key
		}
	}
}

func takeDue(t *testing.T, due *pipelinetest.Tail, want []string) {
	t.Helper()
	left := map[string]bool{}
	for _, key := range want {
		left[key] = true
	}
	for range want {
		if key := string(due.Next().Key); !left[key] {
			t.Errorf("%q fired twice, or was never asked for", key)
		} else {
			delete(left, key)
		}
	}
}

// checkBombs: one record of rejected and one event for each, and no more.
func checkBombs(t *testing.T, w *pipelinetest.World, all []*bomb) {
	t.Helper()
	rejected := w.Tail(w.Names.Rejected())
	records := map[string]*kgo.Record{}
	for _, r := range rejected.Take(len(all)) {
		records[pipelinetest.Header(r, "wc-source")] = r
	}
	rejected.Quiet(300 * time.Millisecond)
	reported := map[string]topics.Event{}
	for events := w.Tail(w.Names.Events()); len(reported) < len(all); {
		e, err := topics.DecodeEvent(events.Next().Value)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != string(trigger.Rejected) {
			continue
		}
		if _, twice := reported[e.Source]; twice {
			t.Errorf("%s is told twice", e.Source)
		}
		reported[e.Source] = e
	}
	for _, b := range all {
		source := topics.Source(b.topic, 0, b.first)
		r, e := records[source], reported[source]
		if r == nil || e.Type == "" {
			t.Errorf("%s: no record or no event of %s", b.name, source)
			continue
		}
		code, detail, last := pipelinetest.Header(r, "wc-error-code"), pipelinetest.Header(r, "wc-error-detail"),
			pipelinetest.Header(r, "wc-error-last-offset")
		if code != "too_large" || last != fmt.Sprint(b.first+b.n-1) ||
			!strings.Contains(detail, fmt.Sprintf("offsets %d to %s ", b.first, last)) {
			t.Errorf("%s: %s, last offset %s, %s", b.name, code, last, detail)
		}
		if e.Reason != code || e.Detail != detail || e.Trigger != "" {
			t.Errorf("%s: the event says %s, %s of %q", b.name, e.Reason, e.Detail, e.Trigger)
		}
	}
}

// watchHeap returns the most that the heap held until it is called.
func watchHeap(t *testing.T) (most func() uint64) {
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		peak := heapBytes()
		for {
			select {
			case <-stop:
				done <- peak
				return
			case <-time.After(5 * time.Millisecond):
				peak = max(peak, heapBytes())
			}
		}
	}()
	return func() uint64 { close(stop); return <-done }
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestManySmallBombs: batches that may be read one by one come by the
// thousand; each is decoded and refused, and never all of a fetch at once.
func TestManySmallBombs(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a", func(o *pipeline.Options) { o.BatchBytes = bombBytes })
	w.AwaitOwners()
	due, rejected := w.Tail(w.Names.Due("default")), w.Tail(w.Names.Rejected())
	small := rawbatch.Spec{Codec: "zstd", Records: []rawbatch.Record{{
		Key: []byte("k"), Value: []byte("x"),
		Large: "key", Zeros: bombBytes - 1<<20,
	}}}.Batch()
	const n = 40 // 600 MB
	debug.FreeOSMemory()
	began := heapBytes()
	peak := watchHeap(t)
	w.SendBatch(w.Names.Commands(), 0, small)
	for range n - 1 {
		w.SendBatch(w.Names.Commands(), 0, small)
	}
	w.SendTo(0, goodKey(w, 1), `{"op":"register","delay":"100ms"}`)
	takeDue(t, due, []string{goodKey(w, 1)})
	most := peak()
	for _, r := range rejected.Take(n) {
		if code, n := pipelinetest.Header(r, "wc-error-code"),
			pipelinetest.Header(r, "wc-error-key-length"); code != "too_large" && code != "invalid_key" ||
			n != fmt.Sprint(bombBytes-1<<20+1) {
			t.Fatalf("%s, a key of %s", code, n)
		}
	}
	t.Logf("the heap has grown by %d MB", (most-began)>>20)
	if most > began+16*bombBytes {
		t.Errorf("the heap has grown by %d MB", (most-began)>>20)
	}
}

// TestGarbledBatches: a batch that the broker took and nobody can decode is
// passed over like one that is too large. (Kafka and our own broker refuse
// these; kfake and others let them in.)
func TestGarbledBatches(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a")
	w.AwaitOwners()
	due := w.Tail(w.Names.Due("default"))
	garbage := bytes.Repeat([]byte{0x5a}, 100)
	snappyOf2GiB := []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0x00}
	all := []struct {
		name, code string
		batch      []byte
	}{
		{"garbage as gzip", "invalid", rawbatch.Seal("gzip", 1, garbage)},
		{"garbage as snappy", "invalid", rawbatch.Seal("snappy", 1, garbage)},
		{"garbage as lz4", "invalid", rawbatch.Seal("lz4", 1, garbage)},
		{"garbage as zstd", "invalid", rawbatch.Seal("zstd", 1, garbage)},
		{"nothing", "invalid", rawbatch.Seal("none", 3, nil)},
		{"snappy that says it is 2 GiB", "too_large", rawbatch.Seal("snappy", 1, snappyOf2GiB)},
	}
	var want []string
	for i, c := range all {
		w.SendBatch(w.Names.Commands(), 0, c.batch)
		want = append(want, goodKey(w, i))
		w.SendTo(0, want[i], `{"op":"register","delay":"100ms"}`)
	}
	takeDue(t, due, want)
	refused, rejected := map[string]int{}, w.Tail(w.Names.Rejected())
	for _, r := range rejected.Take(len(all)) {
		refused[pipelinetest.Header(r, "wc-error-code")]++
		t.Log(pipelinetest.Header(r, "wc-error-detail"))
	}
	if refused["too_large"] != 1 || refused["invalid"] != len(all)-1 {
		t.Errorf("refused: %v", refused)
	}
	w.SendBatch(w.Names.Commands(), 0, rawbatch.Seal("none", 3, nil)) // the last there is
	rejected.Next()
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	w.Start("a")
	w.AwaitOwners()
	w.SendTo(0, goodKey(w, len(all)), `{"op":"register","delay":"100ms"}`)
	takeDue(t, due, []string{goodKey(w, len(all))})
	rejected.Quiet(100 * time.Millisecond) // the next owner has nothing to do with it
}

// TestBatchOfFewerRecords: kgo says nothing of a batch that holds fewer records
// than it claims. At the end of the log it would hold up all that is due.
func TestBatchOfFewerRecords(t *testing.T) {
	one := rawbatch.Spec{Codec: "none", Records: []rawbatch.Record{{Key: []byte("k"), Value: []byte("v")}}}.Batch()[61:]
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a")
	w.AwaitOwners()
	due, rejected := w.Tail(w.Names.Due("default")), w.Tail(w.Names.Rejected())
	for i, c := range []struct {
		name    string
		batch   []byte
		missing int64 // of three
	}{
		{"one of three", rawbatch.Seal("none", 3, one), 2},
		{"garbage", rawbatch.Seal("none", 3, bytes.Repeat([]byte{0x5a}, 100)), 3},
	} {
		w.SendTo(0, goodKey(w, i), `{"op":"register","delay":"1s"}`)
		at := w.SendBatch(w.Names.Commands(), 0, c.batch)
		takeDue(t, due, []string{goodKey(w, i)})
		for {
			r := rejected.Next()
			if pipelinetest.Header(r, "wc-error-last-offset") == "" {
				continue // the one that could be read, and is no command
			}
			if from := pipelinetest.Header(r, "wc-source"); from != topics.Source(w.Names.Commands(), 0,
				at+3-c.missing) {
				t.Errorf("%s: refused from %s on", c.name, from)
			}
			break
		}
	}
}

// TestDamagedBatch: a batch whose checksum is wrong is fetched again for a
// while. If it is whole then, nothing was lost; if not, it is passed over.
func TestDamagedBatch(t *testing.T) {
	for _, heals := range []bool{true, false} {
		t.Run(fmt.Sprint("heals ", heals), func(t *testing.T) {
			w := pipelinetest.New(t, pipelinetest.Options{})
			var whole atomic.Bool
			dialer := &net.Dialer{}
			w.Start("a", func(o *pipeline.Options) {
				o.Kafka = append(o.Kafka, kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
					c, err := dialer.DialContext(ctx, network, host)
					return damagingConn{c, &whole}, err
				}))
				pipeline.DamagedFor(o, map[bool]time.Duration{true: time.Hour, false: 2 * time.Second}[heals])
			})
			w.AwaitOwners()
			due := w.Tail(w.Names.Due("default"))
			key := goodKey(w, 0)
			at := w.SendTo(0, key, `{"op":"register","delay":"1ms","payload":"damage me"}`).Offset
			w.SendTo(0, goodKey(w, 1), `{"op":"register","delay":"1ms"}`)
			if heals {
				time.Sleep(2 * time.Second)
				whole.Store(true)
				takeDue(t, due, []string{key, goodKey(w, 1)})
				return
			}
			takeDue(t, due, []string{goodKey(w, 1)})
			r := w.Tail(w.Names.Rejected()).Next()
			if detail := pipelinetest.Header(r, "wc-error-detail"); pipelinetest.Header(r,
				"wc-source") != topics.Source(w.Names.Commands(), 0, at) || !strings.Contains(detail, "checksum") {
				t.Errorf("refused: %s", detail)
			}
		})
	}
}

// damagingConn changes what it reads of one record, until it is whole.
type damagingConn struct {
	net.Conn
	whole *atomic.Bool
}

func (c damagingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if i := bytes.Index(p[:n], []byte("damage me")); i >= 0 && !c.whole.Load() {
		p[i] = 'D'
	}
	return n, err
}
