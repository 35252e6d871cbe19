package broker

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// batch is one record batch of message format v2 as it stands in a request,
// a response or a segment: header and records, nothing copied.
//
//	 0 base offset 8      | 8 length 4           | 12 leader epoch 4
//	16 magic 1            | 17 crc-32c of 21… 4  | 21 attributes 2
//	23 last offset delta 4| 27 base timestamp 8  | 35 max timestamp 8
//	43 producer id 8      | 51 producer epoch 2  | 53 base sequence 4
//	57 record count 4     | 61 records
//
// All integers are big-endian (Kafka protocol, "Record Batch").
type batch []byte

const (
	batchHeader = 61
	batchPrefix = 12 // base offset and length, which the length does not count

	attrCodec      = 0x0007
	attrAppendTime = 0x0008 // timestamp type: consumers take the max timestamp for every record
	attrTxn        = 0x0010
	attrControl    = 0x0020
	// attrStamped is ours: the broker gave this batch its append time. It
	// stands only in segments; see stamp.
	attrStamped = 0x4000
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

var (
	errShort = errors.New("record batch is cut off")
	errMagic = errors.New("record batch is not of message format v2")
	errCRC   = errors.New("record batch fails its checksum")
)

// firstBatch cuts the first whole, valid batch off raw.
func firstBatch(raw []byte) (batch, error) {
	if len(raw) < batchHeader {
		return nil, errShort
	}
	n := binary.BigEndian.Uint32(raw[8:])
	if n < batchHeader-batchPrefix || uint64(n) > uint64(len(raw)-batchPrefix) {
		return nil, errShort
	}
	b := batch(raw[:batchPrefix+int(n)])
	if b[16] != 2 {
		return nil, errMagic
	}
	if b.crc() != b.sum() {
		return nil, errCRC
	}
	return b, nil
}

func (b batch) base() int64          { return int64(binary.BigEndian.Uint64(b)) }
func (b batch) leaderEpoch() int32   { return int32(binary.BigEndian.Uint32(b[12:])) }
func (b batch) crc() uint32          { return binary.BigEndian.Uint32(b[17:]) }
func (b batch) sum() uint32          { return crc32.Checksum(b[21:], crcTable) }
func (b batch) attrs() uint16        { return binary.BigEndian.Uint16(b[21:]) }
func (b batch) lastDelta() int32     { return int32(binary.BigEndian.Uint32(b[23:])) }
func (b batch) baseTime() int64      { return int64(binary.BigEndian.Uint64(b[27:])) }
func (b batch) maxTime() int64       { return int64(binary.BigEndian.Uint64(b[35:])) }
func (b batch) producerID() int64    { return int64(binary.BigEndian.Uint64(b[43:])) }
func (b batch) producerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[51:])) }
func (b batch) baseSeq() int32       { return int32(binary.BigEndian.Uint32(b[53:])) }
func (b batch) count() int32         { return int32(binary.BigEndian.Uint32(b[57:])) }
func (b batch) end() int64           { return b.base() + int64(b.lastDelta()) + 1 }
func (b batch) control() bool        { return b.attrs()&attrControl != 0 }
func (b batch) transactional() bool  { return b.attrs()&attrTxn != 0 && !b.control() }

func (b batch) setAttrs(a uint16) { binary.BigEndian.PutUint16(b[21:], a) }
func (b batch) reseal()           { binary.BigEndian.PutUint32(b[17:], b.sum()) }

// stamp gives the batch its append time, in Unix milliseconds. Records keep
// their own bytes, compressed or not: with the timestamp type bit set, every
// consumer takes the batch's max timestamp for all of its records.
//
// That bit cannot be set before kfake has the batch: kfake would then write
// its own time into the header and leave our checksum standing, and refuse
// the segment at the next start. So a segment says it by attrStamped, and
// publish turns that into the real bit on the way to a consumer.
func (b batch) stamp(ms int64) {
	binary.BigEndian.PutUint64(b[27:], uint64(ms))
	binary.BigEndian.PutUint64(b[35:], uint64(ms))
	b.setAttrs(b.attrs()&^attrAppendTime | attrStamped)
	b.reseal()
}

// unmark removes time bits a client has no business setting.
func (b batch) unmark() {
	if b.attrs()&(attrAppendTime|attrStamped) == 0 {
		return
	}
	b.setAttrs(b.attrs() &^ (attrAppendTime | attrStamped))
	b.reseal()
}

// publish makes every stamped batch in raw, the records of one fetched
// partition, read as Kafka's LogAppendTime. The last batch may be cut off.
func publish(raw []byte) {
	for len(raw) >= batchHeader {
		n := batchPrefix + int(binary.BigEndian.Uint32(raw[8:]))
		if n < batchHeader || n > len(raw) {
			return
		}
		if b := batch(raw[:n]); b.attrs()&attrStamped != 0 {
			b.setAttrs(b.attrs()&^attrStamped | attrAppendTime)
			b.reseal()
		}
		raw = raw[n:]
	}
}

// commits reports whether a control batch is a COMMIT marker. What cannot be
// read counts as an abort, as in kfake.
func (b batch) commits() bool {
	var rec kmsg.Record
	if rec.ReadFrom(b[batchHeader:]) != nil || len(rec.Key) < 4 {
		return false
	}
	return binary.BigEndian.Uint16(rec.Key[2:]) == uint16(kmsg.ControlRecordKeyTypeCommit)
}

// marker builds the control batch that ends a transaction (KIP-98).
func marker(offset int64, leaderEpoch int32, pid int64, epoch int16, commit bool, ms int64) batch {
	key := kmsg.ControlRecordKey{Type: kmsg.ControlRecordKeyTypeAbort}
	if commit {
		key.Type = kmsg.ControlRecordKeyTypeCommit
	}
	rec := kmsg.Record{Key: key.AppendTo(nil), Value: new(kmsg.EndTxnMarker).AppendTo(nil)}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	return seal(kmsg.RecordBatch{
		FirstOffset:          offset,
		PartitionLeaderEpoch: leaderEpoch,
		Attributes:           attrTxn | attrControl,
		FirstTimestamp:       ms,
		MaxTimestamp:         ms,
		ProducerID:           pid,
		ProducerEpoch:        epoch,
		FirstSequence:        -1,
		NumRecords:           1,
		Records:              rec.AppendTo(nil),
	})
}

// placeholder is a batch without records whose only meaning is that the next
// offset is end. Kafka's cleaner leaves such batches too.
func placeholder(end int64, leaderEpoch int32, ms int64) batch {
	return seal(kmsg.RecordBatch{
		FirstOffset:          end - 1,
		PartitionLeaderEpoch: leaderEpoch,
		FirstTimestamp:       ms,
		MaxTimestamp:         ms,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		FirstSequence:        -1,
	})
}

func seal(rb kmsg.RecordBatch) batch {
	rb.Magic = 2
	rb.Length = int32(batchHeader - batchPrefix + len(rb.Records))
	b := batch(rb.AppendTo(nil))
	b.reseal()
	return b
}
