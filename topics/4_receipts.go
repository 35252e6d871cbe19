package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// Outcome is what a channel says became of a due event.
type Outcome string

// The outcomes (docs/formats/receipts.md).
const (
	OutcomeDelivered  Outcome = "delivered"
	OutcomeAccepted   Outcome = "accepted"
	OutcomeFailed     Outcome = "failed"
	OutcomeRetry      Outcome = "retry"
	OutcomePostponed  Outcome = "postponed"
	OutcomeSuppressed Outcome = "suppressed"
)

// Receipt is what a channel team says of one due event, as it was written.
type Receipt struct {
	Key        trigger.Key
	Occurrence string
	Step       int
	Channel    string // "" if it did not say
	Outcome    Outcome
	Attempt    int // 0 if it did not say: the attempt in flight
	Postponed  int // the due event's ce_wcpostponed; -1 if it did not say: the emission in flight
	Code       string
	Detail     string
	RetryAfter time.Duration   // 0: the channel's profile
	At         trigger.Instant // what the team's clock said; 0 if it did not say
	Appended   trigger.Instant // when the record was appended: waits count from it
}

// Input is the receipt as trigger.Machine takes it.
func (r *Receipt) Input() *trigger.Receipt {
	outcome, _ := trigger.ParseReceiptOutcome(string(r.Outcome)) // DecodeReceipt has checked it
	return &trigger.Receipt{
		Occurrence: r.Occurrence, Step: r.Step, Channel: r.Channel, Outcome: outcome,
		Attempt: r.Attempt, Postponed: r.Postponed, Code: r.Code, Detail: r.Detail,
		RetryAfter: r.RetryAfter, At: r.Appended,
	}
}

// DueID is the ce_id the receipt is about.
func (r *Receipt) DueID() string { return trigger.DueID(r.Key, r.Occurrence, r.Step) }

// Bounds on a receipt. Texts for events are cut, not refused: a long error text is no reason
// to lose the outcome.
const (
	maxReceiptBytes = 64 << 10
	maxReceiptCode  = 128
	maxReceiptText  = 1024
	maxRetryAfter   = 30 * 24 * time.Hour
)

// receiptJSON is the wire form. Other fields are ignored, so a team may add its own.
type receiptJSON struct {
	DueID      string          `json:"due_id"`
	Channel    string          `json:"channel,omitempty"`
	Outcome    string          `json:"outcome"`
	Attempt    int             `json:"attempt,omitempty"`
	Postponed  *int            `json:"postponed,omitempty"`
	Code       string          `json:"code,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	RetryAfter json.RawMessage `json:"retry_after,omitempty"`
	At         string          `json:"at,omitempty"`
}

// DecodeReceipt reads a receipt. An error says what is malformed. The caller writes it as an
// event and goes on.
func DecodeReceipt(rec *Record) (*Receipt, error) {
	key, err := trigger.ParseKey(rec.Key)
	if err != nil {
		return nil, err
	}
	j, err := parseReceipt(rec.Value)
	if err != nil {
		return nil, err
	}
	r := &Receipt{
		Channel: j.Channel, Attempt: j.Attempt, Postponed: -1, Appended: rec.Timestamp,
		Code: clip(j.Code, maxReceiptCode), Detail: clip(j.Detail, maxReceiptText),
	}
	if j.Postponed != nil {
		if r.Postponed = *j.Postponed; r.Postponed < 0 {
			return nil, fail(trigger.CodeInvalid, "postponed", "postponed counts from 0")
		}
	}
	if r.Key, r.Occurrence, r.Step, err = ParseDueID(j.DueID); err != nil {
		return nil, err
	}
	if err := r.check(key, j.Outcome); err != nil {
		return nil, err
	}
	if err := r.times(j); err != nil {
		return nil, err
	}
	return r, nil
}

func parseReceipt(b []byte) (j receiptJSON, err error) {
	if len(b) > maxReceiptBytes {
		return j, fail(trigger.CodeTooLarge, "", "a receipt has at most 64 KiB")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&j); err != nil {
		return j, receiptError(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return j, fail(trigger.CodeInvalid, "", "a receipt is one JSON object with nothing behind it")
	}
	return j, nil
}

func receiptError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fail(trigger.CodeInvalid, wrong.Field, wrong.Field+" has the wrong JSON type: "+wrong.Value)
	}
	return &trigger.Error{Code: trigger.CodeInvalid, Msg: "a receipt is a JSON object", Err: err}
}

func (r *Receipt) check(key trigger.Key, outcome string) error {
	_, known := trigger.ParseReceiptOutcome(outcome)
	r.Outcome = Outcome(outcome)
	switch {
	case r.Key != key:
		return fail(trigger.CodeInvalid, "due_id", "due_id is of another trigger than the record key")
	case !known:
		return fail(trigger.CodeInvalid, "outcome",
			"outcome is delivered, accepted, failed, retry, postponed or suppressed")
	case r.Attempt < 0:
		return fail(trigger.CodeInvalid, "attempt", "attempt counts from 1")
	case r.Channel != "" && !ValidChannel(r.Channel):
		return fail(trigger.CodeInvalid, "channel", "this is no channel name")
	}
	return nil
}

func (r *Receipt) times(j receiptJSON) (err error) {
	if j.At != "" {
		ms, err := calendar.ParseInstant(j.At)
		if err != nil {
			return fieldError("at", err)
		}
		r.At = trigger.Instant(ms)
	}
	text := receiptDuration(j.RetryAfter)
	if text == "" {
		return nil
	}
	if r.RetryAfter, err = calendar.ParseDuration(text); err != nil {
		return fieldError("retry_after", err)
	}
	if r.RetryAfter > maxRetryAfter {
		return fail(trigger.CodeInvalid, "retry_after", "retry_after is at most 30 days")
	}
	return nil
}

// receiptDuration is the text of a duration given as a string or a number.
func receiptDuration(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// AppendReceipt appends the JSON of a receipt, as our own channels write it.
// The record key is r.Key.
func AppendReceipt(b []byte, r *Receipt) []byte {
	b = append(appendString(append(b, `{"due_id":`...), r.DueID()), `,"outcome":`...)
	b = appendString(b, string(r.Outcome))
	b = appendField(b, "channel", r.Channel)
	if r.Attempt > 0 {
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(r.Attempt), 10)
	}
	if r.Postponed >= 0 {
		b = strconv.AppendInt(append(b, `,"postponed":`...), int64(r.Postponed), 10)
	}
	b = appendField(b, "code", clip(r.Code, maxReceiptCode))
	b = appendField(b, "detail", clip(r.Detail, maxReceiptText))
	if r.RetryAfter > 0 {
		b = strconv.AppendInt(append(b, `,"retry_after":"`...), r.RetryAfter.Milliseconds(), 10)
		b = append(b, `ms"`...)
	}
	if r.At != 0 {
		b = append(appendInstant(append(b, `,"at":"`...), r.At), '"')
	}
	return append(b, '}')
}

// appendField appends ,"name":"v" unless v is empty.
func appendField(b []byte, name, v string) []byte {
	if v == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendString(b, v)
}
