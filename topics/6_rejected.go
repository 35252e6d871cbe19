package topics

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waterclock/waterclock/trigger"
)

// What was wrong, on records of rejected and dead-letter.
const (
	errorPrefix        = commandPrefix + "error-"
	headerErrorCode    = errorPrefix + "code"
	headerErrorDetail  = errorPrefix + "detail"
	headerErrorField   = errorPrefix + "field"
	headerErrorChannel = errorPrefix + "channel"   // dead letters: where it was to go
	headerErrorCut     = errorPrefix + "truncated" // rejected: bytes of the whole, where not all of it fitted
	headerSource       = commandPrefix + "source"
	deadTargetKey      = enginePrefix + "target-key" // dead letters: the due record's key, if not the trigger's
)

// MaxRecordBytes bounds what we write in one record, before compression: a
// producer's batch, by default in Kafka and in its clients, holds about a
// million bytes. A trigger whose State grows past it must be refused.
const MaxRecordBytes = 1_000_000

const (
	maxErrorDetail = 1024    // of wc-error-detail, in bytes
	maxRejectedHdr = 256_000 // of a rejected record's own headers, in bytes
	errorRoom      = 4 << 10 // left for what was wrong
)

// RejectedRecord is what goes to topic rejected for a command that cannot be
// obeyed: its bytes and headers as they were, and what was wrong. Headers of
// an earlier rejection, and the engine's own, are not repeated. wc-source is
// where rec says it stands: give a forwarded record its first append's.
//
// A compressed batch may hold a record far larger than we may write. Of that
// one the beginning is kept, and wc-error-truncated says how large it was: a
// refusal that cannot be written would stop the partition for ever.
func RejectedRecord(rec *Record, e *trigger.Error) (key, value []byte, headers []trigger.Header) {
	headers = make([]trigger.Header, 0, len(rec.Headers)+5)
	whole, kept := len(rec.Key)+len(rec.Value), len(rec.Key)
	for _, h := range rec.Headers {
		size := len(h.Key) + len(h.Value) + headerOverhead
		whole += size
		if !ofRejection(h.Key) && kept+size <= maxRejectedHdr {
			headers, kept = append(headers, h), kept+size
		}
	}
	value = rec.Value
	if room := MaxRecordBytes - errorRoom - kept; len(value) > room {
		value = value[:room]
	}
	headers = append(headers, header(headerErrorCode, string(e.Code)), header(headerErrorDetail, clip(e.Msg, maxErrorDetail)))
	if e.Field != "" {
		headers = append(headers, header(headerErrorField, clip(e.Field, maxText)))
	}
	if whole > MaxRecordBytes-errorRoom || whole-len(rec.Value) > maxRejectedHdr {
		headers = append(headers, header(headerErrorCut, strconv.Itoa(whole)))
	}
	return rec.Key, value, append(headers, header(headerSource, Source(rec.Topic, rec.Partition, rec.Offset)))
}

// headerOverhead is the most a header's lengths take in a record.
const headerOverhead = 10

func ofRejection(key string) bool {
	return strings.HasPrefix(key, errorPrefix) || key == headerSource || strings.HasPrefix(key, enginePrefix)
}

// DeadLetterRecord is the due event nobody could deliver, under the trigger's
// key, and why.
func DeadLetterRecord(d *trigger.DeadLetter, env DueEnv) (key, value []byte, headers []trigger.Header) {
	_, value, headers = DueRecord(&d.Fire, env)
	headers = append(headers, header(headerErrorCode, d.Code), header(headerErrorDetail, clip(d.Detail, maxErrorDetail)))
	if d.Fire.Channel != "" {
		headers = append(headers, header(headerErrorChannel, d.Fire.Channel))
	}
	if d.Fire.Spec.TargetKey != "" {
		headers = append(headers, header(deadTargetKey, d.Fire.Spec.TargetKey))
	}
	return []byte(d.Fire.Key), value, headers
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
