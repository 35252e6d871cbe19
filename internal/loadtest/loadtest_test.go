package loadtest

import (
	"testing"
)

// A batch stays below what the API takes.
func TestBenchBatchLines(t *testing.T) {
	for payload, want := range map[int]int{200: 10_000, 8000: 8250, 512 << 10: 127} {
		b := &httpRun{o: HTTPOptions{Payload: payload}}
		n := b.batchLines()
		if size := len(b.lines(n, "user")); size > 64<<20 || n < want-50 || n > want {
			t.Errorf("payload %d: %d lines in %d bytes, want about %d", payload, n, size, want)
		}
	}
}

// The pool of payloads does not grow with their size.
func TestBenchPayloads(t *testing.T) {
	for size, want := range map[int]int{0: 1024, 200: 1024, 64 << 10: 1024, 512 << 10: 128} {
		if got := payloadsOf(size); len(got) != want || len(got[0]) != size {
			t.Errorf("%d B: %d payloads of %d B, want %d", size, len(got), len(got[0]), want)
		}
	}
}
