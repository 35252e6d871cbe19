package topics

import "encoding/json"

// Event is one fact on waterclock.events: a flat JSON object without the fields that are
// empty (docs/formats/events.md). Sinks, gateways and analysts read it. The engine writes it
// with AppendEvent.
type Event struct {
	EventID  string `json:"event_id"` // "<partition>-<event_us>"
	Type     string `json:"type"`
	Version  int    `json:"version"`
	Trigger  string `json:"trigger"` // the trigger key
	Tenant   string `json:"tenant"`
	Revision int64  `json:"revision,omitempty"`
	// gap-free per trigger, from 1; absent when the trigger is unknown
	Seq               int64             `json:"seq,omitempty"`
	OccurredAt        string            `json:"occurred_at"` // RFC 3339, ms, UTC
	EventUS           int64             `json:"event_us"`    // strictly increasing per partition, microseconds
	Channel           string            `json:"channel,omitempty"`
	UserID            string            `json:"user_id,omitempty"`
	ScheduledAt       string            `json:"scheduled_at,omitempty"` // RFC 3339, ms, UTC
	LocalTime         string            `json:"local_time,omitempty"`
	Timezone          string            `json:"timezone,omitempty"`
	TZData            string            `json:"tzdata,omitempty"`
	Occurrence        string            `json:"occurrence,omitempty"`
	Step              *int              `json:"step,omitempty"`
	Attempt           int               `json:"attempt,omitempty"`
	State             string            `json:"state,omitempty"`
	PreviousState     string            `json:"previous_state,omitempty"`
	LatenessMS        *int64            `json:"lateness_ms,omitempty"`
	Reason            string            `json:"reason,omitempty"`
	Detail            string            `json:"detail,omitempty"`
	Actor             string            `json:"actor,omitempty"`
	Source            string            `json:"source,omitempty"` // topic/partition/offset of the command or receipt
	DueTopic          string            `json:"due_topic,omitempty"`
	DuePartition      *int32            `json:"due_partition,omitempty"`
	CorrelationID     string            `json:"correlation_id,omitempty"`
	Tags              map[string]string `json:"tags,omitempty"`
	Payload           json.RawMessage   `json:"payload,omitempty"` // the payload where it is JSON
	PayloadBase64     string            `json:"payload_base64,omitempty"`
	Count             int               `json:"count,omitempty"`
	First             string            `json:"first,omitempty"`
	Last              string            `json:"last,omitempty"`
	PreviousScheduled string            `json:"previous_scheduled_at,omitempty"`
	PreviousTZData    string            `json:"previous_tzdata,omitempty"`
	FirstFired        string            `json:"first_fired_at,omitempty"` // RFC 3339, ms, UTC: of the occurrence
	Rule              json.RawMessage   `json:"rule,omitempty"`           // a register's time fields and policies
	NextAt            string            `json:"next_at,omitempty"`        // RFC 3339, ms, UTC: planned next
	EffectiveAt       string            `json:"effective_at,omitempty"`   // of a first emission, if later than due
	// fields cut or left out, since the event did not fit its topic
	Truncated []string `json:"truncated,omitempty"`
}
