package topics

import (
	"errors"
	"fmt"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrNewer says that a record of topic state was written by a newer version: it has a format,
// a field or an enum value that this one does not know. Start that version again.
var ErrNewer = errors.New("written by a newer version")

// errUTF8 is the error that the generated code would give, too.
var errUTF8 = errors.New("a string is not UTF-8")

// wire appends protobuf fields in the order of their numbers and leaves out zero values. The
// bytes are those of the generated code.
type wire struct {
	b      []byte
	err    error // first string that is not UTF-8
	format Format
}

func (w *wire) int(n protowire.Number, v int64) {
	if v != 0 {
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, n, protowire.VarintType), uint64(v))
	}
}

func (w *wire) bool(n protowire.Number, v bool) {
	if v {
		w.int(n, 1)
	}
}

func (w *wire) str(n protowire.Number, s string) {
	if s != "" {
		w.item(n, s)
	}
}

// item is str for elements of lists, where the empty string counts.
func (w *wire) item(n protowire.Number, s string) {
	if !utf8.ValidString(s) && w.err == nil {
		w.err = fmt.Errorf("field %d: %w", n, errUTF8)
	}
	w.b = protowire.AppendString(protowire.AppendTag(w.b, n, protowire.BytesType), s)
}

func (w *wire) strs(n protowire.Number, list []string) {
	for _, s := range list {
		w.item(n, s)
	}
}

func (w *wire) bytes(n protowire.Number, p []byte) {
	if len(p) > 0 {
		w.b = protowire.AppendBytes(protowire.AppendTag(w.b, n, protowire.BytesType), p)
	}
}

// id is a hash or topic id, absent when zero.
func (w *wire) id(n protowire.Number, id [16]byte) {
	if id != [16]byte{} {
		w.bytes(n, id[:])
	}
}

// open begins a message field and leaves one byte for its length; close needs
// the mark it returns.
func (w *wire) open(n protowire.Number) (mark int) {
	w.b = append(protowire.AppendTag(w.b, n, protowire.BytesType), 0)
	return len(w.b)
}

// close writes the length of what was appended since open, moving it if the
// length takes more than the one byte left for it.
func (w *wire) close(mark int) {
	n := len(w.b) - mark
	if extra := protowire.SizeVarint(uint64(n)) - 1; extra > 0 {
		w.b = append(w.b, make([]byte, extra)...)
		copy(w.b[mark+extra:], w.b[mark:mark+n])
	}
	protowire.AppendVarint(w.b[:mark-1], uint64(n))
}

// closeUnlessEmpty closes a message field. If the message is empty, it removes the field,
// whose tag begins at start.
func (w *wire) closeUnlessEmpty(start, mark int) {
	if len(w.b) == mark {
		w.b = w.b[:start]
		return
	}
	w.close(mark)
}

// fieldValue is one field as it was read: v for numbers, p for the rest.
type fieldValue struct {
	num protowire.Number
	typ protowire.Type
	v   uint64
	p   []byte
}

// fields calls f for every field of a message, in the order they stand.
func fields(b []byte, f func(fieldValue) error) error {
	for len(b) > 0 {
		fv, n := readField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(fv); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func readField(b []byte) (fv fieldValue, n int) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return fv, n
	}
	fv.num, fv.typ = num, typ
	var m int
	switch typ {
	case protowire.VarintType:
		fv.v, m = protowire.ConsumeVarint(b[n:])
	case protowire.Fixed64Type:
		fv.v, m = protowire.ConsumeFixed64(b[n:])
	case protowire.BytesType:
		fv.p, m = protowire.ConsumeBytes(b[n:])
	default:
		return fv, protowire.ConsumeFieldValue(num, typ, b[n:]) + n
	}
	if m < 0 {
		return fv, m
	}
	return fv, n + m
}

// number and data, joined with a field's number, let one switch tell fields
// by number and wire type at once.
const (
	number  = protowire.Number(protowire.VarintType) << 29
	fixed64 = protowire.Number(protowire.Fixed64Type) << 29
	data    = protowire.Number(protowire.BytesType) << 29
)

func (fv fieldValue) key() protowire.Number { return fv.num | protowire.Number(fv.typ)<<29 }

// unknown refuses a field this version does not know, or knows by another
// type.
func (fv fieldValue) unknown(message string) error {
	return fmt.Errorf("%s has field %d of wire type %d: %w", message, fv.num, fv.typ, ErrNewer)
}

// text is the field as a string that shares p's bytes; DecodeState owns them.
func (fv fieldValue) text(to *string) error {
	if !utf8.Valid(fv.p) {
		return fmt.Errorf("field %d: %w", fv.num, errUTF8)
	}
	*to = unsafe.String(unsafe.SliceData(fv.p), len(fv.p))
	return nil
}

func (fv fieldValue) texts(to *[]string) error {
	var s string
	err := fv.text(&s)
	*to = append(*to, s)
	return err
}

func (fv fieldValue) id(to *[16]byte) error {
	if len(fv.p) != len(to) {
		return fmt.Errorf("field %d has %d bytes, must have 16", fv.num, len(fv.p))
	}
	copy(to[:], fv.p)
	return nil
}

// enum is the field as an enum with values up to and including last.
func (fv fieldValue) enum(last uint64) (uint8, error) {
	if fv.v > last {
		return 0, fmt.Errorf("field %d has value %d: %w", fv.num, fv.v, ErrNewer)
	}
	return uint8(fv.v), nil
}
