package topics

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/trigger"
)

// EventVersion is the version of the event format.
const EventVersion = 1

// EventEnv is the part of an event that comes from the turn that emits it.
type EventEnv struct {
	Partition   int32
	EventUS     int64           // strictly increasing in the partition
	At          trigger.Instant // the turn's reading of the clock
	Source      string          // Source of the command or receipt; "" for timers
	WithPayload bool            // setting events.payload

	EffectiveAt trigger.Instant // of a first emission behind a watermark; 0: its due time counts

	Truncated []string // fields that AppendEventWithin has cut; only it sets this
}

// eventStart is how every event begins. Nothing else that the engine writes without headers
// does.
const eventStart = `{"event_id":"`

// IsEvent reports whether a record's value is an event, as AppendEvent writes it.
func IsEvent(value []byte) bool { return bytes.HasPrefix(value, []byte(eventStart)) }

// AppendEvent appends the JSON of one fact, as DecodeEvent and any JSON
// reader understand it. It allocates only to grow b. Tags must be sorted by
// key, as they are in a Spec.
func AppendEvent(b []byte, key trigger.Key, f *trigger.Fact, env EventEnv) []byte {
	b = append(b, eventStart...)
	b = append(strconv.AppendInt(b, int64(env.Partition), 10), '-')
	b = strconv.AppendInt(b, env.EventUS, 10)
	b = append(append(b, `","type":"`...), f.Type...)
	b = append(b, `","version":1,"trigger":`...)
	b = append(appendString(b, string(key)), `,"tenant":`...)
	b = appendString(b, key.Tenant())
	b = appendNumber(b, "revision", f.Revision)
	b = appendNumber(b, "seq", f.Seq)
	b = append(appendInstant(append(b, `,"occurred_at":"`...), env.At), `","event_us":`...)
	b = strconv.AppendInt(b, env.EventUS, 10)
	b = appendOccurrence(b, f)
	b = appendOutcome(b, f, env.Source)
	b = appendContent(b, f, env.WithPayload)
	b = appendNumber(b, "count", int64(f.Count))
	b = appendTime(b, "first", f.First)
	b = appendTime(b, "last", f.Last)
	b = appendTime(b, "previous_scheduled_at", f.PreviousScheduled)
	b = appendField(b, "previous_tzdata", f.PreviousTZData)
	b = appendTime(b, "first_fired_at", f.FirstFired)
	if f.Rule != nil {
		b = appendRule(append(b, `,"rule":`...), f.Rule)
	}
	b = appendTime(b, "next_at", f.Next)
	b = appendTime(b, "effective_at", env.EffectiveAt)
	b = appendTruncated(b, env.Truncated)
	return append(b, '}')
}

func appendOccurrence(b []byte, f *trigger.Fact) []byte {
	b = appendField(b, "channel", f.Channel)
	b = appendField(b, "user_id", f.UserID)
	b = appendTime(b, "scheduled_at", f.Scheduled)
	b = appendField(b, "local_time", f.Local)
	b = appendField(b, "timezone", f.Zone)
	b = appendField(b, "tzdata", f.TZData)
	b = appendField(b, "occurrence", f.Occurrence)
	if f.HasStep {
		b = strconv.AppendInt(append(b, `,"step":`...), int64(f.Step), 10)
		b = appendNumber(b, "attempt", int64(f.Attempt))
	}
	return b
}

func appendOutcome(b []byte, f *trigger.Fact, source string) []byte {
	b = appendField(b, "state", f.State.String())
	b = appendField(b, "previous_state", f.Previous.String())
	if f.HasLate {
		b = strconv.AppendInt(append(b, `,"lateness_ms":`...), f.Lateness, 10)
	}
	b = appendField(b, "reason", f.Reason)
	b = appendField(b, "detail", f.Detail)
	b = appendField(b, "actor", f.Actor)
	b = appendField(b, "source", source)
	if f.HasDue {
		b = appendField(b, "due_topic", f.DueTopic)
		b = strconv.AppendInt(append(b, `,"due_partition":`...), int64(f.DuePart), 10)
	}
	return appendField(b, "correlation_id", f.Corr)
}

func appendContent(b []byte, f *trigger.Fact, withPayload bool) []byte {
	if len(f.Tags) > 0 {
		b = appendTags(append(b, `,"tags":`...), f.Tags)
	}
	if withPayload && f.Spec != nil && len(f.Spec.Payload) > 0 {
		b = appendPayload(b, f.Spec.Payload)
	}
	return b
}

// appendPayload appends the payload as it is, without white space between its
// tokens, if it is JSON; else in base64.
func appendPayload(b, payload []byte) []byte {
	if beginsJSON(payload) {
		as, err := jsontext.AppendFormat(append(b, `,"payload":`...), payload, jsontext.AllowDuplicateNames(true))
		if err == nil {
			return as
		}
	}
	b = append(b, `,"payload_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(b, payload), '"')
}

// ruleFields are the fields of a register that say when and by which policies it fires.
var ruleFields = [...]field{
	fDelay, fFireAt, fTimezone, fRecurrence, fStart, fUntil, fCount, fInclude, fExclude, fDST, fCalendars,
	fPriority, fJitter, fExpiresAfter, fMisfire, fFollowUser, fEscalation,
}

// appendRule appends an object with the rule's fields that are not defaults, spelled as in a
// command.
func appendRule(b []byte, s *trigger.Spec) []byte {
	b = append(b, '{')
	begin := len(b)
	for _, f := range ruleFields {
		def := &fieldTable[f]
		b = appendMember(b, begin, def.name, func(b []byte) []byte { return def.spell(b, s) }) // none for a default
	}
	return append(b, '}')
}

func appendNumber(b []byte, name string, v int64) []byte {
	if v == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, v, 10)
}

func appendTime(b []byte, name string, v trigger.Instant) []byte {
	if v == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":"`...)
	return append(appendInstant(b, v), '"')
}

// EventID spells an event's id: <partition>-<event_us>.
func EventID(partition int32, eventUS int64) string {
	b := append(strconv.AppendInt(make([]byte, 0, 24), int64(partition), 10), '-')
	return string(strconv.AppendInt(b, eventUS, 10))
}
