package topics

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// What was wrong, on records of rejected and dead-letter.
const (
	errorPrefix        = commandPrefix + "error-"
	headerErrorCode    = errorPrefix + "code"
	headerErrorDetail  = errorPrefix + "detail"
	headerErrorField   = errorPrefix + "field"
	headerErrorChannel = errorPrefix + "channel"   // dead letters: where it was to go
	headerErrorCut     = errorPrefix + "truncated" // size of the whole in bytes, if parts were cut
	headerSource       = commandPrefix + "source"
	deadTargetKey      = enginePrefix + "target-key" // dead letters: the due record's key, if not the trigger's
	deadPriority       = enginePrefix + "priority"   // dead letters: high or low, if not normal
	deadCorrelation    = enginePrefix + "correlation-id"
	deadFirstFired     = enginePrefix + "first-fired" // dead letters: when the occurrence first went out

	headerErrorKeyLength = errorPrefix + "key-length" // rejected: length of a key that is too long
	headerErrorKeyHash   = errorPrefix + "key-hash"   // "sha256:" and hexadecimal digits
)

const maxErrorDetail = 1024 // of wc-error-detail, in bytes

// RejectedRecord is RejectedWithin for a topic that takes MaxRecordBytes.
func RejectedRecord(rec *Record, e *trigger.Error) (key, value []byte, headers []trigger.Header) {
	return RejectedWithin(rec, e, MaxRecordBytes)
}

// RejectedWithin is the record on topic rejected for a refused command: its bytes and headers
// as they were, and the error. Headers of an earlier rejection and the engine's own are left
// out. wc-source is rec's topic, partition and offset. For a forwarded record the caller sets
// those of the first append.
//
// A compressed batch may hold a record far larger than the topic takes, and a key may be as
// large as a value. So key and value are cut until the record takes at most most bytes
// (RecordBytes), and wc-error-truncated has the size before. Else a refusal that cannot be
// written would stop the partition for ever. most is at least MinRecordBytes.
func RejectedWithin(rec *Record, e *trigger.Error, most int) (key, value []byte, headers []trigger.Header) {
	room := most - errorRoom
	key = clipBytes(rec.Key, min(maxRejectedKey, room/4))
	headers = make([]trigger.Header, 0, min(len(rec.Headers), 100)+7)
	whole, kept, cut := len(rec.Key)+len(rec.Value), len(key), len(key) < len(rec.Key)
	for _, h := range rec.Headers {
		size := len(h.Key) + len(h.Value) + headerOverhead
		whole += size
		switch {
		case ofRejection(h.Key):
		case kept+size <= min(maxRejectedHdr, room/2):
			headers, kept = append(headers, h), kept+size
		default:
			cut = true
		}
	}
	value = rec.Value
	if room -= kept; len(value) > room {
		value, cut = value[:room], true
	}
	headers = append(headers, header(headerErrorCode, string(e.Code)),
		header(headerErrorDetail, clip(e.Msg, maxErrorDetail)))
	if e.Field != "" {
		headers = append(headers, header(headerErrorField, clip(e.Field, maxText)))
	}
	if len(rec.Key) > trigger.MaxKeyBytes {
		headers = append(headers, header(headerErrorKeyLength, strconv.Itoa(len(rec.Key))),
			header(headerErrorKeyHash, "sha256:"+sumOf(rec.Key)))
	}
	if cut {
		headers = append(headers, header(headerErrorCut, strconv.Itoa(whole)))
	}
	return key, value, append(headers, header(headerSource, Source(rec.Topic, rec.Partition, rec.Offset)))
}

// RefusedKey is the trigger named in the event about a refused record: the record's key. A
// key that is too long is cut, and the error then has its length and hash.
func RefusedKey(key []byte, e *trigger.Error) (about trigger.Key, reported *trigger.Error) {
	if len(key) <= trigger.MaxKeyBytes {
		return trigger.Key(key), e
	}
	note := fmt.Sprintf("; it has %d bytes, sha256 %s", len(key), sumOf(key))
	long := *e
	long.Msg = clip(e.Msg, maxErrorDetail-len(note)) + note
	return trigger.Key(clipBytes(key, trigger.MaxKeyBytes)), &long
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func ofRejection(key string) bool {
	return strings.HasPrefix(key, errorPrefix) || key == headerSource || strings.HasPrefix(key, enginePrefix)
}

// DeadLetterRecord is the record of a dead letter: the due event that nobody could deliver,
// and the error. Its key is the trigger's.
func DeadLetterRecord(d *trigger.DeadLetter, env DueEnv) (key, value []byte, headers []trigger.Header) {
	return DeadLetterWithin(d, env, MaxRecordBytes)
}

// DeadLetterWithin is DeadLetterRecord in at most most bytes (RecordBytes), at least
// MinRecordBytes. It cuts the payload first, then leaves out the user's headers.
// wc-error-truncated has the size before.
func DeadLetterWithin(d *trigger.DeadLetter, env DueEnv, most int) (key, value []byte, headers []trigger.Header) {
	_, value, headers = DueRecord(&d.Fire, env)
	carryRetries(headers, d.Fire.Spec)
	own := len(headers) - len(d.Fire.Spec.Headers) // the engine's come first
	headers = append(headers, header(headerErrorCode, d.Code),
		header(headerErrorDetail, clip(d.Detail, maxErrorDetail)))
	if d.Fire.Channel != "" {
		headers = append(headers, header(headerErrorChannel, d.Fire.Channel))
	}
	if d.Fire.Spec.TargetKey != "" {
		headers = append(headers, header(deadTargetKey, d.Fire.Spec.TargetKey))
	}
	if d.Fire.Spec.Priority != trigger.Normal {
		headers = append(headers, header(deadPriority, d.Fire.Spec.Priority.String()))
	}
	if d.Fire.Spec.CorrelationID != "" {
		headers = append(headers, header(deadCorrelation, d.Fire.Spec.CorrelationID))
	}
	if d.Fire.FirstFired != 0 {
		headers = append(headers, header(deadFirstFired, d.Fire.FirstFired.String()))
	}
	key = []byte(d.Fire.Key)
	whole := RecordBytes(key, value, headers)
	if whole <= most {
		return key, value, headers
	}
	headers = append(headers, header(headerErrorCut, strconv.Itoa(whole)))
	if rest := RecordBytes(key, nil, headers); rest > most {
		headers = slices.Delete(headers, own, own+len(d.Fire.Spec.Headers))
	}
	if rest := RecordBytes(key, nil, headers); rest > most { // tags, 10 KB of them
		headers = slices.DeleteFunc(headers, func(h trigger.Header) bool { return h.Key == dueTags })
	}
	return key, value[:max(0, min(len(value), most-RecordBytes(key, nil, headers)))], headers
}

// carryRetries adds the retry list to a dead letter's callback, for a redrive, which begins
// the list anew. Due events lack it, because the engine does the retries.
func carryRetries(headers []trigger.Header, s *trigger.Spec) {
	for i := range headers {
		if headers[i].Key == dueCallback {
			headers[i].Value = spellCallback(nil, s)
		}
	}
}

// DeadLetterCut reports whether parts of a dead letter were cut, so that it must not be
// redriven.
func DeadLetterCut(rec *Record) bool {
	return slices.ContainsFunc(rec.Headers, func(h trigger.Header) bool { return h.Key == headerErrorCut })
}

// DecodeDeadLetter reads what DeadLetterRecord made.
func DecodeDeadLetter(rec *Record) (*trigger.DeadLetter, error) {
	due, err := DecodeDue(rec)
	if err != nil {
		return nil, err
	}
	d := &trigger.DeadLetter{Fire: due.Fire}
	for i := range rec.Headers {
		switch h := &rec.Headers[i]; h.Key {
		case headerErrorCode:
			d.Code = string(h.Value)
		case headerErrorDetail:
			d.Detail = string(h.Value)
		}
	}
	return d, nil
}

func header(key, value string) trigger.Header {
	return trigger.Header{Key: key, Value: []byte(value)}
}

// Rejection is why a command was refused, as the headers on topic rejected say it.
type Rejection struct {
	Code, Detail, Field string
	Source              string // topic/partition/offset of the command
	Cut                 bool   // parts of the record were cut
}

// RejectionOf reads the headers of a record on topic rejected.
func RejectionOf(headers []trigger.Header) (r Rejection) {
	for _, h := range headers {
		switch h.Key {
		case headerErrorCode:
			r.Code = string(h.Value)
		case headerErrorDetail:
			r.Detail = string(h.Value)
		case headerErrorField:
			r.Field = string(h.Value)
		case headerSource:
			r.Source = string(h.Value)
		case headerErrorCut:
			r.Cut = true
		}
	}
	return r
}
