package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The format of a dump file, version 1 (docs/formats/dump.md):
//
//	file   = magic, version, topic, partition, frame, frame, …
//	frame  = length of body (uvarint), body, CRC-32C of body (4 bytes, little-endian)
//
// A file only grows at its end. So a file that was cut off anywhere is valid up to its last whole
// frame.
const (
	magic         = "waterclock dump\n"
	formatVersion = 1
	maxFrame      = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// knownHeaders are encoded as their number. Numbers are never reused. New names are added at the
// end and need no new version.
var knownHeaders = []string{
	1: "ce_specversion", 2: "ce_id", 3: "ce_source", 4: "ce_type", 5: "ce_subject",
	6: "ce_time",
	7: "ce_wcfired", 8: "ce_wcrevision", 9: "ce_wcattempt", 10: "ce_wcstep", 11: "ce_wclocaltime", 12: "ce_wcuser",
	13: "ce_expirytime", 14: "ce_wcreceiptby", 15: "ce_wcpostponed", 16: "ce_wcbasis", 17: "content-type",
	18: "traceparent",
	19: "wcx-callback", 20: "wcx-tags", 21: "wcx-topic-id", 22: "wcx-origin", 23: "wcx-append", 24: "wc-error-code",
	25: "wc-error-detail", 26: "wc-error-field", 27: "wc-source", 28: "wc-delay", 29: "wc-fire-at", 30: "wc-timezone",
	31: "wc-recurrence", 32: "wc-op", 33: "wc-channel", 34: "wc-user-id",
}

var headerNumber = func() map[string]uint64 {
	m := map[string]uint64{}
	for i, name := range knownHeaders {
		if name != "" {
			m[name] = uint64(i)
		}
	}
	return m
}()

const (
	flagKind      = 0b11
	flagNullKey   = 1 << 2
	flagNullValue = 1 << 3
	flagProducer  = 1 << 4
	flagHeaders   = 1 << 5
	flagAll       = flagKind | flagNullKey | flagNullValue | flagProducer | flagHeaders
)

// appendPreamble appends the beginning of a file.
func appendPreamble(b []byte, topic string, partition int32) []byte {
	b = append(append(b, magic...), formatVersion)
	b = appendBytes(b, []byte(topic))
	return binary.AppendUvarint(b, uint64(partition))
}

// AppendFrame appends a record in the format of a dump.
func AppendFrame(b []byte, r *Record) []byte {
	body := appendBody(nil, r)
	b = binary.AppendUvarint(b, uint64(len(body)))
	b = append(b, body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))
}

func appendBody(b []byte, r *Record) []byte {
	flags := byte(r.Kind) & flagKind
	if r.Key == nil {
		flags |= flagNullKey
	}
	if r.Value == nil {
		flags |= flagNullValue
	}
	if r.ProducerID >= 0 {
		flags |= flagProducer
	}
	if len(r.Headers) > 0 {
		flags |= flagHeaders
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(r.Offset))
	b = binary.AppendUvarint(b, uint64(r.Timestamp))
	if r.ProducerID >= 0 {
		b = binary.AppendUvarint(b, uint64(r.ProducerID))
		b = binary.AppendUvarint(b, uint64(uint16(r.Epoch)))
	}
	if r.Key != nil {
		b = appendBytes(b, r.Key)
	}
	if len(r.Headers) > 0 {
		b = appendHeaders(b, r.Headers)
	}
	return append(b, r.Value...)
}

func appendHeaders(b []byte, hs []Header) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs)))
	for _, h := range hs {
		n := headerNumber[h.Key]
		b = binary.AppendUvarint(b, n)
		if n == 0 {
			b = appendBytes(b, []byte(h.Key))
		}
		b = appendBytes(b, h.Value)
	}
	return b
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// errCut means that a file ends within a frame, because the write was interrupted.
var errCut = errors.New("the file ends within a record")

// frameAt returns the body of the frame at pos, and the position of the next one.
func frameAt(b []byte, pos int) (body []byte, next int, err error) {
	n, k := binary.Uvarint(b[pos:])
	if k <= 0 {
		if len(b)-pos < binary.MaxVarintLen64 {
			return nil, 0, errCut
		}
		return nil, 0, fmt.Errorf("byte %d: no length of a record", pos)
	}
	if n > maxFrame {
		return nil, 0, fmt.Errorf("byte %d: a record of %d bytes", pos, n)
	}
	begin, end := pos+k, pos+k+int(n)
	if end+4 > len(b) {
		return nil, 0, errCut
	}
	if crc32.Checksum(b[begin:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, 0, fmt.Errorf("byte %d: the record is damaged (its sum does not match)", pos)
	}
	return b[begin:end], end + 4, nil
}

// decodeBody decodes a frame's body into r, which then shares its bytes. It appends headers to
// r.Headers[:0].
func decodeBody(b []byte, r *Record) error {
	d := decoder{b: b}
	flags := d.byte()
	if flags&^byte(flagAll) != 0 {
		return fmt.Errorf("flags %#x are of a newer version", flags)
	}
	*r = Record{Kind: Kind(flags & flagKind), ProducerID: -1, Headers: r.Headers[:0]}
	r.Offset, r.Timestamp = int64(d.uvarint()), int64(d.uvarint())
	if flags&flagProducer != 0 {
		r.ProducerID, r.Epoch = int64(d.uvarint()), int16(d.uvarint())
	}
	if flags&flagNullKey == 0 {
		r.Key = d.bytes()
	}
	if flags&flagHeaders != 0 {
		d.headers(r)
	}
	if flags&flagNullValue == 0 {
		r.Value = d.b[:len(d.b):len(d.b)]
	}
	if d.bad || r.Offset < 0 {
		return errors.New("a record is cut short within")
	}
	return nil
}

// decoder reads from the front of b. Once bad is set, it stays set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	n, k := binary.Uvarint(d.b)
	if k <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[k:]
	return n
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return []byte{}
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) headers(r *Record) {
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		var h Header
		switch k := d.uvarint(); {
		case k == 0:
			h.Key = string(d.bytes())
		case k < uint64(len(knownHeaders)):
			h.Key = knownHeaders[k]
		default:
			d.bad = true
		}
		h.Value = d.bytes()
		r.Headers = append(r.Headers, h)
	}
}
