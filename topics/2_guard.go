package topics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waterclock/waterclock/trigger"
)

// KeyGuard is the key of the guard record.
var KeyGuard = []byte("\x00guard")

// Guard is a record on topic state. From it the next owner learns whether the logs are still
// those that this owner has read, and who owned the partition. It is written before the
// progress record of a turn, if something in it has changed.
//
// It only adds checks. A version that does not know the record, or a field of it, ignores
// that. So it can be written before every member of the group knows it.
type Guard struct {
	Seq   int64  // the turn it was written in
	Group string // consumer group of the owner

	Commands LastRead
	Receipts LastRead

	ReceiptsID [16]byte // topic ids
	ControlID  [16]byte

	Applied map[int32]AppliedOrigin // for each entry of Progress.Applied, with the same keys
}

// AppliedOrigin says where and when a record was first appended: the last command or receipt
// applied here that another partition forwarded.
type AppliedOrigin struct {
	Offset int64
	Append trigger.Instant
}

// LastRead is the last record read from an input. The zero value means none.
type LastRead struct {
	Offset int64
	Epoch  int32  // leader epoch of its batch; -1 if the broker has none
	Sum    uint64 // of key, value and append time

	Behind Marker // the last one read after it; the zero value means none
}

// Marker is the place of a transaction marker.
type Marker struct {
	Offset int64
	Epoch  int32 // as LastRead.Epoch
}

// Through is the last offset that was read, and its leader epoch.
func (r *LastRead) Through() (offset int64, epoch int32) {
	if r.Behind.Offset > r.Offset {
		return r.Behind.Offset, r.Behind.Epoch
	}
	return r.Offset, r.Epoch
}

// AppendGuard appends the value of the guard record.
func AppendGuard(b []byte, g *Guard) ([]byte, error) {
	w := wire{b: b}
	w.int(1, g.Seq)
	w.str(2, g.Group)
	w.lastRead(3, g.Commands)
	w.lastRead(4, g.Receipts)
	w.id(5, g.ReceiptsID)
	w.id(6, g.ControlID)
	for _, p := range slices.Sorted(maps.Keys(g.Applied)) {
		mark := w.open(7)
		w.int(1, int64(p))
		w.int(2, g.Applied[p].Offset)
		w.int(3, int64(g.Applied[p].Append))
		w.close(mark)
	}
	if w.err != nil {
		return b, fmt.Errorf("encode guard: %w", w.err)
	}
	return w.b, nil
}

func (w *wire) lastRead(n protowire.Number, r LastRead) {
	if r == (LastRead{}) {
		return
	}
	mark := w.open(n)
	w.int(1, r.Offset)
	w.int(2, int64(r.Epoch))
	if r.Sum != 0 {
		w.b = protowire.AppendFixed64(protowire.AppendTag(w.b, 3, protowire.Fixed64Type), r.Sum)
	}
	w.int(4, r.Behind.Offset)
	w.int(5, int64(r.Behind.Epoch))
	w.close(mark)
}

// DecodeGuard reads what AppendGuard wrote. It ignores unknown fields.
func DecodeGuard(b []byte) (*Guard, error) {
	g := new(Guard)
	err := fields(bytes.Clone(b), func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			g.Seq = int64(fv.v)
		case data | 2:
			return fv.text(&g.Group)
		case data | 3:
			return decodeLastRead(fv.p, &g.Commands)
		case data | 4:
			return decodeLastRead(fv.p, &g.Receipts)
		case data | 5:
			return fv.id(&g.ReceiptsID)
		case data | 6:
			return fv.id(&g.ControlID)
		case data | 7:
			return decodeApplied(fv.p, &g.Applied)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode guard: %w", err)
	}
	return g, nil
}

func decodeApplied(b []byte, to *map[int32]AppliedOrigin) error {
	var partition int32
	var at AppliedOrigin
	err := fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			partition = int32(fv.v)
		case number | 2:
			at.Offset = int64(fv.v)
		case number | 3:
			at.Append = trigger.Instant(fv.v)
		}
		return nil
	})
	if *to == nil {
		*to = map[int32]AppliedOrigin{}
	}
	(*to)[partition] = at
	return err
}

func decodeLastRead(b []byte, r *LastRead) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			r.Offset = int64(fv.v)
		case number | 2:
			r.Epoch = int32(fv.v)
		case fixed64 | 3:
			r.Sum = fv.v
		case number | 4:
			r.Behind.Offset = int64(fv.v)
		case number | 5:
			r.Behind.Epoch = int32(fv.v)
		}
		return nil
	})
}
