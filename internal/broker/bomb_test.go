package broker

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/internal/rawbatch"
)

// TestBombs: a batch that would take the memory of the process is refused as
// too large, by memory that does not grow with it; one that fits is taken.
func TestBombs(t *testing.T) {
	b := start(t, "")
	create(t, b, "a", 1, "cleanup.policy", "delete", "max.message.bytes", "16777216")
	for _, codec := range rawbatch.Codecs[1:] {
		for _, part := range rawbatch.Parts {
			for _, zeros := range []int64{16 << 20, 1<<31 - 1<<20} {
				name := fmt.Sprintf("%s of %d in %s", part, zeros, codec)
				if codec == "snappy" {
					zeros = min(zeros, 256<<20) // 1 MiB holds no more than 22
				}
				raw := rawbatch.Spec{Codec: codec, Records: []rawbatch.Record{{
					Key: []byte("k"), Value: []byte("v"),
					Large: part, Zeros: zeros,
				}}}.Batch()
				var got error
				peak := peakOf(func() { got = kerr.ErrorForCode(produceRaw(t, b, "a", 0, batch(raw)).ErrorCode) })
				switch fits := zeros < maxDecompressed; {
				case fits && got != nil:
					t.Errorf("%s: %v", name, got)
				case !fits && !errors.Is(got, kerr.MessageTooLarge):
					t.Errorf("%s: %v, want MESSAGE_TOO_LARGE", name, got)
				}
				if peak > 4*maxDecompressed {
					t.Errorf("%s: %d MB of heap", name, peak>>20)
				}
			}
		}
	}
}

// peakOf is how much the heap grows while f runs.
func peakOf(f func()) uint64 {
	debug.FreeOSMemory()
	began := heapBytes()
	peak, done := began, make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		peak = max(peak, heapBytes())
		select {
		case <-done:
			return peak - began
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestCompactionPassesOverBombs: one that an older version let in stays as it
// is, and no start fails for it.
func TestCompactionPassesOverBombs(t *testing.T) {
	raw := batch(rawbatch.Spec{Codec: "zstd", Records: []rawbatch.Record{{
		Key: []byte("bomb"), Large: "value",
		Zeros: 1 << 30,
	}}}.Batch())
	if err := kept(eachRecord(raw, func(record) { t.Error("it was read") })); err != nil {
		t.Errorf("survey: %v", err)
	}
	if out, err := new(cleaner).clean(raw); err != nil || !bytes.Equal(out, raw) {
		t.Errorf("clean: %d bytes, %v", len(out), err)
	}
}
