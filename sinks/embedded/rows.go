package embedded

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// A row of table s or m consists of its cells, grouped by the event that wrote them:
//
//	row     ┌────┬───────┬───────┬───
//	        │ 02 │ group │ group │ …
//	        └────┴───────┴───────┴───
//
//	group   ┌────────────┬─────────┬────────────────┬────────────────────────┐
//	        │ event_us ± │ until ± │ fields uvarint │ their values, in order │
//	        └────────────┴─────────┴────────────────┴────────────────────────┘
//
// ± is a zigzag varint. fields has a bit for each field; the first has the lowest bit. A text is
// a uvarint length and its bytes, and a number is ±. Tags and eras are a uvarint count and their
// entries, sorted. Format 1 wrote JSON objects, which begin with '{'. They must stay readable.
const (
	rowGroups = 0x02
	rowJSON   = '{'
)

// row is a row that Pebble merges.
type row[T any] interface {
	*T
	Merge(*T)
}

// columns are a row's fields in the order of their bits, followed by its eras if it has them.
type columns struct {
	all  [16]column // an array, because a row is encoded for every event
	n    int
	eras *map[int]sinks.Cell[bool]
}

func (c *columns) cells() []column { return c.all[:c.n] }

func columnsOf(r any) columns {
	switch r := r.(type) {
	case *sinks.StateRow:
		return columns{[...]column{
			(*text)(&r.State), (*text)(&r.PreviousState), (*text)(&r.Type), (*text)(&r.Reason), (*number)(&r.Revision),
			(*number)(&r.Seq),
			(*instant)(&r.ScheduledAt), (*text)(&r.Occurrence), (*text)(&r.LocalTime), (*text)(&r.Timezone),
			(*text)(&r.Channel),
			(*text)(&r.UserID), (*text)(&r.CorrelationID), (*number)(&r.Attempt), (*tags)(&r.Tags),
			(*number)(&r.ErasedUS),
		}, 16, &r.Eras}
	case *sinks.MinuteRow:
		return columns{[16]column{
			(*text)(&r.State), (*text)(&r.Occurrence), (*text)(&r.Channel), (*text)(&r.UserID),
			(*number)(&r.FiredUS),
		}, 5, nil}
	}
	panic(fmt.Sprintf("history: %T is no row", r))
}

func encodeRow(r any) []byte { return appendRow(make([]byte, 0, 160), r) }

func appendRow(b []byte, r any) []byte {
	switch r.(type) {
	case *sinks.NotificationRow, *sinks.ContentRow:
		return appendJSON(b, r)
	}
	c := columnsOf(r)
	var eras []int
	if c.eras != nil {
		eras = sortedKeys(*c.eras)
	}
	b = append(b, rowGroups)
	for _, at := range c.stamps(eras) {
		b = c.appendGroup(b, at, eras)
	}
	return b
}

// decodeRow decodes the output of encodeRow, or format 1, into an empty row.
func decodeRow(b []byte, r any) error {
	if len(b) > 0 && b[0] == rowJSON {
		return json.Unmarshal(b, r, lenient, jsontext.AllowInvalidUTF8(true))
	}
	if len(b) == 0 || b[0] != rowGroups {
		return errValue
	}
	c := columnsOf(r)
	for b = b[1:]; len(b) > 0; {
		var ok bool
		if b, ok = c.takeGroup(b); !ok {
			return errValue
		}
	}
	return nil
}

// appendJSON encodes a row of table n or c. Only a few events write their fields.
func appendJSON(b []byte, r any) []byte {
	text, err := json.Marshal(r, json.Deterministic(true), lenient, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("history: encode %T: %v", r, err)) // only strings and numbers are encoded
	}
	return append(b, text...)
}

// stamp identifies the event that wrote a cell, and when the cell expires.
type stamp struct{ us, until int64 }

// stamps returns the stamps of all cells that were written, each once. eras are the keys of c.eras,
// sorted.
func (c *columns) stamps(eras []int) []stamp {
	all := make([]stamp, 0, 4)
	add := func(at stamp) {
		if at.us != 0 && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	for _, cell := range c.cells() {
		add(cell.stamp())
	}
	for _, era := range eras {
		add(eraStamp(*c.eras, era))
	}
	return all
}

func eraStamp(eras map[int]sinks.Cell[bool], era int) stamp {
	return stamp{eras[era].US, eras[era].Until}
}

func (c *columns) appendGroup(b []byte, at stamp, eras []int) []byte {
	bits := uint64(0)
	for i, cell := range c.cells() {
		if cell.stamp() == at {
			bits |= 1 << i
		}
	}
	same := 0 // eras with this stamp
	for _, era := range eras {
		if eraStamp(*c.eras, era) == at {
			same++
		}
	}
	if same > 0 {
		bits |= 1 << c.n
	}
	b = binary.AppendUvarint(binary.AppendVarint(binary.AppendVarint(b, at.us), at.until), bits)
	for i, cell := range c.cells() {
		if bits&(1<<i) != 0 {
			b = cell.appendTo(b)
		}
	}
	if same > 0 {
		b = binary.AppendUvarint(b, uint64(same))
	}
	for _, era := range eras {
		if eraStamp(*c.eras, era) == at {
			b = binary.AppendUvarint(b, uint64(era))
		}
	}
	return b
}

func (c *columns) takeGroup(b []byte) (rest []byte, ok bool) {
	var at stamp
	var bits uint64
	if at.us, b, ok = takeVarint(b); !ok {
		return nil, false
	}
	if at.until, b, ok = takeVarint(b); !ok {
		return nil, false
	}
	if bits, b, ok = takeUvarint(b); !ok {
		return nil, false
	}
	for i, cell := range c.cells() {
		if bits&(1<<i) == 0 {
			continue
		}
		if b, ok = cell.take(at, b); !ok {
			return nil, false
		}
	}
	switch bits >> c.n {
	case 0:
		return b, true
	case 1:
		return c.takeEras(at, b)
	}
	return nil, false // an unknown field
}

func (c *columns) takeEras(at stamp, b []byte) (rest []byte, ok bool) {
	n, b, ok := takeUvarint(b)
	if !ok || c.eras == nil || n > uint64(len(b)) {
		return nil, false
	}
	if *c.eras == nil {
		*c.eras = make(map[int]sinks.Cell[bool], n)
	}
	for range n {
		var era uint64
		if era, b, ok = takeUvarint(b); !ok {
			return nil, false
		}
		(*c.eras)[int(era)] = sinks.Cell[bool]{US: at.us, Until: at.until, V: true}
	}
	return b, true
}

func sortedKeys[K int | string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// column is one cell of a row.
type column interface {
	stamp() stamp
	appendTo(b []byte) []byte
	take(at stamp, b []byte) (rest []byte, ok bool)
}

type (
	text    sinks.Cell[string]
	number  sinks.Cell[int64]
	instant sinks.Cell[trigger.Instant]
	tags    sinks.Cell[map[string]string]
)

func (c *text) stamp() stamp    { return stamp{c.US, c.Until} }
func (c *number) stamp() stamp  { return stamp{c.US, c.Until} }
func (c *instant) stamp() stamp { return stamp{c.US, c.Until} }
func (c *tags) stamp() stamp    { return stamp{c.US, c.Until} }

func (c *text) appendTo(b []byte) []byte    { return appendString(b, c.V) }
func (c *number) appendTo(b []byte) []byte  { return binary.AppendVarint(b, c.V) }
func (c *instant) appendTo(b []byte) []byte { return binary.AppendVarint(b, int64(c.V)) }

func (c *tags) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(c.V)))
	for _, k := range sortedKeys(c.V) {
		b = appendString(appendString(b, k), c.V[k])
	}
	return b
}

func (c *text) take(at stamp, b []byte) (rest []byte, ok bool) {
	c.US, c.Until = at.us, at.until
	c.V, rest, ok = takeString(b)
	return rest, ok
}

func (c *number) take(at stamp, b []byte) (rest []byte, ok bool) {
	c.US, c.Until = at.us, at.until
	c.V, rest, ok = takeVarint(b)
	return rest, ok
}

func (c *instant) take(at stamp, b []byte) ([]byte, bool) {
	v, rest, ok := takeVarint(b)
	c.US, c.Until, c.V = at.us, at.until, trigger.Instant(v)
	return rest, ok
}

func (c *tags) take(at stamp, b []byte) ([]byte, bool) {
	n, b, ok := takeUvarint(b)
	if !ok || n > uint64(len(b)) {
		return nil, false
	}
	c.US, c.Until, c.V = at.us, at.until, make(map[string]string, n)
	for range n {
		var k, v string
		if k, b, ok = takeString(b); !ok {
			return nil, false
		}
		if v, b, ok = takeString(b); !ok {
			return nil, false
		}
		c.V[k] = v
	}
	return b, true
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func takeString(b []byte) (s string, rest []byte, ok bool) {
	n, b, ok := takeUvarint(b)
	if !ok || n > uint64(len(b)) {
		return "", nil, false
	}
	return string(b[:n]), b[n:], true
}

func takeVarint(b []byte) (v int64, rest []byte, ok bool) {
	v, n := binary.Varint(b)
	return v, b[max(n, 0):], n > 0
}

func takeUvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	return v, b[max(n, 0):], n > 0
}
