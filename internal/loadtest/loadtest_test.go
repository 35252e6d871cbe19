package loadtest

import (
	"bytes"
	"slices"
	"testing"
	"time"

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

// Each tenth of a run has the median of the triggers that were due in it and were read.
func TestLateByTenth(t *testing.T) {
	b := &engineRun{o: EngineOptions{Triggers: 1000, Rate: 100}, firstDue: time.UnixMilli(0)}
	b.lastDue = b.firstDue.Add(b.atRate(b.o.Triggers))
	seen, late := make([]bool, b.o.Triggers), make([]int64, b.o.Triggers)
	var want []float64
	for i := range seen {
		seen[i], late[i] = i%10 != 5, int64(i/100*1000)
		if i%100 == 0 {
			want = append(want, float64(i/100))
		}
		if !seen[i] {
			late[i] = -1
		}
	}
	if got := b.byTenth(seen, late); !slices.Equal(got, want) {
		t.Errorf("medians %v, want %v", got, want)
	}
	if got := only(seen, late); len(got) != 900 || slices.Min(got) < 0 {
		t.Errorf("%d latenesses, at least %d; want those of the 900 that were seen", len(got), slices.Min(got))
	}
	b.lastDue = b.firstDue
	if got := b.byTenth(seen, late); got != nil {
		t.Errorf("medians %v of a run at one instant, want none", got)
	}
}
