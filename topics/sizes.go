package topics

import (
	"unicode/utf8"

	"github.com/waterclock/waterclock/trigger"
)

// MaxRecordBytes bounds a record that the engine writes, before compression. By default a
// producer's batch holds about a million bytes. A command is refused if it would make a
// trigger's State larger than that.
const MaxRecordBytes = 1_000_000

// MinRecordBytes is the least value for max.message.bytes of our topics. Below it there is no
// room for a refusal.
const MinRecordBytes = 16 << 10

// How many bytes of a record a refusal keeps.
const (
	maxRejectedKey = 64 << 10
	maxRejectedHdr = 256_000 // the key and the headers of its own
	errorRoom      = 4 << 10 // left for the error
)

// RecordBytes is the most that a record takes as the only one of its batch. Brokers compare
// that with max.message.bytes, and clients with their own bounds.
func RecordBytes(key, value []byte, headers []trigger.Header) int {
	size := recordOverhead + len(key) + len(value)
	for i := range headers {
		size += HeaderBytes(headers[i].Key, headers[i].Value)
	}
	return size
}

// HeaderBytes is what a header adds to RecordBytes.
func HeaderBytes(key string, value []byte) int { return headerOverhead + len(key) + len(value) }

const (
	recordOverhead = 61 + 36 // a batch's header; a record's lengths, attributes and deltas, each at its longest
	headerOverhead = 10      // the most a header's lengths take
)

// clip cuts s to at most n bytes, at a rune's end.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clipBytes is clip for bytes that may not be UTF-8: it goes back by at most one rune. Null
// stays null.
func clipBytes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for back := 0; back < utf8.UTFMax-1 && n > 0 && !utf8.RuneStart(b[n]); back++ {
		n--
	}
	return b[:n:n]
}

// AppendEventWithin is AppendEvent for a topic that takes records of at most most bytes
// (RecordBytes), at least MinRecordBytes. If the event does not fit, it leaves out the
// payload, then cuts the detail, then leaves out the tags, then the rule. The event's field
// truncated names them.
func AppendEventWithin(b []byte, key trigger.Key, f *trigger.Fact, env EventEnv, most int) []byte {
	start, room := len(b), most-recordOverhead-len(key)
	if b = AppendEvent(b, key, f, env); len(b)-start > room {
		b = appendLess(b[:start], key, f, env, room)
	}
	return b
}

// appendLess leaves out or cuts one field after the other, until the event fits. It is a function of its own because
// what its closures use is allocated at its start.
func appendLess(b []byte, key trigger.Key, f *trigger.Fact, env EventEnv, room int) []byte {
	start, less := len(b), *f
	for _, cut := range [...]struct {
		name string
		has  bool
		now  func()
	}{
		{"payload", env.WithPayload && f.Spec != nil && len(f.Spec.Payload) > 0, func() { env.WithPayload = false }},
		{"detail", len(f.Detail) > cutDetail, func() { less.Detail = clip(f.Detail, cutDetail) }},
		{"tags", len(f.Tags) > 0, func() { less.Tags = nil }},
		{"rule", f.Rule != nil, func() { less.Rule = nil }},
	} {
		if !cut.has {
			continue
		}
		cut.now()
		env.Truncated = append(env.Truncated, cut.name)
		if b = AppendEvent(b[:start], key, &less, env); len(b)-start <= room {
			break
		}
	}
	return b
}

// cutDetail is how much of a detail stays, in bytes.
const cutDetail = 256

// appendTruncated appends the names of the fields that were cut or left out.
func appendTruncated(b []byte, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	b = append(b, `,"truncated":[`...)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
	}
	return append(b, ']')
}
