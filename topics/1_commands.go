package topics

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/waterclock/waterclock/trigger"
)

// Limits are the bounds that settings can change. The zero value means the defaults.
type Limits struct {
	// Payload bounds the payload in bytes, after decoding. The setting is limits.payload. 0
	// means 4 KiB; at most 512 KiB.
	Payload int

	// Headers bounds the user's headers in number; 0 means 64, at most 1,000.
	Headers int

	// HeaderBytes bounds their names and values together; 0 means 16 KiB,
	// at most 64 KiB.
	HeaderBytes int

	// Depth bounds how deep a field, such as the payload, may nest in the JSON spelling; 0
	// means 128, at most 1,000. Deeper values break readers that parse by recursion.
	Depth int
}

// MaxPayload is the most that Limits.Payload may be.
const MaxPayload = 512 << 10

func (l Limits) withDefaults() Limits {
	if l.Payload == 0 {
		l.Payload = 4 << 10
	}
	if l.Headers == 0 {
		l.Headers = 64
	}
	if l.HeaderBytes == 0 {
		l.HeaderBytes = 16 << 10
	}
	if l.Depth == 0 {
		l.Depth = 128
	}
	return l
}

// Validate names every limit that is out of bounds.
func (l Limits) Validate() error {
	var errs []error
	check := func(name string, v, most int) {
		if v < 0 || v > most {
			errs = append(errs, fmt.Errorf("limits.%s is %d: give 0 for the default, or at most %d", name, v, most))
		}
	}
	check("payload", l.Payload, MaxPayload)
	check("headers", l.Headers, 1000)
	check("header_bytes", l.HeaderBytes, 64<<10)
	check("depth", l.Depth, 1000)
	return errors.Join(errs...)
}

// DecodeCommand reads a record of topic commands in either spelling. It checks all that needs
// neither the trigger's state, nor the channel's settings, nor the tz database. The error is
// always a *trigger.Error.
//
// origin is where and when a forwarded command was first appended. The caller has checked
// that claim (Forwarded). nil means that the command was not forwarded. The command's payload
// and header values alias rec.
func DecodeCommand(rec *Record, l Limits, origin *trigger.Origin) (*trigger.Command, error) {
	key, err := trigger.ParseKey(rec.Key)
	if err != nil {
		return nil, err
	}
	from := trigger.Origin{Partition: rec.Partition, Offset: rec.Offset, Append: rec.Timestamp}
	if origin != nil {
		from = *origin
	}
	d := newDraft(l, from)
	op := d.read(rec)
	c := &trigger.Command{Op: op, Key: key, From: from}
	d.build(c)
	if fault := d.release(); fault != nil {
		return nil, inBothSpellings(rec, fault)
	}
	return c, nil
}

// OpOf is the op of a record that DecodeCommand has refused, 0 if it is not known.
func OpOf(rec *Record, l Limits) trigger.Op {
	d := newDraft(l, trigger.Origin{})
	defer func() { _ = d.release() }() // the caller knows that there is an error
	return d.read(rec)
}

// draft is a command as it was written: the fields that were given, as text. Both spellings
// fill it, and build reads it. It keeps the first error; later ones are ignored.
type draft struct {
	limits Limits
	from   trigger.Origin
	err    *trigger.Error

	unknown *string             // name of the unknown field at the top, if err is about one
	patch   bool                // HeaderPatch is there
	prefer  string              // the value of HeaderPreferred
	seen    fieldSet            // given, and not null
	text    [scalarCount]string // of the scalar fields seen

	include, exclude []string
	tags             []trigger.Tag
	calendarNames    []string
	retry            []string
	steps            []stepText // of an escalation
	payload          []byte
	payloadIsJSON    bool // it was read as JSON: no need to parse it twice
	contentType      string
	traceParent      string
	headers          []trigger.Header
}

// drafts are reused, because a draft escapes to the heap: the table's functions take it.
var drafts = sync.Pool{New: func() any { return new(draft) }}

func newDraft(l Limits, from trigger.Origin) *draft {
	d := drafts.Get().(*draft)
	d.limits, d.from = l.withDefaults(), from
	return d
}

// release returns the draft to the pool, and its error. What was built from it stays valid.
func (d *draft) release() *trigger.Error {
	fault := d.err
	*d = draft{}
	drafts.Put(d)
	return fault
}

func (d *draft) refuse(code trigger.Code, field, msg string) {
	if d.err == nil {
		d.err = fail(code, field, msg)
	}
}

// read detects the spelling, fills the draft and returns the op. A null value can only be a
// cancel: it is a tombstone, with which compaction drops the key.
func (d *draft) read(rec *Record) trigger.Op {
	spelled, cancelOnly := spelling(rec.Headers)
	switch {
	case rec.Value == nil && (!spelled || cancelOnly):
		return trigger.OpCancel
	case rec.Value == nil:
		d.refuse(trigger.CodeAmbiguousTombstone, "",
			"the value is null, but there are wc- headers other than wc-op=cancel: send an empty value, "+
				"or wc-op=cancel alone")
		return 0
	case spelled:
		d.readHeaders(rec.Headers, true)
		return d.opByHeaders(rec.Value)
	case !d.readObject(rec.Value):
		return 0
	}
	d.readHeaders(rec.Headers, false)
	return d.opByObject()
}

// spelling reports whether the headers spell a command, and whether they are wc-op=cancel
// alone.
func spelling(headers []trigger.Header) (spelled, cancelOnly bool) {
	cancelOnly = true
	for i := range headers {
		h := &headers[i]
		if !hasPrefixFold(h.Key, commandPrefix) {
			continue
		}
		spelled = true
		if h.Key != "wc-op" || !bytes.Equal(h.Value, []byte("cancel")) {
			cancelOnly = false
		}
	}
	return spelled, spelled && cancelOnly
}

// hasPrefixFold is strings.HasPrefix without regard to case. The prefix begins with a
// lower-case letter. It is fast, since most names differ in the first letter.
func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) || s[0]|0x20 != prefix[0] {
		return false
	}
	return s[:len(prefix)] == prefix || strings.EqualFold(s[:len(prefix)], prefix)
}

// opByHeaders returns the op. The record's value is the payload if the op has one, and is
// ignored otherwise (echo cancel | kcat … -H wc-op=cancel).
func (d *draft) opByHeaders(value []byte) trigger.Op {
	if !d.seen.has(fOp) {
		d.text[fOp] = trigger.OpRegister.String()
	}
	op := d.op()
	if len(value) > 0 && fieldsOf[op].has(fPayload) {
		d.payload = value[:len(value):len(value)]
		d.seen.set(fPayload, true)
	}
	return op
}

func (d *draft) opByObject() trigger.Op {
	if !d.seen.has(fOp) && (d.err == nil || d.err.Field != "op") {
		d.notACommand("the value is a JSON object without \"op\", and there is no wc- header")
		return 0
	}
	return d.op()
}

// notACommand replaces any other error: what is no command has no fields.
func (d *draft) notACommand(msg string) { d.err = fail(trigger.CodeNotACommand, "", msg) }

// op reads the op and refuses fields that the op does not have. An unknown op replaces an
// error in a field, because the op decides which fields there are.
func (d *draft) op() trigger.Op {
	op, ok := trigger.ParseOp(d.text[fOp])
	if !ok && (d.err == nil || d.seen.has(fOp)) {
		d.err = fail(trigger.CodeUnknownOp, "op", unknownOp(d.text[fOp]))
	}
	if !ok {
		return 0
	}
	if d.unknown != nil {
		d.err.Msg = describeUnknown(*d.unknown, op)
	}
	if extra := d.seen &^ fieldsOf[op]; extra != 0 {
		name := extra.first().path()
		d.refuse(trigger.CodeInvalid, name, name+" has no meaning for op "+op.String()+": leave it out")
	}
	return op
}
