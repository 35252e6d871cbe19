package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/decompress"
)

// bound is what a batch may decompress to. Kafka has no such bound; but it reads
// batches as they come out of the decompressor, and we all at once.
var bound = sync.OnceValues(func() (*decompress.Bound, error) { return decompress.New(maxDecompressed) })

// maxDecompressed is 32 times what a topic takes; no client fills a batch so.
const maxDecompressed = 32 << 20

var (
	errNullKey = errors.New("compacted topic cannot accept message without key")
	errRecord  = errors.New("record is malformed")

	errTooLarge = fmt.Errorf("the batch takes more than %d bytes decompressed", maxDecompressed)
)

// records returns the batch's records, decompressed.
func (b batch) records() ([]byte, error) {
	codec := b.codec()
	if codec == kgo.CodecNone {
		return b[batchHeader:], nil
	}
	bound, err := bound()
	if err != nil {
		return nil, err
	}
	raw, err := bound.Decompress(b[batchHeader:], codec)
	switch {
	case errors.Is(err, kgo.ErrMaxDecompress):
		return nil, errTooLarge
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	return raw, nil
}

func (b batch) codec() kgo.CompressionCodecType {
	return kgo.CompressionCodecType(b.attrs() & attrCodec)
}

// compressors has one for each codec, because a compressor of kgo chooses among those that it has. Zstd is at its
// quickest: clients wait while a start compacts.
var compressors = sync.OnceValues(func() (by map[kgo.CompressionCodecType]kgo.Compressor, err error) {
	by = map[kgo.CompressionCodecType]kgo.Compressor{}
	for codec, c := range map[kgo.CompressionCodecType]kgo.CompressionCodec{
		kgo.CodecGzip: kgo.GzipCompression(), kgo.CodecSnappy: kgo.SnappyCompression(),
		kgo.CodecLz4: kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression().WithLevel(1),
	} {
		var failed error
		by[codec], failed = kgo.DefaultCompressor(c)
		err = errors.Join(err, failed)
	}
	return by, err
})

// compressed returns records as a batch of a codec holds them. They stay plain if that is no larger.
func compressed(records []byte, codec kgo.CompressionCodecType) ([]byte, kgo.CompressionCodecType, error) {
	by, err := compressors()
	if by[codec] == nil || err != nil {
		return records, kgo.CodecNone, err
	}
	out, used := by[codec].Compress(new(bytes.Buffer), records)
	if used != codec || len(out) >= len(records) {
		return records, kgo.CodecNone, nil
	}
	return out, codec, nil
}

// check walks the records as Kafka's LogValidator does before it appends
// them: a batch that a consumer cannot decode would stop its partition. bad
// is the index of the record that err is about.
func (b batch) check(keyed bool) (bad int, err error) {
	raw, err := b.records()
	if err != nil {
		return 0, err
	}
	for i := range int(b.count()) {
		rec, rest, ok := nextRecord(raw)
		if !ok || int(rec.delta) != i {
			return i, errRecord
		}
		if keyed && rec.key == nil {
			return i, errNullKey
		}
		raw = rest
	}
	if len(raw) > 0 {
		return int(b.count()), errRecord
	}
	return 0, nil
}

// record is one record of a batch, aliasing its bytes.
type record struct {
	raw       []byte // all of it, with its length
	timeDelta int64
	delta     int32
	key       []byte // nil is null
	null      bool   // the value is
}

// nextRecord cuts the first record off raw:
//
//	length varint | attributes 1 | timestamp delta varint | offset delta varint
//	key | value | header count varint | (key | value)…
//
// where key and value are a varint length, -1 for null, and that many bytes.
func nextRecord(raw []byte) (rec record, rest []byte, ok bool) {
	n, w := binary.Varint(raw)
	if w <= 0 || n < 1 || n > int64(len(raw)-w) {
		return rec, nil, false
	}
	end := w + int(n)
	r := reader{src: raw[w+1 : end]}
	rec.raw = raw[:end:end]
	rec.timeDelta = r.varint()
	delta := r.varint()
	rec.delta = int32(delta)
	rec.key = r.bytes(true)
	rec.null = r.bytes(true) == nil
	headers := r.varint()
	r.bad = r.bad || headers < 0 || headers > int64(len(r.src))
	for ; headers > 0 && !r.bad; headers-- {
		r.bytes(false)
		r.bytes(true)
	}
	return rec, raw[end:], !r.bad && len(r.src) == 0 && delta == int64(rec.delta) && delta >= 0
}

// bytes takes a varint length and that many bytes. It returns nil for null, where null is allowed.
func (r *reader) bytes(nullable bool) []byte {
	n := r.varint()
	if n == -1 && nullable {
		return nil
	}
	if r.bad || n < 0 || n > int64(len(r.src)) {
		r.bad = true
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}
