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
	headerErrorCut     = errorPrefix + "truncated" // bytes of the whole, where not all of it fitted
	headerSource       = commandPrefix + "source"
	deadTargetKey      = enginePrefix + "target-key" // dead letters: the due record's key, if not the trigger's

	headerErrorKeyLength = errorPrefix + "key-length" // rejected: of a key longer than a trigger's may be
	headerErrorKeyHash   = errorPrefix + "key-hash"   // "sha256:" and hexadecimal digits
)

const maxErrorDetail = 1024 // of wc-error-detail, in bytes

// RejectedRecord is RejectedWithin for a topic that takes MaxRecordBytes.
func RejectedRecord(rec *Record, e *trigger.Error) (key, value []byte, headers []trigger.Header) {
	return RejectedWithin(rec, e, MaxRecordBytes)
}

// RejectedWithin is what goes to topic rejected for a command that cannot be
// obeyed: its bytes and headers as they were, and what was wrong. Headers of
// an earlier rejection, and the engine's own, are not repeated. wc-source is
// where rec says it stands: give a forwarded record its first append's.
//
// A compressed batch may hold a record far larger than we may write, and a key
// may be as large as a value. Of each the beginning is kept, so that the record
// takes at most most bytes (RecordBytes), and wc-error-truncated says how large
// it was: a refusal that cannot be written would stop the partition for ever.
// most is at least MinRecordBytes.
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

// RefusedKey is the name under which a refused record is reported in topic events:
// its key, of which only the beginning if it is no trigger's for its length. The
// error then says how long the key is, and its hash.
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

// DeadLetterRecord is the due event nobody could deliver, under the trigger's
// key, and why.
func DeadLetterRecord(d *trigger.DeadLetter, env DueEnv) (key, value []byte, headers []trigger.Header) {
	return DeadLetterWithin(d, env, MaxRecordBytes)
}

// DeadLetterWithin is DeadLetterRecord in at most most bytes (RecordBytes), at
// least MinRecordBytes. The payload is cut first, then the user's headers go;
// wc-error-truncated says how large the whole was.
func DeadLetterWithin(d *trigger.DeadLetter, env DueEnv, most int) (key, value []byte, headers []trigger.Header) {
	_, value, headers = DueRecord(&d.Fire, env)
	carryRetries(headers, d.Fire.Spec)
	own := len(headers) - len(d.Fire.Spec.Headers) // those of ours come first
	headers = append(headers, header(headerErrorCode, d.Code),
		header(headerErrorDetail, clip(d.Detail, maxErrorDetail)))
	if d.Fire.Channel != "" {
		headers = append(headers, header(headerErrorChannel, d.Fire.Channel))
	}
	if d.Fire.Spec.TargetKey != "" {
		headers = append(headers, header(deadTargetKey, d.Fire.Spec.TargetKey))
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

// carryRetries puts the retry list beside a dead letter's callback: a redrive begins
// it anew. A due event is without: retries are the engine's.
func carryRetries(headers []trigger.Header, s *trigger.Spec) {
	for i := range headers {
		if headers[i].Key == dueCallback {
			headers[i].Value = spellCallback(nil, s)
		}
	}
}

// DeadLetterCut says that a dead letter is not the whole due event: it did not
// fit, and must not be redriven.
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
