package pipeline

import (
	"bytes"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/topics"
)

// compressor compresses batches of topic events, and no others. Events are half of what a
// life takes on the wire, and shrink to a fifth; the topic is stored with zstd anyway, so a
// broker would compress them. Due events must be readable for clients without zstd, and
// states are small.
//
// kgo does not say which topic a batch is for. A batch of events is told by its first
// record: it has no headers, as a due event has, and begins as only an event does.
type compressor struct{ events *zstd.Encoder } // nil: nothing is compressed

// compressWindow is how far back an event may refer to. It bounds the memory of the encoder,
// for each core about five times as much.
const compressWindow = 256 << 10

func newCompressor(o *Options) (compressor, error) {
	if o.PlainEvents {
		return compressor{}, nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(compressWindow),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)) // a batch has a checksum of its own
	return compressor{e}, err
}

// Compress returns nil for a batch that is not compressed.
func (c compressor) Compress(dst *bytes.Buffer, src []byte, flags ...kgo.CompressFlag) (
	[]byte, kgo.CompressionCodecType,
) {
	if c.events == nil {
		return nil, kgo.CodecNone
	}
	value, headers, ok := decompress.First(src)
	if !ok || headers != 0 || !topics.IsEvent(value) || slices.Contains(flags, kgo.CompressDisableZstd) {
		return nil, kgo.CodecNone
	}
	dst.Grow(len(src) / 2)
	return c.events.EncodeAll(src, dst.AvailableBuffer()), kgo.CodecZstd
}
