package loadtest

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A batch stays below the limits of the API.
func TestBenchBatchLines(t *testing.T) {
	for payload, want := range map[int]int{200: 10_000, 8000: 8250, 512 << 10: 127} {
		b := &httpRun{o: HTTPOptions{Payload: payload}}
		n := b.batchLines()
		if size := len(b.lines(n, "user")); size > 64<<20 || n < want-50 || n > want {
			t.Errorf("payload %d: %d lines in %d bytes, want about %d", payload, n, size, want)
		}
	}
}

// A compressor finds no redundancy across many payloads.
func TestBenchPayloads(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	for _, size := range []int{0, 1, 200, 4096, 512 << 10} {
		p := payloadsOf(size)
		var all []byte
		for i := 0; len(all) < 4<<20 && i < 100_000; i++ {
			if got := p.at(i); len(got) != size {
				t.Fatalf("%d B: payload %d has %d B", size, i, len(got))
			}
			all = append(all, p.at(i)...)
		}
		if size < 200 {
			continue // a few bytes are equal by chance
		}
		if small := len(enc.EncodeAll(all, nil)); small < len(all) {
			t.Errorf("%d B: %d bytes of payloads compress to %d", size, len(all), small)
		}
		if bytes.Equal(p.at(0), p.at(payloadPool-1)) {
			t.Errorf("%d B: two payloads are equal", size)
		}
	}
}
