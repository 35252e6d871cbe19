package topics

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/trigger"
)

// HeaderAsk marks a command whose producer will ask the owner for its outcome. The owner
// keeps only those outcomes.
const HeaderAsk = enginePrefix + "ask"

// HeaderPatch marks a register that a gateway made from the present trigger (HTTP's PATCH).
// What it does not change goes on, a pause included.
const HeaderPatch = enginePrefix + "patch"

// HeaderPreferred names the channel of a register that names none: the first that its
// user prefers, as the gateway read it. It is not compared as content, so a repeat is
// one whatever the user prefers by then.
const HeaderPreferred = enginePrefix + "preferred"

// readHeaders reads a record's headers. In the header spelling they hold the fields. In both
// spellings the user's own headers travel to the due event. ce_ headers are dropped, because
// the due event has its own, and so are the engine's wcx- headers.
func (d *draft) readHeaders(headers []trigger.Header, spelled bool) {
	fromFields := len(d.headers)
	for i := range headers {
		h := &headers[i]
		switch {
		case h.Key == HeaderPatch:
			d.patch = true
		case h.Key == HeaderPreferred:
			d.prefer = string(h.Value)
		case spelled && hasPrefixFold(h.Key, commandPrefix):
			d.readFieldHeader(h)
		case !slices.ContainsFunc(d.headers[:fromFields], func(f trigger.Header) bool { return f.Key == h.Key }):
			d.addHeader(h.Key, h.Value)
		}
	}
	d.checkHeaders()
}

func (d *draft) readFieldHeader(h *trigger.Header) {
	f, ok := fieldsByHeader[h.Key]
	switch {
	case !ok:
		d.unknownHeader(h.Key)
	case d.seen.has(f):
		d.refuse(trigger.CodeInvalid, f.path(), "header "+h.Key+" is given twice")
	case !utf8.Valid(h.Value):
		d.refuse(trigger.CodeInvalid, f.path(), "header "+h.Key+" is not UTF-8")
	default:
		d.text[f] = string(h.Value)
		d.seen.set(f, true)
		d.seen.set(fCallback, f == fURL)
	}
}

func (d *draft) unknownHeader(key string) {
	name := strings.ReplaceAll(strings.ToLower(key[len(commandPrefix):]), "-", "_")
	f, known := fieldsByName[fOp][name]
	switch {
	case name == "":
		d.refuse(trigger.CodeUnknownField, clip(key, 64),
			"header "+quoteForPerson(key)+" names no field: write wc-op, wc-delay, wc-fire-at, wc-recurrence, …")
	case known && fieldsByHeader[headerName(name)] == f && f < scalarCount && f != fPayloadBase64:
		d.refuse(trigger.CodeUnknownField, clip(key, 64),
			"write the header "+headerName(name)+", in lower case and with '-'")
	case known && (f == fPayload || f == fPayloadBase64):
		d.refuse(trigger.CodeInvalid, name,
			name+" does not go with wc- headers: send the payload as the record's value")
	case known:
		d.refuse(trigger.CodeInvalid, name, name+" cannot be a header: write the whole command as JSON")
	default:
		d.unknownField(fOp, name)
	}
}

// addHeader keeps a header for the due event. content-type and traceparent are fields of the
// Spec.
func (d *draft) addHeader(key string, value []byte) {
	switch {
	case strings.HasPrefix(key, eventPrefix), hasPrefixFold(key, enginePrefix):
	case key == traceParent:
		if isTraceParent(value) {
			d.once(&d.traceParent, key, value)
		}
	case strings.EqualFold(key, contentType):
		d.once(&d.contentType, key, value)
	default:
		d.headers = append(d.headers, trigger.Header{Key: key, Value: value})
	}
}

// hasControl reports whether a value has a control character other than a tab. In HTTP or in
// a log such a character could begin another header or line.
func hasControl(value []byte) bool {
	return slices.ContainsFunc(value, func(c byte) bool { return c < 0x20 && c != '\t' || c == 0x7f })
}

// maxNamedHeader bounds content-type and traceparent.
const maxNamedHeader = 255

// once keeps the first of several headers of one name. A malformed one is ignored, because
// tracing must never refuse a command.
func (d *draft) once(to *string, key string, value []byte) {
	if *to == "" && len(value) <= maxNamedHeader && utf8.Valid(value) && printable(string(value)) {
		*to = string(value)
	}
}

func (d *draft) addHeaderField(name, value string) {
	if len(d.headers) > d.limits.Headers { // each is held against all before it
		d.refuse(trigger.CodeTooLarge, "headers", fmt.Sprintf("over %d headers of your own", d.limits.Headers))
		return
	}
	if slices.ContainsFunc(d.headers, func(h trigger.Header) bool { return h.Key == name }) {
		d.refuse(trigger.CodeInvalid, "headers", "header "+quoteForPerson(clip(name, 48))+" is given twice")
		return
	}
	if hasPrefixFold(name, commandPrefix) {
		d.refuse(trigger.CodeInvalid, "headers", quoteForPerson(clip(name,
			48))+" begins with wc-, as a command's own headers do: give it another name")
		return
	}
	d.addHeader(name, []byte(value))
}

func (d *draft) checkHeaders() {
	size := len(d.contentType) + len(d.traceParent)
	for i := range d.headers {
		h := &d.headers[i]
		size += len(h.Key) + len(h.Value)
		if h.Key == "" || !utf8.ValidString(h.Key) {
			d.refuse(trigger.CodeInvalid, "headers", "a header has no name, or one that is not UTF-8")
		}
	}
	if len(d.headers) > d.limits.Headers {
		d.refuse(trigger.CodeTooLarge, "headers", fmt.Sprintf("%d headers of your own; at most %d", len(d.headers),
			d.limits.Headers))
	}
	if size > d.limits.HeaderBytes {
		d.refuse(trigger.CodeTooLarge, "headers", fmt.Sprintf("headers of your own take %d bytes; at most %d", size,
			d.limits.HeaderBytes))
	}
}

// plainHeaders refuses headers that would break readers of the due event. Only a register
// keeps headers, so a cancel is never refused for them.
func (d *draft) plainHeaders() {
	for i := range d.headers {
		if h := &d.headers[i]; !printable(h.Key) || hasControl(h.Value) {
			d.refuse(trigger.CodeInvalid, "headers", "header "+quoteForPerson(clip(h.Key, 48))+
				" has control characters, which would break what passes it on: leave them out, or encode the value")
		}
	}
}

// Bounds on tags.
const (
	maxTags     = 32
	maxTagKey   = 64
	maxTagValue = 256
)

func (d *draft) addTag(key, value string) {
	switch {
	case key == "" || len(key) > maxTagKey || strings.ContainsRune(key, ':') || !printable(key):
		d.refuse(trigger.CodeInvalid, "tags", "a tag's name has 1 to 64 bytes, no ':' and no control characters")
	case len(value) > maxTagValue || !printable(value):
		d.refuse(trigger.CodeInvalid, "tags", "a tag's value has at most 256 bytes and no control characters")
	case len(d.tags) == maxTags:
		d.refuse(trigger.CodeTooLarge, "tags", "a trigger has at most 32 tags")
	case slices.ContainsFunc(d.tags, func(t trigger.Tag) bool { return t.Key == key }):
		d.refuse(trigger.CodeInvalid, "tags", "tag "+quoteForPerson(key)+" is given twice")
	default:
		d.tags = append(d.tags, trigger.Tag{Key: key, Value: value})
	}
}

// printable reports whether s has no control characters, C1 included.
func printable(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c < 0x20 || c == 0x7f || (c == 0xc2 && i+1 < len(s) && s[i+1] < 0xa0) {
			return false
		}
	}
	return true
}

// inBothSpellings adds advice to the refusal of a record that has wc- headers and a JSON command
// as its value. The headers count, so the refusal alone would be about fields that the caller
// wrote in the value.
func inBothSpellings(rec *Record, fault *trigger.Error) error {
	i := slices.IndexFunc(rec.Headers, func(h trigger.Header) bool { return hasPrefixFold(h.Key, commandPrefix) })
	if i < 0 || !hasOp(rec.Value) {
		return fault
	}
	advised := *fault
	advised.Msg += "; this record is a command twice, in the header " + quoteForPerson(clip(rec.Headers[i].Key, 48)) +
		" and as JSON in the value: drop the wc- headers, and the value counts; or drop the value, and the headers " +
		"count"
	return &advised
}

// hasOp reports whether a value is a JSON object with the member op.
func hasOp(value []byte) (found bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return false
		}
		found = found || name.String() == fieldTable[fOp].name
		if dec.SkipValue() != nil {
			return false
		}
	}
	_, err := dec.ReadToken()
	return found && err == nil && expectEnd(dec) == nil
}
