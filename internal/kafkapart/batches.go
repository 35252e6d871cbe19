package kafkapart

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record batch header (KIP-98): offsets of the fields that are read here.
const (
	batchLength      = 8
	batchEpoch       = 12 // of the leader that appended it
	batchCRC         = 17 // it counts from the attributes on
	batchAttributes  = 21
	batchLastDelta   = 23
	batchMaxTime     = 35
	batchProducerID  = 43
	batchNumRecords  = 57
	batchHeader      = 61
	attrTransaction  = 0x10
	attrControl      = 0x20
	batchLengthStart = 12 // the length counts from here
)

// HiddenThrough is the end of the run of invisible batches at offset. A batch of
// a transaction is invisible from the first record of an aborted one of its
// producer up to the marker that ends it, as for every reader (KIP-98).
func HiddenThrough(p *kmsg.FetchResponseTopicPartition, offset int64) int64 {
	b := p.RecordBatches
	if len(b) < batchHeader {
		return max(offset, p.LastStableOffset) // nothing is left up to there
	}
	begins := abortedBegins(p)
	aborted := map[int64]bool{} // producers whose transaction at hand is
	next := offset
	for len(b) >= batchHeader {
		last := int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[batchLastDelta:]))
		for len(begins) > 0 && begins[0].FirstOffset <= last {
			aborted[begins[0].ProducerID] = true
			begins = begins[1:]
		}
		attributes := binary.BigEndian.Uint16(b[batchAttributes:])
		producer := int64(binary.BigEndian.Uint64(b[batchProducerID:]))
		switch {
		case attributes&attrControl != 0:
			delete(aborted, producer)
		case binary.BigEndian.Uint32(b[batchNumRecords:]) == 0: // compacted
		case attributes&attrTransaction == 0 || !aborted[producer]:
			return next
		}
		next = last + 1
		size := batchLengthStart + int(binary.BigEndian.Uint32(b[batchLength:]))
		if size > len(b) {
			return next
		}
		b = b[size:]
	}
	return next
}

// EndOfFirst is the offset behind the first batch of an answer, and whether it
// is a marker; ok is false without a batch.
func EndOfFirst(p *kmsg.FetchResponseTopicPartition) (end int64, control, ok bool) {
	if p == nil || len(p.RecordBatches) < batchHeader {
		return 0, false, false
	}
	b := p.RecordBatches
	end = int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[batchLastDelta:])) + 1
	return end, binary.BigEndian.Uint16(b[batchAttributes:])&attrControl != 0, true
}

// Batch is a record batch as it was fetched.
type Batch struct {
	Bytes  []byte
	Hidden bool // from who reads what is committed
}

// First is the offset of its first record.
func (b *Batch) First() int64 { return int64(binary.BigEndian.Uint64(b.Bytes)) }

// Last is the offset of its last record.
func (b *Batch) Last() int64 {
	return b.First() + int64(int32(binary.BigEndian.Uint32(b.Bytes[batchLastDelta:])))
}

// Count is how many records it claims to hold.
func (b *Batch) Count() int { return int(int32(binary.BigEndian.Uint32(b.Bytes[batchNumRecords:]))) }

// Codec is how it is compressed.
func (b *Batch) Codec() int { return int(b.attributes() & 7) }

// Damaged says that its checksum is wrong.
func (b *Batch) Damaged() bool {
	return crc32.Checksum(b.Bytes[batchAttributes:], castagnoli) != binary.BigEndian.Uint32(b.Bytes[batchCRC:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b *Batch) attributes() uint16 { return binary.BigEndian.Uint16(b.Bytes[batchAttributes:]) }

// Batches are the whole batches of an answer. As in HiddenThrough, one of a
// transaction is hidden from the first record of an aborted one of its producer
// up to the marker that ends it.
func Batches(p *kmsg.FetchResponseTopicPartition) func(func(*Batch) bool) {
	return func(yield func(*Batch) bool) {
		begins := abortedBegins(p)
		aborted := map[int64]bool{}
		for rest := p.RecordBatches; len(rest) >= batchHeader; {
			size := batchLengthStart + int(int32(binary.BigEndian.Uint32(rest[batchLength:])))
			if size < batchHeader || size > len(rest) {
				return // the answer ends within it
			}
			b := &Batch{Bytes: rest[:size]}
			rest = rest[size:]
			producer := int64(binary.BigEndian.Uint64(b.Bytes[batchProducerID:]))
			for len(begins) > 0 && begins[0].FirstOffset <= b.Last() {
				aborted[begins[0].ProducerID] = true
				begins = begins[1:]
			}
			switch {
			case b.attributes()&attrControl != 0:
				delete(aborted, producer)
				b.Hidden = true
			case b.Count() == 0: // compacted
				b.Hidden = true
			default:
				b.Hidden = b.attributes()&attrTransaction != 0 && aborted[producer]
			}
			if !yield(b) {
				return
			}
		}
	}
}

// abortedBegins are the aborted transactions of an answer in order.
func abortedBegins(p *kmsg.FetchResponseTopicPartition) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	return slices.SortedFunc(slices.Values(p.AbortedTransactions),
		func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
			return cmp.Compare(a.FirstOffset, b.FirstOffset)
		})
}
