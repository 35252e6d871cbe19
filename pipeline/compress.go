package pipeline

import (
	"bytes"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/topics"
)

// compressor compresses batches of the topics events and state with zstd, and no others.
// Topic events is stored with zstd anyway, so a broker would compress them, and only members
// of the group read states. Both repeat names and times, so they shrink to two fifths. Due
// events and watermarks must be readable for clients without zstd.
//
// kgo does not say which topic a batch is for. Its first record tells it: due events, refused
// commands and dead letters have headers, and nothing else begins as events and states do.
type compressor struct{ zstd *zstd.Encoder } // nil: nothing is compressed

// compressWindow is how far back a record may refer to. It bounds the memory of the encoder,
// for each core about five times as much.
const compressWindow = 256 << 10

func newCompressor(o *Options) (compressor, error) {
	if o.Uncompressed {
		return compressor{}, nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(compressWindow),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)) // a batch has a checksum of its own
	return compressor{e}, err
}

// Compress returns nil for a batch that is not compressed. kgo keeps a batch as it is if it
// would not become smaller, as with the single record of an opening.
func (c compressor) Compress(dst *bytes.Buffer, src []byte, flags ...kgo.CompressFlag) (
	[]byte, kgo.CompressionCodecType,
) {
	if c.zstd == nil {
		return nil, kgo.CodecNone
	}
	value, headers, ok := decompress.First(src)
	if !ok || headers != 0 || !topics.IsEvent(value) && !topics.IsState(value) ||
		slices.Contains(flags, kgo.CompressDisableZstd) {
		return nil, kgo.CodecNone
	}
	dst.Grow(len(src) / 2)
	return c.zstd.EncodeAll(src, dst.AvailableBuffer()), kgo.CodecZstd
}
