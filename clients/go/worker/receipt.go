package worker

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on a receipt; the engine has the same.
const (
	maxCode       = 128
	maxDetail     = 1024
	maxRetryAfter = 30 * 24 * time.Hour
)

// Receipt is a record on topic receipts: what became of one due event. Its
// record key is the trigger key.
type Receipt struct {
	DueID      string        // ce_id of the due event
	Channel    string        // the channel that handled it
	Outcome    Outcome       // what became of it
	Attempt    int           // the due event's attempt; 0 if the writer did not say
	Postponed  int           // the due event's postponement; 0 for none
	Code       string        // reason for machines
	Detail     string        // reason for people
	RetryAfter time.Duration // 0: the profile
	At         time.Time     // the writer's clock
}

// Receipt is the receipt that r makes for e.
func (e *DueEvent) Receipt(channel string, r Result, at time.Time) Receipt {
	r = r.checked()
	return Receipt{
		DueID: e.ID, Channel: channel, Outcome: r.Outcome, Attempt: e.Attempt, Postponed: e.Postponed,
		Code: r.Code, Detail: r.Detail, RetryAfter: r.RetryAfter, At: at,
	}
}

// Append appends the JSON of r to b.
func (r *Receipt) Append(b []byte) []byte {
	b = appendString(append(b, `{"due_id":`...), r.DueID)
	b = appendText(b, "channel", r.Channel)
	b = appendText(b, "outcome", string(r.Outcome))
	b = appendNumber(b, "attempt", r.Attempt)
	// 0 as well: a receipt that comes twice must not decide the emission after it.
	b = strconv.AppendInt(append(b, `,"postponed":`...), int64(r.Postponed), 10)
	b = appendText(b, "code", r.Code)
	b = appendText(b, "detail", r.Detail)
	if r.RetryAfter > 0 {
		// Rounded up: 0 would mean the profile.
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

// appendString appends v as a JSON string. Nearly all of them are plain.
func appendString(b []byte, v string) []byte {
	for i := range len(v) {
		if c := v[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(v) // a string always has JSON; broken UTF-8 becomes U+FFFD
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), v...), '"')
}

// clip cuts v to at most n bytes, between characters.
func clip(v string, n int) string {
	if len(v) <= n {
		return v
	}
	for n > 0 && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n]
}

// seenReceipt is what the memory needs of a receipt that anyone wrote.
type seenReceipt struct {
	DueID     string  `json:"due_id"`
	Channel   string  `json:"channel"`
	Outcome   Outcome `json:"outcome"`
	Attempt   int     `json:"attempt"`
	Postponed int     `json:"postponed"`
}

// receiptReader reads receipts of one channel from the receipts topic, where
// those of all channels stand.
type receiptReader struct{ channel, quoted string }

func newReceiptReader(channel string) receiptReader {
	return receiptReader{channel, `"` + channel + `"`}
}

// read is false for a receipt of another channel, and for what the engine
// calls garbled.
func (rr receiptReader) read(key, value []byte) (r seenReceipt, ok bool) {
	if bytes.Contains(value, []byte(`"channel"`)) && !bytes.Contains(value, []byte(rr.quoted)) {
		return r, false // another channel's, and most of them are: spares the JSON
	}
	if json.Unmarshal(value, &r) != nil || r.Attempt < 0 || r.Postponed < 0 {
		return r, false
	}
	if r.Channel != "" && r.Channel != rr.channel {
		return r, false
	}
	rest, ours := strings.CutPrefix(r.DueID, string(key))
	return r, ours && strings.HasPrefix(rest, "@")
}
