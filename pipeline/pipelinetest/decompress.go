package pipelinetest

import (
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// decompressor is kgo's own, but for zstd. kgo's decoder of zstd makes a channel at its first
// use, in the bubble of a test then, and a finalizer closes it from outside, which ends the
// process.
type decompressor struct{ kgo.Decompressor }

var (
	others     = kgo.DefaultDecompressor()
	zstdReader = mustReader(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(1<<30)))
)

func mustReader(r *zstd.Decoder, err error) *zstd.Decoder {
	if err != nil {
		panic(err)
	}
	return r
}

func (d decompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecZstd {
		return zstdReader.DecodeAll(src, nil)
	}
	return d.Decompressor.Decompress(src, codec)
}
