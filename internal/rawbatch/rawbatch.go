// Package rawbatch writes record batches that no client would, for tests: what
// is large decompressed and small as it lies, what is damaged, what lies about
// itself. And it sends them as they are.
package rawbatch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Codecs are the compressions of Kafka, by their number in a batch's attributes.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Parts are what of a record can be large.
var Parts = []string{"key", "value", "header"}

// Spec is a batch.
type Spec struct {
	Codec   string
	Records []Record
}

// Record is one of a batch. Zeros more bytes of zero stand behind the part
// named; they are never held in memory.
type Record struct {
	Key, Value []byte
	Headers    []kgo.RecordHeader
	Large      string // of Parts
	Zeros      int64
}

// chunk is a part of a batch: bytes, or so many zeros.
type chunk struct {
	bytes []byte
	zeros int64
}

// Batch encodes a batch as a producer without an id sends it.
func (s Spec) Batch() []byte {
	var records []byte
	switch chunks := s.chunks(); s.Codec {
	case "none", "":
		records = plain(chunks)
	case "gzip":
		records = gzipped(chunks)
	case "snappy":
		records = xerial(chunks)
	case "lz4":
		records = lz4Frame(chunks)
	case "zstd":
		records = ZstdFrame(chunks...)
	}
	return Seal(s.Codec, len(s.Records), records)
}

// Seal is a batch around records that are compressed already, or only said to be.
func Seal(codec string, n int, records []byte) []byte {
	now := time.Now().UnixMilli()
	rb := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(n), Records: records,
	}
	for i, name := range Codecs {
		if name == codec {
			rb.Attributes = int16(i)
		}
	}
	rb.Length = int32(49 + len(records))
	b := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// chunks are the records; what is no zeros stands together.
func (s Spec) chunks() (out []chunk) {
	for i := range s.Records {
		for _, c := range s.Records[i].chunks(int64(i)) {
			if last := len(out) - 1; c.zeros == 0 && last >= 0 && out[last].zeros == 0 {
				out[last].bytes = append(out[last].bytes, c.bytes...)
			} else {
				out = append(out, c)
			}
		}
	}
	return out
}

func (r *Record) chunks(delta int64) []chunk {
	headers := r.Headers
	if r.Large == "header" {
		headers = append(headers[:len(headers):len(headers)], kgo.RecordHeader{Key: "large"})
	}
	w := recordWriter{r: r, head: binary.AppendVarint([]byte{0, 0}, delta)} // attributes, timestamp delta
	w.to = &w.head
	w.part("key", r.Key)
	w.part("value", r.Value)
	*w.to = binary.AppendVarint(*w.to, int64(len(headers)))
	for i, h := range headers {
		w.part("", []byte(h.Key))
		name := ""
		if i == len(headers)-1 {
			name = "header"
		}
		w.part(name, append([]byte{}, h.Value...))
	}
	length := binary.AppendVarint(nil, int64(len(w.head)+len(w.tail))+r.Zeros)
	head := chunk{bytes: append(length, w.head...)}
	if r.Zeros == 0 {
		return []chunk{head}
	}
	return []chunk{head, {zeros: r.Zeros}, {bytes: w.tail}}
}

// recordWriter writes what stands before the zeros of a record, and then what
// stands behind them.
type recordWriter struct {
	r          *Record
	head, tail []byte
	to         *[]byte
}

func (w *recordWriter) part(name string, b []byte) {
	large := w.r.Zeros > 0 && name == w.r.Large
	if b == nil && !large {
		*w.to = binary.AppendVarint(*w.to, -1)
		return
	}
	n := int64(len(b))
	if large {
		n += w.r.Zeros
	}
	*w.to = append(binary.AppendVarint(*w.to, n), b...)
	if large {
		w.to = &w.tail
	}
}

func plain(chunks []chunk) (out []byte) {
	for _, c := range chunks {
		out = append(append(out, c.bytes...), make([]byte, c.zeros)...)
	}
	return out
}

// member is how many zeros one gzip member, or one block, holds at most.
const member = 16 << 20

var zeroMember = sync.OnceValue(func() []byte { return gzipMember(make([]byte, member)) })

// gzipped is one member after another, which is a gzip stream as well: so
// gigabytes of zeros cost nothing to write.
func gzipped(chunks []chunk) (out []byte) {
	for _, c := range chunks {
		if len(c.bytes) > 0 {
			out = append(out, gzipMember(c.bytes)...)
		}
		for ; c.zeros >= member; c.zeros -= member {
			out = append(out, zeroMember()...)
		}
		if c.zeros > 0 {
			out = append(out, gzipMember(make([]byte, c.zeros))...)
		}
	}
	return out
}

func gzipMember(b []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write(b)
	_ = w.Close()
	return buf.Bytes()
}

// xerial is the framing of snappy that Kafka's Java client writes.
func xerial(chunks []chunk) []byte {
	out := []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	block := func(b []byte) {
		e := s2.EncodeSnappy(nil, b)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(e))), e...)
	}
	const size = 32 << 10
	zeros := make([]byte, size)
	for _, c := range chunks {
		for b := c.bytes; len(b) > 0; b = b[min(size, len(b)):] {
			block(b[:min(size, len(b))])
		}
		for ; c.zeros > 0; c.zeros -= min(size, c.zeros) {
			block(zeros[:min(size, c.zeros)])
		}
	}
	return out
}

func lz4Frame(chunks []chunk) []byte {
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	_ = w.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.BlockChecksumOption(false), lz4.ChecksumOption(false))
	zeros := make([]byte, 4<<20)
	for _, c := range chunks {
		_, _ = w.Write(c.bytes)
		for ; c.zeros > 0; c.zeros -= min(c.zeros, int64(len(zeros))) {
			_, _ = w.Write(zeros[:min(c.zeros, int64(len(zeros)))])
		}
	}
	_ = w.Close()
	return buf.Bytes()
}

// ZstdFrame is a frame that does not say how long it is, with a window of 128
// KiB: raw blocks, and for zeros blocks of one byte repeated (RFC 8878 §3.1.1).
func ZstdFrame(chunks ...chunk) []byte {
	const size = 128 << 10
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3}
	block := func(kind, n int, content ...byte) {
		h := n<<3 | kind<<1
		out = append(append(out, byte(h), byte(h>>8), byte(h>>16)), content...)
	}
	for _, c := range chunks {
		for b := c.bytes; len(b) > 0; b = b[min(size, len(b)):] {
			block(0, min(size, len(b)), b[:min(size, len(b))]...)
		}
		for ; c.zeros > 0; c.zeros -= min(size, c.zeros) {
			block(1, int(min(size, c.zeros)), 0)
		}
	}
	out = append(out, 1, 0, 0) // the last block, raw and empty
	return out
}

// Send appends a batch as it is, and returns its first offset.
func Send(ctx context.Context, cl *kgo.Client, topic string, partition int32, batch []byte) (int64, error) {
	meta, err := kadm.NewClient(cl).Metadata(ctx, topic)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, meta.Topics[topic].ID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, bytes.Clone(batch)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl.Broker(int(meta.Topics[topic].Partitions[partition].Leader)))
	if err != nil {
		return 0, err
	}
	at := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(at.ErrorCode); err != nil {
		why := ""
		if at.ErrorMessage != nil {
			why = *at.ErrorMessage
		}
		return 0, fmt.Errorf("%w: %s", err, why)
	}
	return at.BaseOffset, nil
}
