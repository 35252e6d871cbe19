package topics

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// The headers of a forwarded record.
const (
	headerTopicID = enginePrefix + "topic-id" // of the topic it was first appended to, base64url as Kafka prints it
	headerOrigin  = enginePrefix + "origin"   // <partition>/<offset> of the first append
	headerAppend  = enginePrefix + "append"   // milliseconds of the first append
)

// Forward is what a record says of where it first stood. It is a claim:
// anyone who may write can make it, so the caller checks it against the topic
// id, the source's end and the clock before believing
// (docs/decisions/0004).
type Forward struct {
	TopicID   [16]byte
	Partition int32
	Offset    int64
	Append    trigger.Instant
}

// Origin is the first append as a command carries it.
func (f Forward) Origin() *trigger.Origin {
	return &trigger.Origin{Partition: f.Partition, Offset: f.Offset, Append: f.Append, Forwarded: true}
}

// Forwarded reads the claim; ok is false if the record makes none. After an error (a header
// is missing, given twice or malformed) the record counts as not forwarded.
func Forwarded(rec *Record) (f Forward, ok bool, err error) {
	var seen [3]int
	for i := range rec.Headers {
		h := &rec.Headers[i]
		if !strings.HasPrefix(h.Key, enginePrefix) {
			continue
		}
		which, good := f.read(h)
		if which < 0 {
			continue
		}
		if seen[which]++; !good || seen[which] > 1 {
			return Forward{}, false, forwardError(h.Key)
		}
	}
	switch seen {
	case [3]int{}:
		return Forward{}, false, nil
	case [3]int{1, 1, 1}:
		return f, true, nil
	}
	return Forward{}, false, forwardError("wcx-")
}

func forwardError(header string) error {
	return fail(trigger.CodeInvalid, header,
		"a forwarded record has each of wcx-topic-id, wcx-origin and wcx-append once and well formed")
}

func (f *Forward) read(h *trigger.Header) (which int, good bool) {
	switch h.Key {
	case headerTopicID:
		n, err := base64.RawURLEncoding.Strict().Decode(f.TopicID[:], limitID(h.Value))
		return 0, err == nil && n == len(f.TopicID)
	case headerOrigin:
		partition, offset, found := strings.Cut(string(h.Value), "/")
		p, good1 := parseNumber(partition, 31)
		o, good2 := parseNumber(offset, 63)
		f.Partition, f.Offset = int32(p), o
		return 1, found && good1 && good2
	case headerAppend:
		ms, good := parseNumber(string(h.Value), 63)
		f.Append = trigger.Instant(ms)
		return 2, good
	}
	return -1, false
}

// limitID keeps Decode from writing past 16 bytes.
func limitID(v []byte) []byte {
	if len(v) != 22 {
		return nil
	}
	return v
}

// parseNumber reads a number in the form of strconv.AppendInt only, so that a claim has one
// spelling.
func parseNumber(s string, bits int) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, bits)
	return int64(n), err == nil && (s[0] != '0' || s == "0")
}

// ForwardHeaders returns the headers of a forwarded record: its own without wcx- headers,
// then the claim.
func ForwardHeaders(own []trigger.Header, f Forward) []trigger.Header {
	hs := make([]trigger.Header, 0, len(own)+3)
	for _, h := range own {
		if !strings.HasPrefix(h.Key, enginePrefix) {
			hs = append(hs, h)
		}
	}
	origin := strconv.AppendInt(nil, int64(f.Partition), 10)
	origin = strconv.AppendInt(append(origin, '/'), f.Offset, 10)
	return append(hs,
		trigger.Header{Key: headerTopicID, Value: base64.RawURLEncoding.AppendEncode(nil, f.TopicID[:])},
		trigger.Header{Key: headerOrigin, Value: origin},
		trigger.Header{Key: headerAppend, Value: strconv.AppendInt(nil, int64(f.Append), 10)})
}
