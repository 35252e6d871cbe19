package sinks

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Notifications is the part of the history with users' notifications. Their status comes from the
// events, through Writer.Apply, and their content from the due topics. The topics are read
// independently, and reading joins status and content.
type Notifications interface {
	// ApplyContent makes the content of a batch of due events durable, and the positions of their
	// topics. Like Apply, it may get the same records more than once.
	ApplyContent(ctx context.Context, batch []ContentRecord) error

	// ContentProgress returns the position of each due topic.
	ContentProgress(ctx context.Context) (map[TopicPartition]int64, error)

	// Notifications lists a user's notifications, newest first.
	Notifications(ctx context.Context, q topics.NotificationQuery) (topics.NotificationPage, error)

	// Notification returns a notification of a tenant, with its content. ok is false if it is
	// unknown or has expired.
	Notification(ctx context.Context, tenant, id string) (n topics.Notification, ok bool, err error)
}

// The values of channel_status.
const (
	StatusPending    = "PENDING"
	StatusSent       = "SENT"
	StatusDelivered  = "DELIVERED"
	StatusFailed     = "FAILED"
	StatusSuppressed = "SUPPRESSED"
	StatusPostponed  = "POSTPONED"
)

var channelStatuses = map[trigger.FactType]string{
	trigger.OccurrenceFired: StatusPending, trigger.DeliveryRetried: StatusPending,
	trigger.DeliveryAccepted: StatusSent, trigger.DeliveryDelivered: StatusDelivered,
	trigger.DeliveryFailed: StatusFailed, trigger.DeadLettered: StatusFailed, trigger.OccurrenceExpired: StatusFailed,
	trigger.DeliverySuppressed: StatusSuppressed, trigger.DeliveryPostponed: StatusPostponed,
}

// NotificationKey identifies a notification and its position in its user's list.
type NotificationKey struct {
	Tenant, User, ID string
	CreatedAt        trigger.Instant
}

// NotificationRow has a notification's fields, each with the newest value. All of them expire
// together, when the notification's age reaches the retention.
type NotificationRow struct {
	User      Cell[string]            `json:"u,omitzero"`
	CreatedAt Cell[trigger.Instant]   `json:"c,omitzero"`
	Type      Cell[string]            `json:"t,omitzero"` // set, perhaps to "", once it was emitted
	AckedAt   Cell[trigger.Instant]   `json:"a,omitzero"`
	Channels  map[string]Cell[string] `json:"s,omitempty"`
}

// Merge takes the newer cells of another row; see StateRow.Merge.
func (r *NotificationRow) Merge(o *NotificationRow) {
	r.User, r.CreatedAt = r.User.Newer(o.User), r.CreatedAt.Newer(o.CreatedAt)
	r.Type, r.AckedAt = r.Type.Newer(o.Type), r.AckedAt.Newer(o.AckedAt)
	for channel, c := range o.Channels {
		if r.Channels == nil {
			r.Channels = map[string]Cell[string]{}
		}
		r.Channels[channel] = r.Channels[channel].Newer(c)
	}
}

// At returns the notification as a reader sees it at now. ok is false once it has expired.
func (r *NotificationRow) At(now time.Time, tenant, id string) (n topics.Notification, ok bool) {
	sec := now.Unix()
	key, ok := topics.TriggerOfNotification(id)
	if !ok || !r.CreatedAt.Live(sec) {
		return n, false
	}
	n = topics.Notification{
		Tenant: tenant, Trigger: key, ID: id, User: r.User.at(sec), CreatedAt: r.CreatedAt.V, Type: r.Type.at(sec),
		AckedAt: r.AckedAt.at(sec), Channels: make(map[string]string, len(r.Channels)),
	}
	for channel, c := range r.Channels {
		if c.Live(sec) {
			n.Channels[channel] = c.V
		}
	}
	return n, true
}

// LastUS returns the event_us of the newest event in the row.
func (r *NotificationRow) LastUS() int64 {
	last := max(r.User.US, r.CreatedAt.US, r.Type.US, r.AckedAt.US)
	for _, c := range r.Channels {
		last = max(last, c.US)
	}
	return last
}

// NotificationOf returns the fields of a notification that one event sets. ok is false if it sets
// none. An occurrence that was never emitted has a notification only if it has ended. Its
// creation time is then that of the end.
func NotificationOf(e *topics.Event, retention time.Duration) (k NotificationKey, r NotificationRow, ok bool) {
	kind := trigger.FactType(e.Type)
	status := channelStatuses[kind]
	acked := kind == trigger.EscalationStopped && e.Reason == reasonAck
	if e.UserID == "" || e.Occurrence == "" || status == "" && !acked {
		return k, r, false
	}
	if e.Reason == trigger.ReasonNoReceipts { // it changes nothing, and has the trigger's current user
		return k, r, false
	}
	created := InstantOf(e.FirstFired)
	if created == 0 {
		if kind != trigger.OccurrenceExpired && kind != trigger.DeadLettered {
			return k, r, false
		}
		created = trigger.Instant(e.EventUS / 1000)
	}
	k = NotificationKey{
		Tenant: e.Tenant, User: e.UserID, ID: topics.NotificationID(e.Trigger, e.Occurrence), CreatedAt: created,
	}
	at := stamp{e.EventUS, NotificationUntil(created, retention).Unix()}
	r.CreatedAt = cell(at, created)
	late := e.Reason == trigger.ReasonLate
	if !late { // the event of a late receipt has the trigger's current user
		r.User = cell(at, e.UserID)
	}
	if kind == trigger.OccurrenceFired || e.FirstFired == "" {
		r.Type = cell(at, e.Tags["type"])
	}
	switch {
	case acked:
		r.AckedAt = cell(at, InstantOf(e.OccurredAt))
	case !late || kind == trigger.DeliveryDelivered:
		if e.Channel != "" {
			r.Channels = map[string]Cell[string]{e.Channel: cell(at, status)}
		}
	default:
		return k, r, false // too late to change anything
	}
	return k, r, true
}

const reasonAck = "ack"

// NotificationErased blanks the user's data in a notification as of an erase.
func NotificationErased(erasedUS int64, created trigger.Instant, retention time.Duration) NotificationRow {
	at := stamp{erasedUS, NotificationUntil(created, retention).Unix()}
	return NotificationRow{User: cell(at, ""), Type: cell(at, "")}
}

// NotificationUntil returns when a notification's rows expire: when its age reaches the
// retention. A later event does not extend it.
func NotificationUntil(created trigger.Instant, retention time.Duration) time.Time {
	return created.Time().Add(retention)
}

// NotificationBounds narrow a query to rows that have not expired at now.
func NotificationBounds(
	q *topics.NotificationQuery, now time.Time, retention time.Duration,
) (from, to trigger.Instant) {
	from, to = max(q.From, trigger.At(now.Add(-retention))+1), q.To
	if to == 0 {
		to = trigger.At(now.Add(maxAhead)) // the brokers' clocks may be ahead of ours
	}
	if !q.After.IsZero() {
		to = min(to, q.After.CreatedAt+1)
	}
	return from, to
}

// TopicPartition is a partition of a due topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// ContentRecord is one record of a due topic: its position, and its content if it is a due event
// with content for a user.
type ContentRecord struct {
	TopicPartition
	Offset int64
	Has    bool

	Tenant, Trigger, ID string
	ContentRow
}

// ContentRow is the content of a notification, from its emission at US. All emissions of a
// notification have the same content.
type ContentRow struct {
	US      int64                      `json:"u"`
	Content topics.NotificationContent `json:"c"`
	Created trigger.Instant            `json:"t,omitzero"` // only the first emission has it
}

// Merge takes the content of the later emission.
func (r *ContentRow) Merge(o *ContentRow) {
	created := max(r.Created, o.Created)
	if o.US > r.US {
		*r = *o
	}
	r.Created = created
}

// Until returns when the row expires.
func (r *ContentRow) Until(retention time.Duration) time.Time {
	return time.UnixMicro(r.US).Add(retention)
}

// At returns the content as a reader sees it at now, or nil once it has expired.
func (r *ContentRow) At(now time.Time, retention time.Duration) *topics.NotificationContent {
	if r.US == 0 || !r.Until(retention).After(now) {
		return nil
	}
	c := r.Content
	c.CreatedAt = r.Created
	return &c
}

// ContentOf decodes a record of a due topic. Anything but a due event with content for a user
// gets only a position, because channels may use topics with other records. So does an event whose
// id no store accepts as a key.
func ContentOf(rec *topics.Record) ContentRecord {
	r := ContentRecord{TopicPartition: TopicPartition{rec.Topic, rec.Partition}, Offset: rec.Offset}
	d, err := topics.DecodeDue(rec)
	if err != nil || d.Fire.Spec.UserID == "" || d.Fire.Fired <= 0 || len(rec.Value) > maxValue ||
		d.Fire.Fired.Time().After(rec.Timestamp.Time().Add(maxAhead)) {
		return r
	}
	content, ok := topics.ContentOf(rec.Value)
	if !ok {
		return r
	}
	f := &d.Fire
	id := topics.NotificationID(string(f.Key), f.Occurrence)
	if len(id) > maxKey || !utf8.ValidString(id) {
		return r
	}
	r.Has = true
	r.Tenant, r.Trigger, r.ID = f.Key.Tenant(), string(f.Key), id
	r.ContentRow = ContentRow{US: int64(f.Fired) * 1000, Content: content}
	if f.Attempt <= 1 && f.Step == 0 && f.Postponed == 0 {
		r.Created = f.Fired
	}
	return r
}
