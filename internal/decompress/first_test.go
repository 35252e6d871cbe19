package decompress

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// record is one record of a batch, as kmsg writes it.
func record(value []byte, headers ...kmsg.Header) []byte {
	r := kmsg.NewRecord()
	r.Key, r.Value, r.Headers = []byte("key"), value, headers
	r.Length = int32(len(r.AppendTo(nil)) - 1) // without the byte of a length of 0
	return r.AppendTo(nil)
}

func TestFirst(t *testing.T) {
	long := bytes.Repeat([]byte("v"), 1000)
	for _, c := range []struct {
		name    string
		src     []byte
		value   []byte
		headers int64
		ok      bool
	}{
		{"no headers", record([]byte("value")), []byte("value"), 0, true},
		{"two records", append(record(long), record([]byte("second"))...), long, 0, true},
		{"headers", record([]byte("value"), kmsg.Header{Key: "a"}, kmsg.Header{Key: "b"}), []byte("value"), 2, true},
		{"a tombstone", record(nil), nil, 0, true},
		{"nothing", nil, nil, 0, false},
		{"cut short", record(long)[:500], nil, 0, false},
	} {
		value, headers, ok := First(c.src)
		if ok != c.ok || ok && (!bytes.Equal(value, c.value) || headers != c.headers) {
			t.Errorf("%s: %.20q, %d headers, %v", c.name, value, headers, ok)
		}
	}
}

func FuzzFirst(f *testing.F) {
	f.Add(record([]byte("value")))
	f.Add(record(nil, kmsg.Header{Key: "a"}))
	f.Fuzz(func(_ *testing.T, src []byte) { First(src) })
}
