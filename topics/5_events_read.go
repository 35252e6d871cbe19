package topics

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/trigger"
)

// DecodeEvent reads one event. It ignores fields of later versions, and refuses an event
// without id, type or trigger. Only command.rejected may lack the trigger, because the
// command's key may have been empty.
func DecodeEvent(b []byte) (Event, error) {
	var e Event
	if err := UnmarshalEvent(b, &e); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if e.EventID == "" || e.Type == "" || e.Trigger == "" && e.Type != string(trigger.Rejected) {
		return Event{}, fmt.Errorf("decode event: event_id, type or trigger is missing")
	}
	return e, nil
}

// UnmarshalEvent reads the JSON of an event into e, which is empty. It ignores unknown fields, because
// a newer engine may write more. It accepts a name twice, because a payload is the user's JSON. It
// checks nothing else: see Event.Check and DecodeEvent.
func UnmarshalEvent(value []byte, e *Event) error {
	if ReadEvent(value, e) {
		return nil
	}
	*e = Event{}
	return json.Unmarshal(value, e, jsontext.AllowDuplicateNames(true))
}

// ReadEvent reads an event of the form that AppendEvent writes: no white space between
// tokens, no escapes in its own strings. It reports false for everything else, valid or not, and
// leaves e undefined: a JSON library reads that, with the same result but at several times
// the CPU. The strings of e share one copy of value.
func ReadEvent(value []byte, e *Event) bool {
	r := eventReader{value: value, text: string(value)}
	if !r.take('{') {
		return false
	}
	for {
		name, ok := r.string()
		if !ok || !r.take(':') || !r.member(name, e) {
			return false
		}
		if !r.take(',') {
			return r.take('}') && r.at == len(r.text)
		}
	}
}

// eventReader reads tokens. Each method reports false where the next token is not of the plain
// form that it reads.
type eventReader struct {
	value []byte
	text  string // the same
	at    int    // what was read so far
}

func (r *eventReader) take(c byte) bool {
	if r.at == len(r.text) || r.text[r.at] != c {
		return false
	}
	r.at++
	return true
}

// member reads the value of one member of an event.
func (r *eventReader) member(name string, e *Event) (ok bool) {
	if text := e.textOf(name); text != nil {
		*text, ok = r.string()
		return ok
	}
	switch name {
	case "payload":
		e.Payload, ok = r.raw()
		return ok
	case "rule":
		e.Rule, ok = r.raw()
		return ok
	case "tags":
		return e.Tags == nil && r.texts(e)
	}
	n, ok := r.number()
	if !ok {
		return false // "truncated" too: it is rare
	}
	switch name {
	case "version":
		e.Version = int(n)
	case "revision":
		e.Revision = n
	case "seq":
		e.Seq = n
	case "event_us":
		e.EventUS = n
	case "step":
		step := int(n)
		e.Step = &step
	case "attempt":
		e.Attempt = int(n)
	case "lateness_ms":
		late := n
		e.LatenessMS = &late
	case "due_partition":
		partition := int32(n)
		e.DuePartition = &partition
		return int64(partition) == n
	case "count":
		e.Count = int(n)
	default:
		return false
	}
	return true
}

// textOf is the field of a member that is a string, or nil.
func (e *Event) textOf(name string) *string {
	switch name {
	case "event_id":
		return &e.EventID
	case "type":
		return &e.Type
	case "trigger":
		return &e.Trigger
	case "tenant":
		return &e.Tenant
	case "occurred_at":
		return &e.OccurredAt
	case "channel":
		return &e.Channel
	case "user_id":
		return &e.UserID
	case "scheduled_at":
		return &e.ScheduledAt
	case "local_time":
		return &e.LocalTime
	case "timezone":
		return &e.Timezone
	case "tzdata":
		return &e.TZData
	case "occurrence":
		return &e.Occurrence
	case "state":
		return &e.State
	case "previous_state":
		return &e.PreviousState
	case "reason":
		return &e.Reason
	case "detail":
		return &e.Detail
	case "actor":
		return &e.Actor
	case "source":
		return &e.Source
	case "due_topic":
		return &e.DueTopic
	case "correlation_id":
		return &e.CorrelationID
	case "payload_base64":
		return &e.PayloadBase64
	case "first":
		return &e.First
	case "last":
		return &e.Last
	case "previous_scheduled_at":
		return &e.PreviousScheduled
	case "previous_tzdata":
		return &e.PreviousTZData
	case "first_fired_at":
		return &e.FirstFired
	case "next_at":
		return &e.NextAt
	case "effective_at":
		return &e.EffectiveAt
	}
	return nil
}

// string reads a string without escapes.
func (r *eventReader) string() (string, bool) {
	if !r.take('"') {
		return "", false
	}
	ascii := true
	for begin := r.at; ; r.at++ {
		r.at += plainBytes(r.value[r.at:])
		if r.at == len(r.text) {
			return "", false
		}
		switch c := r.text[r.at]; {
		case c == '"':
			s := r.text[begin:r.at]
			r.at++
			return s, ascii || utf8.ValidString(s)
		case c < utf8.RuneSelf: // an escape, or a control character
			return "", false
		}
		ascii = false
	}
}

// plainBytes counts the bytes before the first one that is a quote, a backslash, a control character or
// not ASCII. It looks at eight at a time: in each of the terms the lowest byte with its high bit set
// is the first such one, and what stands above it may be wrong.
func plainBytes(b []byte) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, backslash := w^(each*'"'), w^(each*'\\')
		if hits := ((quote-each)&^quote | (backslash-each)&^backslash | (w-each*' ')&^w | w) & high; hits != 0 {
			return n + bits.TrailingZeros64(hits)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}

// number reads an integer of at most 18 digits, which fits an int64.
func (r *eventReader) number() (n int64, ok bool) {
	negative := r.take('-')
	begin := r.at
	for ; r.at < len(r.text) && '0' <= r.text[r.at] && r.text[r.at] <= '9'; r.at++ {
		if r.at-begin == 18 {
			return 0, false
		}
		n = 10*n + int64(r.text[r.at]-'0')
	}
	switch digits := r.text[begin:r.at]; {
	case digits == "", digits[0] == '0' && (len(digits) > 1 || negative):
		return 0, false
	case negative:
		n = -n
	}
	return n, true
}

// texts reads the tags: an object of strings.
func (r *eventReader) texts(e *Event) bool {
	if e.Tags = map[string]string{}; !r.take('{') {
		return false
	}
	if r.take('}') {
		return true
	}
	for {
		name, ok := r.string()
		if !ok || !r.take(':') {
			return false
		}
		if e.Tags[name], ok = r.string(); !ok {
			return false
		}
		if !r.take(',') {
			return r.take('}')
		}
	}
}

// mostNested bounds how deep a value may nest here. Libraries have a bound too, counted from the
// event's own braces.
const mostNested = 1000

// raw reads a value of any kind and keeps its spelling. Only the end of valid JSON is found
// here; the library says whether it is valid.
func (r *eventReader) raw() ([]byte, bool) {
	begin, depth, quoted := r.at, 0, false
	for ; r.at < len(r.text); r.at++ {
		c := r.text[r.at]
		switch {
		case quoted && c == '\\':
			r.at++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}'):
			v := []byte(r.text[begin:r.at])
			return v, len(bytes.TrimSpace(v)) == len(v) && jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true))
		case c == '}' || c == ']':
			depth--
		}
		if depth > mostNested || depth < 0 {
			return nil, false
		}
	}
	return nil, false
}
