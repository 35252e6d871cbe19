package decompress

import (
	"encoding/binary"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What a record and a header take as Go values, beside their bytes. A record
// of 7 bytes becomes one of 200, a header of 2 one of 40.
const (
	recordBytes = int(unsafe.Sizeof(kgo.Record{}) + unsafe.Sizeof((*kgo.Record)(nil)))
	headerBytes = int(unsafe.Sizeof(kgo.RecordHeader{}))
)

// decoded is what the records of a batch take as Go values. It looks at lengths
// alone, and stops where they make no sense: so will kgo.
//
//	length varint | attributes 1 | timestamp delta varint | offset delta varint
//	key | value | header count varint | (key | value)…
func decoded(b []byte) (takes int) {
	for len(b) > 0 {
		rec, rest, ok := cutBytes(b)
		if !ok || len(rec) < 1 {
			return takes
		}
		b, takes = rest, takes+recordBytes
		rec = rec[1:]
		for range 2 {
			if _, rec, ok = cutVarint(rec); !ok {
				return takes
			}
		}
		for range 2 {
			if _, rec, ok = cutBytes(rec); !ok {
				return takes
			}
		}
		headers, rest, ok := cutVarint(rec)
		if !ok {
			return takes
		}
		takes += headerBytes * int(max(0, min(headers, int64(len(rest))))) // each has a byte at least
	}
	return takes
}

// cutBytes cuts off what a varint gives the length of; -1 is null.
func cutBytes(b []byte) (cut, rest []byte, ok bool) {
	n, b, ok := cutVarint(b)
	switch {
	case !ok || n < -1 || n > int64(len(b)):
		return nil, nil, false
	case n == -1:
		return nil, b, true
	}
	return b[:n], b[n:], true
}

func cutVarint(b []byte) (n int64, rest []byte, ok bool) {
	n, w := binary.Varint(b)
	if w <= 0 {
		return 0, nil, false
	}
	return n, b[w:], true
}
