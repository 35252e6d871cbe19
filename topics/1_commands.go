package topics

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/waterclock/waterclock/trigger"
)

// Limits bound what a command may ask for beyond the contract's fixed bounds.
// The zero value is the defaults.
type Limits struct {
	// Payload bounds the payload in bytes, un-spelled; setting
	// limits.payload. 0 means 4 KiB; at most 512 KiB.
	Payload int

	// Headers bounds the user's headers in number; 0 means 64, at most 1,000.
	Headers int

	// HeaderBytes bounds their names and values together; 0 means 16 KiB,
	// at most 64 KiB.
	HeaderBytes int

	// Depth bounds how deep a field, such as the payload, may nest in the JSON
	// spelling; 0 means 128, at most 1,000. What nests deeper breaks readers in
	// languages that parse by recursion.
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

// Validate says what is out of bounds, all of it.
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

// DecodeCommand reads a record of topic commands in either spelling and checks
// everything that can be checked without the trigger's state, the channel's
// settings and the tz database; the error is always a *trigger.Error.
//
// origin is where and when the command was first appended, for a forwarded
// record whose claim (Forwarded) the caller has found genuine; nil means here
// and now. The command's payload and header values alias rec.
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
		return nil, fault
	}
	return c, nil
}

// OpOf is the op of a record that DecodeCommand has refused; 0 where it cannot
// be told.
func OpOf(rec *Record, l Limits) trigger.Op {
	d := newDraft(l, trigger.Origin{})
	defer func() { _ = d.release() }() // its fault is what is asked about
	return d.read(rec)
}

// draft is a command as it was written: the fields that were given, as text.
// Both spellings fill it, one builder reads it. The first fault found stands;
// what comes after it is harmless.
type draft struct {
	limits Limits
	from   trigger.Origin
	err    *trigger.Error

	unknown *string             // the field at the top that err is about, if it is of this kind
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

// drafts are reused: the functions of the table keep them from the stack.
var drafts = sync.Pool{New: func() any { return new(draft) }}

func newDraft(l Limits, from trigger.Origin) *draft {
	d := drafts.Get().(*draft)
	d.limits, d.from = l.withDefaults(), from
	return d
}

// release gives the draft back, and returns its fault. What was built of it stays.
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

// read finds out the spelling, fills the draft and returns the op. A null
// value can say only "cancel": a compacted log may keep nothing else of it.
func (d *draft) read(rec *Record) trigger.Op {
	spelled, cancelOnly := spelling(rec.Headers)
	switch {
	case rec.Value == nil && (!spelled || cancelOnly):
		return trigger.OpCancel
	case rec.Value == nil:
		d.refuse(trigger.CodeAmbiguousTombstone, "",
			"a null value beside wc- headers other than wc-op=cancel: send an empty value, or the op alone")
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

// spelling says whether the headers spell a command, and whether all they say
// is wc-op=cancel.
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

// hasPrefixFold is for prefixes that begin with a lower-case letter. Most names differ
// in the first, or are spelled as the prefix is.
func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) || s[0]|0x20 != prefix[0] {
		return false
	}
	return s[:len(prefix)] == prefix || strings.EqualFold(s[:len(prefix)], prefix)
}

// opByHeaders takes the record's value for the payload where the op has one;
// elsewhere it says nothing (echo cancel | kcat … -H wc-op=cancel).
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

// notACommand overrules any other fault: what is no command has no fields.
func (d *draft) notACommand(msg string) { d.err = fail(trigger.CodeNotACommand, "", msg) }

// op reads the op and refuses fields that mean nothing beside it. An unknown
// op overrules a fault in a field: which fields there are depends on it.
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
		d.refuse(trigger.CodeInvalid, name, name+" means nothing beside op "+op.String())
	}
	return op
}
