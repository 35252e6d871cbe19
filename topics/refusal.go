package topics

import (
	"encoding/json"
	"regexp"
	"unicode/utf8"

	"github.com/waterclock/waterclock/trigger"
)

// Refusal is a request that a gateway refused. The gateway writes it to topic commands, and
// the engine, which alone writes events, emits command.rejected.
type Refusal struct {
	Code   trigger.Code `json:"-"`
	Actor  string       `json:"actor,omitempty"`
	Detail string       `json:"detail,omitempty"`
}

// headerRefused marks the record; its value is the code.
const headerRefused = enginePrefix + "refused"

// Record is the refusal's record with this key.
func (r Refusal) Record(key string) Record {
	value, err := json.Marshal(r)
	if err != nil {
		panic("topics: a refusal cannot be encoded: " + err.Error()) // two texts
	}
	return Record{Key: []byte(key), Value: value, Headers: []trigger.Header{header(headerRefused, string(r.Code))}}
}

// Err is the refusal as the engine's error.
func (r Refusal) Err() *trigger.Error { return &trigger.Error{Code: r.Code, Msg: r.Detail} }

var refusalCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// Refused reads a refusal; ok is false for any other record. Anyone who may write commands
// can write one. It has no effect but the event.
func Refused(rec *Record) (r Refusal, ok bool) {
	code := trigger.Code("")
	for i := range rec.Headers {
		if h := &rec.Headers[i]; h.Key == headerRefused && refusalCode.Match(h.Value) {
			code = trigger.Code(h.Value)
		}
	}
	if code == "" {
		return Refusal{}, false
	}
	return readRefusal(code, rec.Value), true
}

func readRefusal(code trigger.Code, value []byte) Refusal {
	r := Refusal{Code: code}
	if utf8.Valid(value) && len(value) <= 4*maxErrorDetail {
		_ = json.Unmarshal(value, &r) // a malformed one has no reason
	}
	if !code.Known() { // metrics have it as a label, so its values must be bounded
		r.Code, r.Detail = trigger.CodeInvalid, "refused as "+string(code)+": "+r.Detail
	}
	r.Actor, r.Detail = clip(r.Actor, maxText), clip(r.Detail, maxErrorDetail)
	return r
}
