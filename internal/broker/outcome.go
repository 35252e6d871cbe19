package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The outcome log holds what was decided about transactions before kfake
// carries it out partition by partition. docs/formats/broker.md draws it.

// outcomeMagic opens the file; its last byte is the version.
const outcomeMagic = "WCOUTCM\x01"

const (
	kindCommit  = 1
	kindAbort   = 2
	kindBegun   = 3
	kindAborted = 4

	frameHeader = 8
	maxFrame    = 16 << 20
)

// outcome is one entry. A commit is presumed: once it is on disk the
// transaction is committed, unless the next abort of the same producer and
// epoch, or kfake's own ABORT marker in one of its partitions, says no.
//
// Clients before KIP-890 keep their epoch, so a commit that is repeated looks as one of the
// next transaction. For them the log also has where a transaction began, and that kfake
// was to abort it.
type outcome struct {
	kind    byte
	pid     int64
	epoch   int16
	bumps   bool  // EndTxn v5 and up: kfake raises the epoch with it (KIP-890)
	at      int64 // Unix ms, when it was decided
	parts   []tail
	offsets []groupOffset

	void bool // an abort took it back; not in the file
}

// tail is where a partition's log ended when the outcome was decided. Data of
// the transaction lies before it, its marker behind.
type tail struct {
	topic     string
	partition int32
	base      int64 // base offset of the last segment
	size      int64 // its length in bytes
}

// groupOffset is a consumer group's offset that becomes valid with the commit.
type groupOffset struct {
	group       string
	topic       string
	partition   int32
	offset      int64
	leaderEpoch int32
	metadata    *string
}

func (g groupOffset) equal(h groupOffset) bool {
	same := (g.metadata == nil) == (h.metadata == nil) && (g.metadata == nil || *g.metadata == *h.metadata)
	g.metadata, h.metadata = nil, nil
	return same && g == h
}

type offsetKey struct {
	group, topic string
	partition    int32
}

// latestOffsets keeps the last one of each group and partition.
func latestOffsets(all []groupOffset) []groupOffset {
	var out []groupOffset
	at := map[offsetKey]int{}
	for _, g := range all {
		k := offsetKey{g.group, g.topic, g.partition}
		if i, ok := at[k]; ok {
			out[i] = g
			continue
		}
		at[k] = len(out)
		out = append(out, g)
	}
	return out
}

// appendTo appends o as one frame: length, checksum, body.
func (o outcome) appendTo(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, frameHeader)...)
	dst = o.appendBody(dst)
	body := dst[at+frameHeader:]
	binary.BigEndian.PutUint32(dst[at:], uint32(len(body)))
	binary.BigEndian.PutUint32(dst[at+4:], checksum(body))
	return dst
}

func checksum(body []byte) uint32 { return crc32.Checksum(body, crcTable) }

func (o outcome) appendBody(dst []byte) []byte {
	var flags byte
	if o.bumps {
		flags = 1
	}
	dst = append(dst, o.kind, flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.pid))
	dst = binary.BigEndian.AppendUint16(dst, uint16(o.epoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.at))
	dst = binary.AppendUvarint(dst, uint64(len(o.parts)))
	for _, t := range o.parts {
		dst = appendString(dst, t.topic)
		dst = binary.AppendUvarint(dst, uint64(t.partition))
		dst = binary.AppendUvarint(dst, uint64(t.base))
		dst = binary.AppendUvarint(dst, uint64(t.size))
	}
	dst = binary.AppendUvarint(dst, uint64(len(o.offsets)))
	for _, g := range o.offsets {
		dst = g.appendTo(dst)
	}
	return dst
}

func (g groupOffset) appendTo(dst []byte) []byte {
	dst = appendString(dst, g.group)
	dst = appendString(dst, g.topic)
	dst = binary.AppendUvarint(dst, uint64(g.partition))
	dst = binary.AppendVarint(dst, g.offset)
	dst = binary.AppendVarint(dst, int64(g.leaderEpoch))
	if g.metadata == nil {
		return append(dst, 0)
	}
	return appendString(append(dst, 1), *g.metadata)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

var (
	errOutcomeMagic = errors.New("not an outcome log of version 1")
	errOutcomeBody  = errors.New("outcome is malformed")
)

// readOutcomes decodes a whole outcome log. A frame that is cut off or fails
// its checksum ends it: that is a torn write, and nothing behind it was ever
// acted on. A sound frame that cannot be understood is an error.
func readOutcomes(raw []byte) (list []outcome, valid int, err error) {
	if len(raw) < len(outcomeMagic) {
		return nil, 0, nil // torn at birth
	}
	if string(raw[:len(outcomeMagic)]) != outcomeMagic {
		return nil, 0, errOutcomeMagic
	}
	valid = len(outcomeMagic)
	for {
		body := nextFrame(raw[valid:], checksum)
		if body == nil {
			return list, valid, nil
		}
		o, err := decodeOutcome(body)
		if err != nil {
			return list, valid, fmt.Errorf("at byte %d: %w", valid, err)
		}
		list = append(list, o)
		valid += frameHeader + len(body)
	}
}

// nextFrame returns nil where no whole frame with a good checksum stands.
func nextFrame(raw []byte, sum func([]byte) uint32) []byte {
	if len(raw) < frameHeader {
		return nil
	}
	n := binary.BigEndian.Uint32(raw)
	if n == 0 || n > maxFrame || uint64(n) > uint64(len(raw)-frameHeader) {
		return nil
	}
	body := raw[frameHeader : frameHeader+int(n)]
	if sum(body) != binary.BigEndian.Uint32(raw[4:]) {
		return nil
	}
	return body
}

func decodeOutcome(body []byte) (outcome, error) {
	r := reader{src: body}
	o := outcome{kind: r.byte()}
	o.bumps = r.byte()&1 != 0
	o.pid = int64(r.uint64())
	o.epoch = int16(r.uint16())
	o.at = int64(r.uint64())
	for n := r.count(4); n > 0; n-- {
		o.parts = append(o.parts, tail{r.string(), r.int32(), r.int64(), r.int64()})
	}
	for n := r.count(6); n > 0; n-- {
		o.offsets = append(o.offsets, r.groupOffset())
	}
	if r.bad || len(r.src) > 0 || o.kind < kindCommit || o.kind > kindAborted {
		return outcome{}, errOutcomeBody
	}
	return o, nil
}

// reader takes fields off src; after the first that is not there, all are zero.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.src) {
		r.bad = true
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.src)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) bounded(max uint64) uint64 {
	v := r.uvarint()
	if v > max {
		r.bad = true
		return 0
	}
	return v
}

func (r *reader) int32() int32 { return int32(r.bounded(math.MaxInt32)) }
func (r *reader) int64() int64 { return int64(r.bounded(math.MaxInt64)) }

// count is how many items follow, each of at least size bytes.
func (r *reader) count(size int) int { return int(r.bounded(uint64(len(r.src) / size))) }

func (r *reader) string() string {
	n := int(r.bounded(uint64(len(r.src))))
	if r.bad {
		return ""
	}
	return string(r.take(n))
}

func (r *reader) groupOffset() groupOffset {
	g := groupOffset{group: r.string(), topic: r.string(), partition: r.int32(), offset: r.varint()}
	epoch := r.varint()
	if epoch < math.MinInt32 || epoch > math.MaxInt32 {
		r.bad = true
	}
	g.leaderEpoch = int32(epoch)
	switch r.byte() {
	case 0:
	case 1:
		s := r.string()
		g.metadata = &s
	default:
		r.bad = true
	}
	return g
}
