package topics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// objectReader reads JSON objects from a record's value. It allows names given twice: the
// caller checks the fields, and the payload is not ours to check.
type objectReader struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

var objectReaders = sync.Pool{New: func() any { return new(objectReader) }}

// readObject fills the draft from the JSON spelling. If the value is not one JSON object, it
// notes the error and returns false.
func (d *draft) readObject(value []byte) bool {
	trimmed := bytes.TrimLeft(value, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		d.notACommand("the value is no JSON object, and there is no wc- header")
		return false
	}
	if d.tooLong(value) || d.tooDeep(value) {
		return false
	}
	r := objectReaders.Get().(*objectReader)
	defer objectReaders.Put(r)
	r.buf = *bytes.NewBuffer(value)
	r.dec.Reset(&r.buf, jsontext.AllowDuplicateNames(true))
	err := d.readFields(&r.dec, fOp)
	if err == nil {
		err = expectEnd(&r.dec)
	}
	r.buf = bytes.Buffer{}
	if err != nil {
		d.notACommand("the value begins like a JSON object but is none: " + syntaxFault(err))
		return false
	}
	return true
}

var errTrailing = errors.New("there is text after the JSON object: send one object per record")

func expectEnd(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// syntaxFault is the message with the offset of a syntax error. It repeats none of the JSON.
func syntaxFault(err error) string {
	if fault, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Sprintf("at byte %d", fault.ByteOffset)
	}
	return err.Error()
}

// maxObject bounds a command in JSON: twice the largest valid one with everything escaped. A
// compressed batch may hold far more, and parsing takes as much memory again.
const maxObject = 4 << 20

func (d *draft) tooLong(value []byte) bool {
	if len(value) <= maxObject {
		return false
	}
	d.refuse(trigger.CodeTooLarge, "", fmt.Sprintf("the value has %d bytes; a command in JSON has at most %d",
		len(value), maxObject))
	return true
}

// tooDeep refuses a command with a field, usually the payload, that is nested deeper than the
// limit. The command's own object does not count. A fast count of brackets clears most
// values.
func (d *draft) tooDeep(value []byte) bool {
	limit := d.limits.Depth + 1
	if bytes.Count(value, []byte("{"))+bytes.Count(value, []byte("[")) <= limit || depth(value) <= limit {
		return false
	}
	d.refuse(trigger.CodeInvalid, "payload", fmt.Sprintf("the JSON is nested more than %d deep", d.limits.Depth))
	return true
}

// depth is how deep brackets outside of strings nest.
func depth(value []byte) (deepest int) {
	open, inString := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

// readFields reads one object with the fields of owner. It stops at a syntax error only. Any
// other error is noted, and the value is skipped.
func (d *draft) readFields(dec *jsontext.Decoder, owner field) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	var given fieldSet
	known := fieldsByName[owner]
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		f, ok := known[string(unquoted(name))]
		switch {
		case !ok:
			d.unknownField(owner, string(unquoted(name)))
			err = dec.SkipValue()
		case given.has(f):
			d.refuse(trigger.CodeInvalid, fieldTable[f].name, fieldTable[f].name+" is given twice")
			err = dec.SkipValue()
		default:
			given.set(f, true)
			err = d.readValue(dec, f)
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// unquoted is the text of a JSON string. Without escapes it aliases raw.
func unquoted(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, raw) // valid, since the decoder has read it
	return b
}

func (d *draft) readValue(dec *jsontext.Decoder, f field) error {
	kind := dec.PeekKind()
	if kind == 'n' { // null counts as absent: serializers write it
		return dec.SkipValue()
	}
	if f >= scalarCount {
		return d.readPart(dec, f, kind)
	}
	if !fieldTable[f].kind.takes(kind) {
		d.wrongType(f, fieldTable[f].kind.String())
		return dec.SkipValue()
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	d.text[f] = d.scalar(f, kind, raw)
	d.seen.set(f, true)
	return nil
}

// scalar is a value as text, whether a string or a number. A number has no exponent.
func (d *draft) scalar(f field, kind jsontext.Kind, raw jsontext.Value) string {
	switch kind {
	case '"':
		return string(unquoted(raw))
	case '0':
		plain, ok := calendar.PlainNumber(string(raw))
		if !ok {
			d.refuse(trigger.CodeInvalid, f.path(), fieldTable[f].name+" is out of range")
		}
		return plain
	}
	return string(raw)
}

func (k fieldKind) takes(kind jsontext.Kind) bool {
	switch k {
	case kindText:
		return kind == '"'
	case kindTime:
		return kind == '"' || kind == '0'
	case kindNumber:
		return kind == '0'
	}
	return kind == 't' || kind == 'f'
}

func (k fieldKind) String() string {
	return [...]string{
		kindText: "a string", kindTime: "a string or a number", kindNumber: "a number",
		kindBool: "true or false", kindPart: "an object or a list",
	}[k]
}

func (d *draft) wrongType(f field, want string) {
	d.refuse(trigger.CodeInvalid, f.path(), fieldTable[f].name+" must be "+want)
}

// readPart reads the fields that are objects, lists, or the payload.
func (d *draft) readPart(dec *jsontext.Decoder, f field, kind jsontext.Kind) error {
	d.seen.set(f, true)
	switch f {
	case fPayload:
		return d.readPayload(dec)
	case fEscalation:
		return d.readSteps(dec, kind)
	case fInclude:
		return d.readList(dec, f, kind, &d.include)
	case fExclude:
		return d.readList(dec, f, kind, &d.exclude)
	case fNames:
		return d.readList(dec, f, kind, &d.calendarNames)
	case fRetry:
		return d.readList(dec, f, kind, &d.retry)
	}
	switch {
	case f == fHeaders:
		return d.readTexts(dec, f, kind, d.addHeaderField)
	case f == fTags:
		return d.readTexts(dec, f, kind, d.addTag)
	case kind != '{':
		d.wrongType(f, "an object")
		return dec.SkipValue()
	}
	return d.readFields(dec, f)
}

func (d *draft) readPayload(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	d.payload, d.payloadIsJSON = raw[:len(raw):len(raw)], err == nil
	return err
}

// maxListItems stops the reading of a long list. Each field has a lower bound of its own.
const maxListItems = 513

func (d *draft) readList(dec *jsontext.Decoder, f field, kind jsontext.Kind, to *[]string) error {
	if kind != '[' {
		d.wrongType(f, listOfTexts)
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	list := []string{}
	for dec.PeekKind() != ']' {
		text, ok, err := d.readItem(dec, f, listOfTexts)
		if err != nil {
			return err
		}
		if ok && len(list) < maxListItems {
			list = append(list, text)
		}
	}
	*to = list
	_, err := dec.ReadToken()
	return err
}

// The messages about a list or an object of strings.
const (
	listOfTexts   = "a list of strings"
	objectOfTexts = "an object of strings"
)

// readItem reads a string; retry's durations may be numbers too.
func (d *draft) readItem(dec *jsontext.Decoder, f field, want string) (text string, ok bool, err error) {
	kind := dec.PeekKind()
	if kind != '"' && !(kind == '0' && f == fRetry) {
		d.wrongType(f, want)
		return "", false, dec.SkipValue()
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return "", false, err
	}
	return d.scalar(f, kind, raw), true, nil
}

// readTexts reads an object of strings, each name once.
func (d *draft) readTexts(dec *jsontext.Decoder, f field, kind jsontext.Kind, add func(name, value string)) error {
	if kind != '{' {
		d.wrongType(f, objectOfTexts)
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		name := string(unquoted(raw))
		text, ok, err := d.readItem(dec, f, objectOfTexts)
		if err != nil {
			return err
		}
		if ok {
			add(name, text)
		}
	}
	_, err := dec.ReadToken()
	return err
}
