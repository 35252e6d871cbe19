package main

import (
	"strings"
	"testing"
)

// A benchmark of nothing, or of more than there can be, is refused before
// anything is started.
func TestBenchBounds(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{"bench --triggers 0", "--triggers 0: write 1 to 100000000"},
		{"bench --triggers -5", "--triggers -5: write 1 to"},
		{"bench --payload -1", "--payload -1: write 0 to 524288"},
		{"bench --payload 10000000", "--payload 10000000: write 0 to 524288"},
		{"bench --window -1s", "--window -1s: write 0s to 24h0m0s"},
		{"bench --rate -1", "--rate -1: write 0 to"},
		{"bench fairness --herd 0", "--herd 0: write 1 to"},
		{"bench fairness --probes 0", "--probes 0: write 1 to"},
		{"bench fairness --payload -1", "--payload -1: write 0 to"},
		{"bench http --for 0s", "--for 0s: write 1s to 1h0m0s"},
		{"bench http --connections 0", "--connections 0: write 1 to"},
		{"bench http --batches -1", "--batches -1: write 0 to"},
		{"bench http --rate 0", "--rate 0: write 1 to"},
		{"bench http --pending -1", "--pending -1: write 0 to"},
		{"bench http --payload 524289", "--payload 524289: write 0 to"},
		{"bench http --steady -1s", "--steady -1s: write 0s to"},
	} {
		t.Run(row.line, func(t *testing.T) { cli(t, nil, "", strings.Fields(row.line)...).want(t, exitUsage, row.want) })
	}
}

// A batch stays below what the API takes.
func TestBenchBatchLines(t *testing.T) {
	for payload, want := range map[int]int{200: 10_000, 8000: 8250, 512 << 10: 127} {
		b := &httpBench{o: benchHTTPOptions{payload: payload}}
		n := b.batchLines()
		if size := len(b.lines(n, "user")); size > 64<<20 || n < want-50 || n > want {
			t.Errorf("payload %d: %d lines in %d bytes, want about %d", payload, n, size, want)
		}
	}
}

// The pool of payloads does not grow with their size.
func TestBenchPayloads(t *testing.T) {
	for size, want := range map[int]int{0: 1024, 200: 1024, 64 << 10: 1024, 512 << 10: 128} {
		if got := benchPayloads(size); len(got) != want || len(got[0]) != size {
			t.Errorf("%d B: %d payloads of %d B, want %d", size, len(got), len(got[0]), want)
		}
	}
}
