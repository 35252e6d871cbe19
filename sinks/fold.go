package sinks

import (
	"hash/fnv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Cell is one field of a row: the value from the event at US, which expires at Until (seconds
// since 1970). A row expires with its events. The zero cell is a field that no event has set.
type Cell[T any] struct {
	US    int64 `json:"u"`
	Until int64 `json:"e"`
	V     T     `json:"v"`
}

// Newer returns the cell of the later event.
func (c Cell[T]) Newer(o Cell[T]) Cell[T] {
	if o.US > c.US {
		return o
	}
	return c
}

// Live reports whether the cell is set and has not expired at now (seconds).
func (c Cell[T]) Live(now int64) bool { return c.US > 0 && c.Until > now }

// StateRow is a row of trigger_state. Each field has the newest value.
type StateRow struct {
	State         Cell[string]            `json:",omitzero"`
	PreviousState Cell[string]            `json:",omitzero"`
	Type          Cell[string]            `json:",omitzero"`
	Reason        Cell[string]            `json:",omitzero"`
	Revision      Cell[int64]             `json:",omitzero"`
	Seq           Cell[int64]             `json:",omitzero"`
	ScheduledAt   Cell[trigger.Instant]   `json:",omitzero"`
	Occurrence    Cell[string]            `json:",omitzero"`
	LocalTime     Cell[string]            `json:",omitzero"`
	Timezone      Cell[string]            `json:",omitzero"`
	Channel       Cell[string]            `json:",omitzero"`
	UserID        Cell[string]            `json:",omitzero"`
	CorrelationID Cell[string]            `json:",omitzero"`
	Attempt       Cell[int64]             `json:",omitzero"`
	Tags          Cell[map[string]string] `json:",omitzero"`
	ErasedUS      Cell[int64]             `json:",omitzero"`
	Eras          map[int]Cell[bool]      `json:",omitempty"` // months in which the trigger has events
}

// Merge takes the newer cells of another row. It is associative, commutative and idempotent,
// so replay is harmless.
func (r *StateRow) Merge(o *StateRow) {
	r.State, r.PreviousState = r.State.Newer(o.State), r.PreviousState.Newer(o.PreviousState)
	r.Type, r.Reason = r.Type.Newer(o.Type), r.Reason.Newer(o.Reason)
	r.Revision, r.Seq = r.Revision.Newer(o.Revision), r.Seq.Newer(o.Seq)
	r.ScheduledAt, r.Occurrence = r.ScheduledAt.Newer(o.ScheduledAt), r.Occurrence.Newer(o.Occurrence)
	r.LocalTime, r.Timezone = r.LocalTime.Newer(o.LocalTime), r.Timezone.Newer(o.Timezone)
	r.Channel, r.UserID = r.Channel.Newer(o.Channel), r.UserID.Newer(o.UserID)
	r.CorrelationID, r.Attempt = r.CorrelationID.Newer(o.CorrelationID), r.Attempt.Newer(o.Attempt)
	r.Tags, r.ErasedUS = r.Tags.Newer(o.Tags), r.ErasedUS.Newer(o.ErasedUS)
	for era, c := range o.Eras {
		if r.Eras == nil {
			r.Eras = map[int]Cell[bool]{}
		}
		r.Eras[era] = r.Eras[era].Newer(c)
	}
}

// At returns the row as a reader sees it at now. ok is false once its state has expired.
func (r *StateRow) At(now time.Time, tenant, key string) (s TriggerState, ok bool) {
	sec := now.Unix()
	if !r.State.Live(sec) {
		return s, false
	}
	s = TriggerState{
		Tenant: tenant, Trigger: key,
		State: r.State.V, PreviousState: r.PreviousState.at(sec), Type: r.Type.at(sec), Reason: r.Reason.at(sec),
		Revision: r.Revision.at(sec), Seq: r.Seq.at(sec), EventUS: r.State.US,
		ScheduledAt: r.ScheduledAt.at(sec), Occurrence: r.Occurrence.at(sec), LocalTime: r.LocalTime.at(sec),
		Timezone: r.Timezone.at(sec), Channel: r.Channel.at(sec), UserID: r.UserID.at(sec),
		CorrelationID: r.CorrelationID.at(sec), Attempt: int(r.Attempt.at(sec)), Tags: r.Tags.at(sec),
		ErasedUS: r.ErasedUS.at(sec),
	}
	if len(s.Tags) == 0 {
		s.Tags = nil // an erase sets empty tags
	}
	return s, true
}

func (c Cell[T]) at(now int64) (v T) {
	if c.Live(now) {
		return c.V
	}
	return v
}

// StateOf returns the fields of its trigger's state that one event sets.
func StateOf(e *topics.Event, retention time.Duration) StateRow {
	at := stamp{e.EventUS, StateUntil(e, retention).Unix()}
	r := StateRow{Eras: map[int]Cell[bool]{EraOf(e.EventUS): cell(at, true)}}
	if e.State == "" || e.Seq == 0 && e.State == trigger.Unknown.String() {
		return r // an event about an unknown trigger
	}
	r.State, r.PreviousState, r.Type, r.Reason = cell(at, e.State), cell(at, e.PreviousState), cell(at, e.Type),
		cell(at, e.Reason)
	r.Revision, r.Seq = cell(at, e.Revision), cell(at, e.Seq)
	if namesPlan(e) {
		r.ScheduledAt, r.Occurrence = said(at, InstantOf(e.ScheduledAt)), said(at, e.Occurrence)
		r.LocalTime = said(at, e.LocalTime)
	}
	r.Attempt = said(at, int64(e.Attempt))
	if !ofEarlierContent(e) {
		r.Timezone, r.Channel, r.UserID = said(at, e.Timezone), said(at, e.Channel), said(at, e.UserID)
		r.CorrelationID = said(at, e.CorrelationID)
	}
	if len(e.Tags) > 0 {
		r.Tags = cell(at, e.Tags)
	}
	if e.Type == string(trigger.ErasedFact) {
		r.UserID, r.CorrelationID, r.Tags = cell(at, ""), cell(at, ""), cell(at, map[string]string{})
		r.ErasedUS = cell(at, e.EventUS)
	}
	return r
}

type stamp struct{ us, until int64 }

func cell[T any](s stamp, v T) Cell[T] { return Cell[T]{s.us, s.until, v} }

// said returns the cell of a field that events omit if it is empty.
func said[T comparable](s stamp, v T) Cell[T] {
	var zero T
	if v == zero {
		return Cell[T]{}
	}
	return cell(s, v)
}

// ofEarlierContent reports whether an event is about an occurrence that may have been emitted
// before its trigger was replaced. Its channel and user may not be the trigger's.
func ofEarlierContent(e *topics.Event) bool {
	return strings.HasPrefix(e.Type, "delivery.") || e.Type == string(trigger.OccurrenceExpired) ||
		e.Type == string(trigger.OccurrenceFired) && e.Attempt > 1
}

// namesPlan reports whether scheduled_at is the time of a planned occurrence, not of a retry
// or of one for which a cancel came too late.
func namesPlan(e *topics.Event) bool {
	switch trigger.FactType(e.Type) {
	case trigger.Registered, trigger.Replaced, trigger.Rescheduled, trigger.PausedFact, trigger.Resumed,
		trigger.CancelledFact, trigger.Snoozed, trigger.OccurrenceFired, trigger.OccurrenceExpired:
		return e.ScheduledAt != ""
	}
	return false
}

// MinuteKey is the key of an entry of triggers_by_minute.
type MinuteKey struct {
	Due             trigger.Instant
	Tenant, Trigger string
}

// MinuteRow has an entry's fields, each with the newest value.
type MinuteRow struct {
	State      Cell[string] `json:",omitzero"`
	Occurrence Cell[string] `json:",omitzero"`
	Channel    Cell[string] `json:",omitzero"`
	UserID     Cell[string] `json:",omitzero"`
	FiredUS    Cell[int64]  `json:",omitzero"`
}

// Merge takes the newer cells of another row; see StateRow.Merge.
func (r *MinuteRow) Merge(o *MinuteRow) {
	r.State, r.Occurrence = r.State.Newer(o.State), r.Occurrence.Newer(o.Occurrence)
	r.Channel, r.UserID = r.Channel.Newer(o.Channel), r.UserID.Newer(o.UserID)
	r.FiredUS = r.FiredUS.Newer(o.FiredUS)
}

// At returns the entry as a reader sees it at now. ok is false once it has expired.
func (r *MinuteRow) At(now time.Time, k MinuteKey) (e MinuteEntry, ok bool) {
	sec := now.Unix()
	if !r.State.Live(sec) {
		return e, false
	}
	return MinuteEntry{
		Due: k.Due, Tenant: k.Tenant, Trigger: k.Trigger, Occurrence: r.Occurrence.at(sec),
		State: r.State.V, Channel: r.Channel.at(sec), UserID: r.UserID.at(sec), FiredUS: r.FiredUS.at(sec),
		EventUS: r.State.US,
	}, true
}

// minuteStates maps an event to the state of the entry at its scheduled_at.
var minuteStates = map[trigger.FactType]string{
	trigger.Registered: "PENDING", trigger.Replaced: "PENDING", trigger.Rescheduled: "PENDING",
	trigger.Snoozed: "PENDING", trigger.Resumed: "PENDING", trigger.PausedFact: "PAUSED",
	trigger.CancelledFact: "CANCELLED", trigger.FailedFact: "FAILED", trigger.DeadLettered: "FAILED",
	trigger.ErasedFact: "CANCELLED", trigger.Misfired: minuteMissed,
	trigger.Skipped: "SKIPPED", trigger.OccurrenceFired: "FIRED", trigger.OccurrenceExpired: "EXPIRED",
}

// minuteMissed is the state of the first entry of a missed run. Occurrences of the run that
// still fire change it later.
const minuteMissed = "MISSED"

// minuteMoved is the state of an entry whose occurrence has moved to another time.
const minuteMoved = "MOVED"

// MinutesOf calls put with an event's changes to triggers_by_minute. There are at most two:
// of the entry that it plans or ends, and of the entry that it moved away from.
func MinutesOf(e *topics.Event, retention time.Duration, put func(MinuteKey, MinuteRow)) {
	state, ok := minuteStates[trigger.FactType(e.Type)]
	if !ok {
		return
	}
	due, before := InstantOf(e.ScheduledAt), InstantOf(e.PreviousScheduled)
	if state == minuteMissed {
		due = InstantOf(e.First)
	}
	if e.State == trigger.Paused.String() && state == "PENDING" {
		state = "PAUSED" // rescheduled while paused: the pause is kept
	}
	if due != 0 {
		at := stamp{e.EventUS, minuteUntil(e.EventUS, due, retention)}
		row := MinuteRow{
			State: cell(at, state), Occurrence: said(at, e.Occurrence), Channel: said(at, e.Channel),
			UserID: said(contentStamp(e.EventUS, retention), e.UserID),
		}
		if state == "FIRED" {
			row.FiredUS = cell(at, e.EventUS)
		}
		put(MinuteKey{due, e.Tenant, e.Trigger}, row)
	}
	if before != 0 && before != due {
		at := stamp{e.EventUS, minuteUntil(e.EventUS, before, retention)}
		put(MinuteKey{before, e.Tenant, e.Trigger}, MinuteRow{State: cell(at, minuteMoved)})
	}
}

// MinuteErased blanks an entry's content as of an erase.
func MinuteErased(erasedUS int64, retention time.Duration) MinuteRow {
	return MinuteRow{UserID: cell(contentStamp(erasedUS, retention), "")}
}

// contentStamp returns the stamp of an entry's content. It expires with the event, even if the
// entry itself stays for a due time far ahead. An erase finds entries by their events, so it
// could not find content that outlives its event.
func contentStamp(us int64, retention time.Duration) stamp {
	return stamp{us, EventUntil(us, retention).Unix()}
}

// afterDue is how long an entry planned far ahead is kept past its due_at.
const afterDue = 7 * 24 * time.Hour

// minuteUntil returns when an event's value in an entry expires. A later event's value never
// expires before an earlier one's, so an old value never reappears after a newer one has expired.
// Nearly all values of an event expire together, so that one statement writes them.
func minuteUntil(us int64, due trigger.Instant, retention time.Duration) int64 {
	return max(EventUntil(us, retention).Unix(), int64(due)/1000+int64(min(retention, afterDue)/time.Second))
}

// MinuteOf returns the minute since 1970 of an instant.
func MinuteOf(i trigger.Instant) int64 { return int64(i) / 60_000 }

// Shards is the number of partitions over which one minute is spread, so that the top of an hour
// is not one hot partition.
const Shards = 64

// ShardOf returns the trigger's shard: FNV-1a of its key.
func ShardOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % Shards)
}

// EraOf returns the UTC month of an event as yyyymm. It bounds a partition of events_by_trigger.
// A trigger with the shortest period of a minute and four events per occurrence has about 175,000
// rows per era.
func EraOf(eventUS int64) int {
	y, m, _ := time.UnixMicro(eventUS).UTC().Date()
	return y*100 + int(m)
}

// EventUntil returns when an event's row expires: when its age reaches the retention.
func EventUntil(eventUS int64, retention time.Duration) time.Time {
	return time.UnixMicro(eventUS).Add(retention)
}

// minLiveState is how long the state of a living trigger is kept after its last event. A
// yearly reminder has no event for a year.
const minLiveState = 400 * 24 * time.Hour

// StateUntil returns when an event's value in its trigger's state expires. The state of a living
// trigger is kept past its plan, for at least 400 days.
func StateUntil(e *topics.Event, retention time.Duration) time.Time {
	until := EventUntil(e.EventUS, retention)
	if status, ok := trigger.ParseStatus(e.State); !ok || status.Finished() {
		return until
	}
	from := time.UnixMicro(e.EventUS)
	if due := InstantOf(e.ScheduledAt); due != 0 && due.Time().After(from) {
		from = due.Time()
	}
	return from.Add(max(retention, minLiveState))
}

// Blank removes the content of an event, as trigger.erased requires.
func Blank(e *topics.Event) {
	e.UserID, e.Detail, e.CorrelationID, e.PayloadBase64 = "", "", "", ""
	e.Tags, e.Payload = nil, nil
}
