package sinks

import (
	"context"
	"errors"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// History is a store of the projection. sinks/cassandra and sinks/embedded implement it, and
// sinks/sinktest tests both. All methods may be called concurrently.
type History interface {
	Writer
	Reader
	Letters
	Notifications
	Users
	Close() error
}

// Writer is the projector's side.
type Writer interface {
	// Apply makes the rows of a batch durable. It may get the same records more than once, in
	// other batches and in another order, with the same result. After an error some of the
	// rows may be there. Then apply the batch once more.
	Apply(ctx context.Context, batch []EventRecord) error

	// Progress returns the position of every partition of the topic.
	Progress(ctx context.Context) (map[int32]Progress, error)

	// OwnsOffsets reports whether Progress is written in one step with the rows. Then the
	// projector goes on from Progress, not from the consumer group's offsets.
	OwnsOffsets() bool
}

// Reader is for gateways and consoles. Tenant and trigger are as in the event: the trigger
// has its tenant's prefix.
type Reader interface {
	// Events lists the events of one trigger, in their order.
	Events(ctx context.Context, q EventQuery) (EventPage, error)

	// Trigger returns the latest known state. ok is false for an unknown trigger, and for one
	// whose row has expired.
	Trigger(ctx context.Context, tenant, key string) (s TriggerState, ok bool, err error)

	// ByMinute lists what was planned for one minute, by due time, tenant, trigger.
	ByMinute(ctx context.Context, q MinuteQuery) (MinutePage, error)
}

// ErrUnavailable is wrapped by every temporary error. The projector waits and applies the batch
// once more.
var ErrUnavailable = errors.New("history store unavailable")

// ErrRefused is wrapped by permanent errors: the store refuses the rows because of its schema,
// its rights or its limits, and an operator must fix that. The projector stops the partitions
// concerned, reports it, and keeps trying.
var ErrRefused = errors.New("history store refuses")

// EventRecord is one record of the events topic. Poison marks a record that is not an event; it
// has only a position. Raw, if set, is the JSON of Event. Code that changes Event must clear Raw.
type EventRecord struct {
	topics.Event
	Partition int32
	Offset    int64
	Poison    bool
	Raw       []byte
	Letter    *topics.Letter // from a record of topic dead-letter, which has no Event
}

// Progress is the position of a partition's projection. Next is the offset of the first
// record that is not applied, EventUS the event_us of the newest event that is.
type Progress struct {
	Next    int64
	EventUS int64
}

// EventQuery asks for a page of one trigger's events.
type EventQuery struct {
	Tenant, Trigger string
	After           EventCursor // exclusive; the zero cursor is before the first (with Newest: after the last)
	Limit           int         // 1 to 1000; 0 means 100
	Newest          bool        // newest first
	Bytes           int64       // the page ends where its events have them, with one at least; 0: no bound
	// Since reads all months from then on, even those that are not in the trigger's row, because
	// the row is lost. 0 uses the months in the row.
	Since trigger.Instant
}

// Size is about what an event takes in memory.
func (e *EventRecord) Size() int64 {
	return eventBytes + int64(len(e.Payload)+len(e.PayloadBase64)+len(e.Rule)+len(e.Detail))
}

// eventBytes is about what an event has beside its long texts.
const eventBytes = 512

// full says that a page ends before its next event.
func (q *EventQuery) full(page *EventPage) bool {
	return len(page.Events) == PageSize(q.Limit) || q.Bytes > 0 && page.bytes >= q.Bytes
}

// Add puts an event on the page. It is false, and Next is set, if the page ends before the event.
func (p *EventPage) Add(q *EventQuery, e EventRecord) bool {
	if n := len(p.Events); n > 0 && q.full(p) {
		p.Next = CursorOf(&p.Events[n-1])
		return false
	}
	p.bytes += e.Size()
	p.Events = append(p.Events, e)
	return true
}

// EventPage is a page, with the cursor of the next one. Next is zero on the last page.
type EventPage struct {
	Events []EventRecord
	Next   EventCursor

	bytes int64 // of Events
}

// TriggerState is the latest state of a trigger. Each field is from the newest event that has
// it.
type TriggerState struct {
	Tenant, Trigger      string
	State, PreviousState string
	Type                 string // of the event that set State
	Reason               string // of that event
	Revision, Seq        int64
	EventUS              int64           // of that event
	ScheduledAt          trigger.Instant // of the last plan or firing; 0: none
	Occurrence           string
	LocalTime, Timezone  string
	Channel, UserID      string
	CorrelationID        string
	Attempt              int
	Tags                 map[string]string
	ErasedUS             int64 // events at or before it have lost their content; 0: never erased
}

// MinuteQuery asks for a page of one minute.
type MinuteQuery struct {
	Minute int64 // minutes since 1970 UTC
	Shards []int // 0 to 63; nil means all
	After  MinuteCursor
	Limit  int // 1 to 1000; 0 means 100
}

// MinutePage is a page, with the cursor of the next one. Next is zero on the last page.
type MinutePage struct {
	Entries []MinuteEntry
	Next    MinuteCursor
}

// MinuteEntry is one planned instant of one trigger. Two occurrences of a trigger in the same
// millisecond share an entry.
type MinuteEntry struct {
	Due             trigger.Instant
	Tenant, Trigger string
	Occurrence      string
	State           string // PENDING PAUSED MOVED MISSED SKIPPED CANCELLED FIRED EXPIRED FAILED
	Channel, UserID string
	FiredUS         int64 // event_us of the last firing; 0: not fired
	EventUS         int64 // of the event that set State
}

// Limits of a page.
const (
	defaultPage = 100
	MaxPage     = 1000
)

// PageSize returns the page size for the limit of a query.
func PageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, MaxPage)
}

// MaxRetention bounds how long rows may be kept, because Cassandra's TTL ends at 20 years.
const MaxRetention = 10 * 365 * 24 * time.Hour
