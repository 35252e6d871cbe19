package statestore

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
)

// manifestOf writes records in the format of Pebble's manifest, and returns the end of each.
func manifestOf(t testing.TB, records ...[]byte) (b []byte, ends []int) {
	t.Helper()
	var buf bytes.Buffer
	w := record.NewWriter(&buf)
	for _, r := range records {
		if _, err := w.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, buf.Len())
	}
	return buf.Bytes(), ends
}

// TestDamagedChunk flips every bit of a manifest and cuts it at every byte. A flipped bit must
// count as damage. A cut must not, because a crash leaves one.
func TestDamagedChunk(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
	}{
		{"small records", []int{30, 100, 1, 250}},
		{"one block and a bit", []int{500, chunkBlock - 700, 300, 20}},
		{"the rest of a block too short", []int{chunkBlock - chunkHeader - 3, 50}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var records [][]byte
			for i, n := range c.sizes {
				records = append(records, bytes.Repeat([]byte{byte(i + 1), 0, 0xff}, n)[:n])
			}
			b, _ := manifestOf(t, records...)
			if at := damagedChunk(b); at >= 0 {
				t.Fatalf("damaged at %d before any bit is flipped", at)
			}
			for i := 0; i < len(b); i += 1 + len(b)/3000 {
				if i >= chunkBlock-3 && i < chunkBlock && c.name == "the rest of a block too short" {
					continue // filler that is never read
				}
				b[i] ^= 1 << (i % 8)
				if damagedChunk(b) < 0 {
					t.Errorf("bit %d of byte %d of %d is flipped: not found", i%8, i, len(b))
				}
				b[i] ^= 1 << (i % 8)
				if at := damagedChunk(b[:i]); at >= 0 {
					t.Errorf("cut at %d of %d: called damaged at %d", i, len(b), at)
				}
			}
			if at := damagedChunk(append(b[:len(b):len(b)], make([]byte, 100)...)); at >= 0 {
				t.Errorf("zeros at the end: called damaged at %d", at)
			}
		})
	}
}

func FuzzDamagedChunk(f *testing.F) {
	b, _ := manifestOf(f, []byte("one"), []byte("two"))
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		if at := damagedChunk(b); at >= len(b) && at >= 0 {
			t.Errorf("damaged at %d of %d", at, len(b))
		}
		if at := falseTrailer(b, 16); at >= len(b) && at >= 0 {
			t.Errorf("false trailer at %d of %d", at, len(b))
		}
	})
}

func TestFalseTrailer(t *testing.T) {
	chunk := func(number byte, length byte) []byte {
		b := []byte{1, 2, 3, 4, length, 0, 9, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		return append(b, make([]byte, length)...)
	}
	trailer := []byte{0, 0, 0, 0, 0, 0, 5, 17, 0, 0, 0}
	for _, c := range []struct {
		name string
		log  []byte
		want int
	}{
		{"closed", append(chunk(16, 5), trailer...), -1},
		{"not closed", chunk(16, 5), -1},
		{"recycled", append(chunk(16, 5), chunk(9, 5)...), -1},
		{"flipped at once", chunk(17, 5), 0},
		{"flipped later", append(chunk(16, 5), chunk(17, 5)...), 24},
		{"empty", nil, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := falseTrailer(c.log, 16); got != c.want {
				t.Errorf("falseTrailer = %d, want %d", got, c.want)
			}
		})
	}
}
