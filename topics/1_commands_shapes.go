package topics

import (
	"encoding/json"
	"strconv"
	"time"
)

// DSTJSON says what to do with wall times that do not exist or exist twice.
type DSTJSON struct {
	Gap     string `json:"gap,omitempty"`     // shift, skip
	Overlap string `json:"overlap,omitempty"` // first, second, both
}

// CalendarsJSON names holiday sets and what happens on their days.
type CalendarsJSON struct {
	Names []string `json:"names"`
	On    string   `json:"on,omitempty"` // skip, next_business_day, previous_business_day
}

// CallbackJSON is where channel webhook delivers.
type CallbackJSON struct {
	URL     string         `json:"url"`
	Timeout TextOrNumber   `json:"timeout,omitempty"`
	Retry   []TextOrNumber `json:"retry,omitzero"` // nil: the channel's profile; empty: no retries
}

// StepJSON is a step of an escalation.
type StepJSON struct {
	Channel string       `json:"channel"`
	After   TextOrNumber `json:"after,omitempty"` // since the step before; none in the first
}

// TextOrNumber is a duration or a time: JSON has it as a string or a number,
// and either means the same.
type TextOrNumber string

// UnmarshalJSON keeps a number by its digits.
func (t *TextOrNumber) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*t = TextOrNumber(n)
	return nil
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
