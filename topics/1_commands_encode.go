package topics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// CommandJSON is the JSON spelling of a command, for those who write one: the
// gateway, the command line, apply. Fields are the contract's; zero ones are
// left out.
type CommandJSON struct {
	Op string `json:"op"`

	Channel string `json:"channel,omitempty"`
	UserID  string `json:"user_id,omitempty"`

	Delay      TextOrNumber   `json:"delay,omitempty"`
	FireAt     TextOrNumber   `json:"fire_at,omitempty"`
	Timezone   string         `json:"timezone,omitempty"`
	Recurrence string         `json:"recurrence,omitempty"`
	Start      TextOrNumber   `json:"start,omitempty"`
	Until      TextOrNumber   `json:"until,omitempty"` // of a recurrence, or of a snooze
	Count      int            `json:"count,omitempty"`
	Include    []string       `json:"include,omitempty"`
	Exclude    []string       `json:"exclude,omitempty"`
	DST        *DSTJSON       `json:"dst,omitempty"`
	Calendars  *CalendarsJSON `json:"calendars,omitempty"`

	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	TargetKey     string            `json:"target_key,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`

	Priority     string          `json:"priority,omitempty"`
	Jitter       TextOrNumber    `json:"jitter,omitempty"`
	ExpiresAfter TextOrNumber    `json:"expires_after,omitempty"`
	Misfire      string          `json:"misfire,omitempty"`
	FollowUser   bool            `json:"follow_user,omitempty"`
	Callback     *CallbackJSON   `json:"callback,omitempty"`
	Escalation   json.RawMessage `json:"escalation,omitempty"`

	CorrelationID  string `json:"correlation_id,omitempty"`
	IfRevision     int64  `json:"if_revision,omitempty"`
	IfAbsent       bool   `json:"if_absent,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Actor          string `json:"actor,omitempty"` // who asked, as the gateway knows them

	For        TextOrNumber `json:"for,omitempty"`        // snooze
	Occurrence string       `json:"occurrence,omitempty"` // skip, ack
	Note       string       `json:"note,omitempty"`       // pause, resume

	// Redrive alone; see RedriveCommand.
	DueID       string       `json:"due_id,omitempty"`
	Attempt     int          `json:"attempt,omitempty"` // of the dead letter
	Revision    int64        `json:"revision,omitempty"`
	ScheduledAt TextOrNumber `json:"scheduled_at,omitempty"`
	LocalTime   string       `json:"local_time,omitempty"`
	ExpiresAt   TextOrNumber `json:"expires_at,omitempty"`
}

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

// EncodeCommand makes the record value of a command. It checks that it is one
// value of JSON and no more: whoever wants to refuse before writing gives the
// result to DecodeCommand.
func EncodeCommand(key trigger.Key, c *CommandJSON) ([]byte, error) {
	if _, err := trigger.ParseKey([]byte(key)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // readers of the payload would see < as \u003c
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("encode command for %q: %w", key, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
