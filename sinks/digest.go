package sinks

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Table names one of the projection's tables.
type Table uint8

// The tables that Compare compares.
const (
	TableEvents Table = iota + 1
	TableState
	TableMinute
	TableLetterEnds
	TableLetters
	TableNotifications
)

func (t Table) String() string {
	return [...]string{
		TableEvents: "events_by_trigger", TableState: "trigger_state",
		TableMinute: "triggers_by_minute", TableLetterEnds: "dead_letter_ends", TableLetters: "dead_letters",
		TableNotifications: "notification_status",
	}[t]
}

// Tables are the tables that come from the event log. TableLetters comes from topic dead-letter.
var Tables = []Table{TableEvents, TableState, TableMinute, TableLetterEnds, TableNotifications}

// Row is what a comparison needs of a row: its owner, the event that wrote it last, and a digest
// of what that event set.
type Row struct {
	Tenant, Trigger string
	EventUS         int64
	Partition       int32           // of the event; -1 if the table does not have it
	Due             trigger.Instant // triggers_by_minute: part of the row's key
	ID              string          // notification_status: part of the row's key
	BornUS          int64           // a time before all events that wrote it; 0 if only the last matters
	Until           int64           // when it expires, in seconds, or some time earlier
	Digest          [16]byte
}

// Scanner reads whole tables, in any order. It is slow, and only for Compare.
type Scanner interface {
	Scan(ctx context.Context, t Table, visit func(Row) error) error
}

// EventDigest returns the row of an event. It leaves out the record's offset, because a topic
// that was recreated has others.
func EventDigest(r *EventRecord, retention time.Duration) Row {
	d := newDigest()
	d.text(r.Type, r.State, r.PreviousState, r.Channel, r.UserID, r.ScheduledAt, r.Occurrence, r.Reason, r.Detail,
		r.LocalTime, r.Timezone, r.TZData, r.Actor, r.Source, r.DueTopic, r.CorrelationID, r.PayloadBase64,
		r.First, r.Last, r.PreviousScheduled, r.PreviousTZData, r.FirstFired, r.EventID, r.OccurredAt,
		string(r.Payload), string(r.Rule), r.NextAt, r.EffectiveAt)
	d.number(r.EventUS, r.Seq, r.Revision, int64(r.Attempt), int64(r.Count), int64(r.Version), int64(len(r.Tags)))
	for _, name := range slices.Sorted(maps.Keys(r.Tags)) {
		d.text(name, r.Tags[name])
	}
	optional(d, r.Step)
	optional(d, r.LatenessMS)
	optional(d, r.DuePartition)
	return Row{
		Tenant: r.Tenant, Trigger: r.Trigger, EventUS: r.EventUS, Partition: r.Partition,
		Until: EventUntil(r.EventUS, retention).Unix(), Digest: d.sum(),
	}
}

// StateDigest returns the row of a trigger's state, with the fields that its newest event set.
// Fields from older events may come from before the log begins.
func StateDigest(s *TriggerState, retention time.Duration) Row {
	d := newDigest()
	d.text(s.State, s.PreviousState, s.Type, s.Reason)
	d.number(s.Revision, s.Seq, s.EventUS)
	until := StateUntil(&topics.Event{EventUS: s.EventUS, State: s.State}, retention)
	return Row{
		Tenant: s.Tenant, Trigger: s.Trigger, EventUS: s.EventUS, Partition: -1, Until: until.Unix(), Digest: d.sum(),
	}
}

// MinuteDigest returns the row of an entry, with the fields that the newest event set.
func MinuteDigest(e *MinuteEntry, retention time.Duration) Row {
	d := newDigest()
	d.text(e.State)
	d.number(int64(e.Due), e.EventUS)
	return Row{
		Tenant: e.Tenant, Trigger: e.Trigger, EventUS: e.EventUS, Partition: -1, Due: e.Due,
		Until: minuteUntil(e.EventUS, e.Due, retention), Digest: d.sum(),
	}
}

// NotificationDigest returns the row of a notification. All its events come after its creation,
// so a log that has the first has all.
func NotificationDigest(n *topics.Notification, eventUS int64, retention time.Duration) Row {
	d := newDigest()
	d.text(n.ID, n.User, n.Type)
	d.number(int64(n.CreatedAt), int64(n.AckedAt), eventUS, int64(len(n.Channels)))
	for _, channel := range slices.Sorted(maps.Keys(n.Channels)) {
		d.text(channel, n.Channels[channel])
	}
	return Row{
		Tenant: n.Tenant, Trigger: n.Trigger, ID: n.ID, EventUS: eventUS, BornUS: int64(n.CreatedAt) * 1000,
		Partition: -1, Until: NotificationUntil(n.CreatedAt, retention).Unix(), Digest: d.sum(),
	}
}

// digest hashes each field with its length, so that adjacent fields cannot be confused.
type digest struct {
	h hash.Hash
	b []byte
}

func newDigest() *digest { return &digest{h: sha256.New()} }

func (d *digest) text(all ...string) {
	for _, s := range all {
		d.b = append(binary.AppendUvarint(d.b[:0], uint64(len(s))), s...)
		d.h.Write(d.b)
	}
}

func (d *digest) number(all ...int64) {
	for _, n := range all {
		d.h.Write(binary.AppendVarint(d.b[:0], n))
	}
}

// optional distinguishes an absent field from one that is 0.
func optional[T int | int32 | int64](d *digest, v *T) {
	if v == nil {
		d.number(0)
		return
	}
	d.number(1, int64(*v))
}

func (d *digest) sum() (out [16]byte) {
	copy(out[:], d.h.Sum(nil))
	return out
}
