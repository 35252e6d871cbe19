package topics

import (
	"unicode/utf8"

	"github.com/waterclock/waterclock/trigger"
)

// MaxRecordBytes bounds what we write in one record, before compression: a
// producer's batch, by default in Kafka and in its clients, holds about a
// million bytes. A trigger whose State grows past it must be refused.
const MaxRecordBytes = 1_000_000

// MinRecordBytes is the least that max.message.bytes of our own topics may be:
// below it there is no room to say what does not fit.
const MinRecordBytes = 16 << 10

// What a refusal keeps of a record, in bytes.
const (
	maxRejectedKey = 64 << 10
	maxRejectedHdr = 256_000 // the key and the headers of its own
	errorRoom      = 4 << 10 // left for what was wrong
)

// RecordBytes is what a record takes at most as the only one of its batch: what
// brokers hold against max.message.bytes, and clients against their own bounds.
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

// clipBytes is clip for what may not be UTF-8: it goes back no further than a
// rune is long. Null stays null.
func clipBytes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for back := 0; back < utf8.UTFMax-1 && n > 0 && !utf8.RuneStart(b[n]); back++ {
		n--
	}
	return b[:n:n]
}

// AppendEventWithin is AppendEvent for a topic that takes records of at most
// most bytes (RecordBytes), at least MinRecordBytes. What does not fit goes: the
// payload, then all but the beginning of the detail, then the tags. The event's
// field truncated names what has gone.
func AppendEventWithin(b []byte, key trigger.Key, f *trigger.Fact, env EventEnv, most int) []byte {
	start, room := len(b), most-recordOverhead-len(key)
	if b = AppendEvent(b, key, f, env); len(b)-start <= room {
		return b
	}
	less := *f
	for _, cut := range [...]struct {
		name string
		has  bool
		now  func()
	}{
		{"payload", env.WithPayload && f.Spec != nil && len(f.Spec.Payload) > 0, func() { env.WithPayload = false }},
		{"detail", len(f.Detail) > cutDetail, func() { less.Detail = clip(f.Detail, cutDetail) }},
		{"tags", len(f.Tags) > 0, func() { less.Tags = nil }},
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

// appendTruncated appends the names of fields that have gone.
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
