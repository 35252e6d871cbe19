package decompress

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/rawbatch"
)

// records are those of a batch, compressed.
func records(t testing.TB, codec string, recs ...rawbatch.Record) []byte {
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(rawbatch.Spec{Codec: codec, Records: recs}.Batch()); err != nil {
		t.Fatal(err)
	}
	return rb.Records
}

func number(codec string) kgo.CompressionCodecType {
	for i, name := range rawbatch.Codecs {
		if name == codec {
			return kgo.CompressionCodecType(i)
		}
	}
	panic(codec)
}

// TestCodecs: every codec is read up to the bound and not beyond it, by the
// small way and the large one.
func TestCodecs(t *testing.T) {
	const most = 8 << 20
	b, err := New(most)
	if err != nil {
		t.Fatal(err)
	}
	for _, codec := range rawbatch.Codecs[1:] {
		for _, part := range rawbatch.Parts {
			for _, c := range []struct {
				zeros int64
				fits  bool
			}{
				{0, true},
				{1000, true},
				{1 << 20, true},
				{2 << 20, true},
				{most - 2000, true},
				{most, false},
				{most + 1, false},
				{64 << 20, false},
			} {
				src := records(t, codec, rawbatch.Record{
					Key: []byte("k"), Value: []byte("v"), Large: part,
					Zeros: c.zeros,
				})
				out, err := b.Decompress(src, number(codec))
				if c.fits && (err != nil || int64(len(out)) < c.zeros || int64(len(out)) > c.zeros+100) {
					t.Errorf("%s, %s of %d: %d bytes, %v", codec, part, c.zeros, len(out), err)
				}
				if !c.fits && !errors.Is(err, kgo.ErrMaxDecompress) {
					t.Errorf("%s, %s of %d: %d bytes, %v", codec, part, c.zeros, len(out), err)
				}
			}
		}
	}
}

// TestWindows: a zstd frame that does not say how long it is asks for a window, Java's
// for 2 MiB at the least. That is no reason to refuse what is in it.
func TestWindows(t *testing.T) {
	for _, most := range []int{4 << 20, DefaultBatch} {
		b, err := New(most)
		if err != nil {
			t.Fatal(err)
		}
		for size, fits := range map[int]bool{
			1 << 20: true, 2 << 20: true, 8 << 20: true, 32 << 20: most == DefaultBatch, 128 << 20: false,
		} {
			for _, n := range []int{100, 3 << 20} {
				out, err := b.Decompress(streamed(t, size, n), kgo.CodecZstd)
				if fits && (err != nil || len(out) != n) || !fits && !errors.Is(err, kgo.ErrMaxDecompress) {
					t.Errorf("window %d, batches of %d: %d bytes of %d, %v", size, most, len(out), n, err)
				}
			}
		}
	}
}

// streamed is a frame without the length of its content.
func streamed(t *testing.T, window, n int) []byte {
	var to bytes.Buffer
	e, err := zstd.NewWriter(&to, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
	if err == nil {
		_, err = e.Write(make([]byte, n/2))
	}
	if err == nil {
		err = e.Flush()
	}
	if err == nil {
		_, err = e.Write(make([]byte, n-n/2))
	}
	if err = errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// TestDecodedCounts: records and headers take far more than their bytes.
func TestDecodedCounts(t *testing.T) {
	b, err := New(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	tiny := make([]rawbatch.Record, 30_000)
	for i := range tiny {
		tiny[i].Key = []byte("k")
	}
	if src := records(t, "zstd", tiny...); len(src) > 1<<20 {
		t.Errorf("%d bytes", len(src))
	} else if _, err := b.Decompress(src, number("zstd")); !errors.Is(err, kgo.ErrMaxDecompress) {
		t.Errorf("30,000 records: %v", err)
	}
	many := rawbatch.Record{Headers: make([]kgo.RecordHeader, 200_000)}
	if _, err := b.Decompress(records(t, "gzip", many), number("gzip")); !errors.Is(err, kgo.ErrMaxDecompress) {
		t.Errorf("200,000 headers: %v", err)
	}
	if _, err := b.Decompress(records(t, "gzip", tiny[:1000]...), number("gzip")); err != nil {
		t.Errorf("1,000 records: %v", err)
	}
}

// TestFetch: batches that fit one by one do not fit together, and do again
// when what was fetched has been used.
func TestFetch(t *testing.T) {
	const most = 8 << 20
	b, err := New(most)
	if err != nil {
		t.Fatal(err)
	}
	r := b.Reader()
	r.pause = 0
	src := records(t, "zstd", rawbatch.Record{Large: "value", Zeros: 5 << 20})
	tiny := records(t, "zstd", rawbatch.Record{Large: "value", Zeros: 1000})
	read := func() error { _, err := r.Decompress(src, number("zstd")); return err }
	if err := read(); err != nil {
		t.Fatal(err)
	}
	if err := read(); !errors.Is(err, ErrLater) || errors.Is(err, kgo.ErrMaxDecompress) {
		t.Errorf("the second of one fetch: %v", err)
	}
	if _, err := r.Decompress(tiny, number("zstd")); !errors.Is(err, ErrLater) {
		t.Errorf("a tiny one behind them: %v", err)
	}
	r.End() // polled
	if err := read(); !errors.Is(err, ErrLater) {
		t.Errorf("fetched ahead: %v", err)
	}
	r.Begin()
	if err := read(); err != nil {
		t.Errorf("the next fetch: %v", err)
	}
	for i := range shares { // other clients
		other := b.Reader()
		other.pause = 0
		_, err := other.Decompress(src, number("zstd"))
		if room := (i+2)*5<<20 <= shares*most; room != (err == nil) {
			t.Errorf("client %d: %v", i, err)
		}
		defer other.Close()
	}
	r.Close()
	if b.held < 0 || b.held > shares*most {
		t.Errorf("%d bytes are held", b.held)
	}
}

// TestPeak: what decompresses to 2 GiB takes no more memory than the bound
// says, refused or read.
func TestPeak(t *testing.T) {
	b, err := New(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, codec := range []string{"gzip", "lz4", "zstd"} {
		for _, zeros := range []int64{DefaultBatch - 4096, 2 << 30} {
			t.Run(fmt.Sprintf("%s %d", codec, zeros), func(t *testing.T) {
				src := records(t, codec, rawbatch.Record{Key: []byte("k"), Large: "value", Zeros: zeros})
				before := heap(true)
				began, peak, done := time.Now(), uint64(0), make(chan struct{})
				go func() {
					defer close(done)
					out, err := b.Decompress(src, number(codec))
					if fits := zeros < DefaultBatch; fits != (err == nil) {
						t.Errorf("%d bytes, %v", len(out), err)
					}
				}()
				for over := false; !over; {
					select {
					case <-done:
						over = true
					case <-time.After(time.Millisecond):
					}
					peak = max(peak, heap(false))
				}
				t.Logf("%d KB on the wire, %d MB of heap, %v", len(src)>>10, (peak-before)>>20, time.Since(began))
				if peak > before+3*DefaultBatch {
					t.Errorf("%d MB of heap", (peak-before)>>20)
				}
			})
		}
	}
}

func heap(collected bool) uint64 {
	if collected {
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkDecoded(b *testing.B) {
	recs := make([]rawbatch.Record, 1000)
	for i := range recs {
		recs[i] = rawbatch.Record{
			Key: []byte("acme/k-000001"), Value: make([]byte, 300),
			Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}},
		}
	}
	src := records(b, "none", recs...)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		decoded(src)
	}
}
