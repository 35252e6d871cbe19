package worker

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a receipt. The engine has the same.
const (
	maxCode       = 128
	maxDetail     = 1024
	maxRetryAfter = 30 * 24 * time.Hour
)

// Receipt is a record on topic receipts: the outcome of one due event. Its record key is the
// trigger key.
type Receipt struct {
	DueID      string        // ce_id of the due event
	Channel    string        // the channel that handled it
	Outcome    Outcome       // the outcome
	Attempt    int           // attempt of the due event; 0 if the writer did not set it
	Postponed  int           // postponement count of the due event
	Code       string        // reason for machines
	Detail     string        // reason for people
	RetryAfter time.Duration // 0: the channel's retry profile decides
	At         time.Time     // the writer's clock
}

// Receipt returns the receipt for e with result r.
func (e *DueEvent) Receipt(channel string, r Result, at time.Time) Receipt {
	r = r.checked()
	return Receipt{
		DueID: e.ID, Channel: channel, Outcome: r.Outcome, Attempt: e.Attempt, Postponed: e.Postponed,
		Code: r.Code, Detail: r.Detail, RetryAfter: r.RetryAfter, At: at,
	}
}

// Append appends the JSON encoding of r to b.
func (r *Receipt) Append(b []byte) []byte {
	b = appendString(append(b, `{"due_id":`...), r.DueID)
	b = appendText(b, "channel", r.Channel)
	b = appendText(b, "outcome", string(r.Outcome))
	b = appendNumber(b, "attempt", r.Attempt)
	// Always written, even if 0: a duplicate receipt must not decide the next emission.
	b = strconv.AppendInt(append(b, `,"postponed":`...), int64(r.Postponed), 10)
	b = appendText(b, "code", r.Code)
	b = appendText(b, "detail", r.Detail)
	if r.RetryAfter > 0 {
		// Rounded up, because 0 would mean the profile.
		ms := (r.RetryAfter + time.Millisecond - 1).Milliseconds()
		b = strconv.AppendInt(append(b, `,"retry_after":"`...), ms, 10)
		b = append(b, `ms"`...)
	}
	if !r.At.IsZero() {
		b = r.At.UTC().AppendFormat(append(b, `,"at":"`...), "2006-01-02T15:04:05.000Z07:00")
		b = append(b, '"')
	}
	return append(b, '}')
}

func appendText(b []byte, name, v string) []byte {
	if v == "" {
		return b
	}
	return appendString(append(append(append(b, `,"`...), name...), `":`...), v)
}

func appendNumber(b []byte, name string, v int) []byte {
	if v <= 0 {
		return b
	}
	return strconv.AppendInt(append(append(append(b, `,"`...), name...), `":`...), int64(v), 10)
}

// appendString appends v as a JSON string. It is fast for plain strings, which nearly all are.
func appendString(b []byte, v string) []byte {
	for i := range len(v) {
		if c := v[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(v) // a string always encodes; invalid UTF-8 becomes U+FFFD
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), v...), '"')
}

// clip cuts v to at most n bytes, at a character boundary.
func clip(v string, n int) string {
	if len(v) <= n {
		return v
	}
	for n > 0 && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n]
}

// seenReceipt holds the fields that the memory needs of any writer's receipt.
type seenReceipt struct {
	DueID     string  `json:"due_id"`
	Channel   string  `json:"channel"`
	Outcome   Outcome `json:"outcome"`
	Attempt   int     `json:"attempt"`
	Postponed int     `json:"postponed"`
	offset    int64
}

// receiptReader picks the receipts of one channel from the receipts topic, which all channels
// share.
type receiptReader struct{ channel, quoted string }

func newReceiptReader(channel string) receiptReader {
	return receiptReader{channel, `"` + channel + `"`}
}

// read decodes a receipt. It returns false for another channel's receipt, and for one that the
// engine calls garbled.
func (rr receiptReader) read(key, value []byte) (r seenReceipt, ok bool) {
	if rr.another(value) {
		return r, false
	}
	if json.Unmarshal(value, &r) != nil || !r.Outcome.known() || r.Attempt < 0 || r.Postponed < 0 {
		return r, false
	}
	if r.Channel != "" && r.Channel != rr.channel {
		return r, false
	}
	rest, ours := strings.CutPrefix(r.DueID, string(key))
	return r, ours && strings.HasPrefix(rest, "@")
}

// another returns whether value names another channel, as most do; this saves decoding the JSON.
// A channel that is null or empty names none.
func (rr receiptReader) another(value []byte) bool {
	return bytes.Contains(value, []byte(`"channel"`)) && !bytes.Contains(value, []byte(rr.quoted)) &&
		!bytes.Contains(value, []byte("null")) && !bytes.Contains(value, []byte(`""`))
}
