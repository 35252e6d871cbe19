package sinks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// The faults of a trigger's notifications.
const (
	// NotificationDiffers means that a row of notification_status or notifications_by_user is
	// missing, or differs from the fold of the trigger's events. It can be rewritten from the
	// events.
	NotificationDiffers RowFault = "notification_differs"
	// ContentMissing means that a row of notification_content is missing. It can be rewritten as
	// long as the due topic has the event.
	ContentMissing RowFault = "content_missing"
)

// NotificationFault is a fault of one notification.
type NotificationFault struct {
	ID     string
	Fault  RowFault
	Mended bool
}

// DueAt is the location of a due event.
type DueAt struct {
	TopicPartition
	Fired trigger.Instant // its record was appended at this time, or a little later
	ID    string          // id of the notification
}

// NotificationCheck compares the rows of notifications with the events of their triggers, and
// content with the due topics.
type NotificationCheck struct {
	History   History
	Retention time.Duration
	Now       func() time.Time
	Mend      bool

	// ReadDue reads the record of a due event. ok is false if the topic no longer has it. If
	// ReadDue is nil, content is not checked.
	ReadDue func(ctx context.Context, at DueAt) (r ContentRecord, ok bool, err error)
	// DueSince is the time from which the due topics are complete. Older content is not checked,
	// because nothing could restore it.
	DueSince trigger.Instant

	// Pause is the wait before a second comparison of rows that differ, because they may just be
	// being written. Default 1 s.
	Pause time.Duration
}

// Check compares a trigger's notifications. Call it once the history has read all events that
// existed. Content that the history's reader has not reached yet is not a fault.
func (c *NotificationCheck) Check(ctx context.Context, k Known) (faults []NotificationFault, err error) {
	if k.Nobody {
		return nil, nil
	}
	first, err := c.walk(ctx, k)
	if err != nil || len(first.differ) == 0 && len(first.mute) == 0 {
		return nil, err
	}
	pause := c.Pause
	setDefault(&pause, time.Second)
	wait.For(ctx, pause)
	second, err := c.walk(ctx, k)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(second.differ)) {
		n, before := second.differ[id], first.differ[id]
		if before == nil || before.row.LastUS() != n.row.LastUS() {
			continue // it is being written
		}
		f := NotificationFault{ID: id, Fault: NotificationDiffers}
		if c.Mend {
			if f.Mended, err = c.write(ctx, n); err != nil {
				return faults, fmt.Errorf("write notification %s again: %w", id, err)
			}
		}
		faults = append(faults, f)
	}
	for _, id := range slices.Sorted(maps.Keys(second.mute)) {
		if first.mute[id] == nil {
			continue
		}
		missing, mended, err := c.content(ctx, second.mute[id])
		if err != nil {
			return faults, fmt.Errorf("content of %s: %w", id, err)
		}
		if missing {
			faults = append(faults, NotificationFault{id, ContentMissing, mended})
		}
	}
	return faults, nil
}

// folded is one notification according to a trigger's events.
type folded struct {
	id     string
	tenant string
	row    NotificationRow
	events []EventRecord // the events about it
	due    DueAt         // of its first emission; no topic if it was never emitted
}

// notificationWalk is the result of reading a trigger's events once.
type notificationWalk struct {
	c      *NotificationCheck
	open   map[string]*folded // older events may still follow
	speaks bool               // some payload of the trigger has content
	differ map[string]*folded
	mute   map[string]*folded // without content
}

// walk reads a trigger's events, newest first. A notification is complete once the walk has
// reached events older than its first.
func (c *NotificationCheck) walk(ctx context.Context, k Known) (*notificationWalk, error) {
	w := &notificationWalk{
		c: c, open: map[string]*folded{}, speaks: k.Speaks, differ: map[string]*folded{}, mute: map[string]*folded{},
	}
	q := EventQuery{Tenant: k.Key.Tenant(), Trigger: string(k.Key), Limit: MaxPage, Newest: true}
	err := eachPage(ctx, c.History, q, func(events []EventRecord) error {
		oldest := int64(0)
		for i := range events {
			w.add(&events[i])
			oldest = events[i].EventUS
		}
		for id, n := range w.open {
			if int64(n.row.CreatedAt.V)*1000 > oldest {
				delete(w.open, id)
				if err := w.check(ctx, n); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if !w.speaks {
		clear(w.mute)
	}
	return w, err
}

func (w *notificationWalk) add(r *EventRecord) {
	payload := []byte(r.Payload)
	if !w.speaks && len(payload) > 0 {
		_, w.speaks = topics.ContentOf(payload)
	}
	k, said, ok := NotificationOf(&r.Event, w.c.Retention)
	if !ok {
		return
	}
	n := w.open[k.ID]
	if n == nil {
		n = &folded{id: k.ID, tenant: k.Tenant}
		w.open[k.ID] = n
	}
	n.row.Merge(&said)
	n.events = append(n.events, *r)
	if r.Type == string(trigger.OccurrenceFired) && r.DueTopic != "" && r.DuePartition != nil {
		n.due = DueAt{TopicPartition{r.DueTopic, *r.DuePartition}, trigger.Instant(r.EventUS / 1000), k.ID}
	}
}

func (w *notificationWalk) check(ctx context.Context, n *folded) error {
	same, content, err := w.c.same(ctx, n)
	if err != nil {
		return err
	}
	if !same {
		w.differ[n.id] = n
	}
	if same && !content && w.c.ReadDue != nil && n.due.Topic != "" && n.row.User.V != "" &&
		n.row.CreatedAt.V >= w.c.DueSince {
		w.mute[n.id] = n
	}
	return nil
}

// soon is the time before a notification's end in which it is no longer compared.
const soon = time.Minute

// same compares a notification's rows with the fold, and reports whether it has content.
func (c *NotificationCheck) same(ctx context.Context, n *folded) (same, content bool, err error) {
	now := c.Now()
	want, ok := n.row.At(now, n.tenant, n.id)
	if !ok || NotificationUntil(want.CreatedAt, c.Retention).Before(now.Add(soon)) {
		return true, true, nil
	}
	got, ok, err := c.History.Notification(ctx, n.tenant, n.id)
	if err != nil {
		return false, false, err
	}
	content = got.Content != nil
	if !ok || got.User != want.User || got.CreatedAt != want.CreatedAt || got.Type != want.Type ||
		got.AckedAt != want.AckedAt || !maps.Equal(got.Channels, want.Channels) {
		return false, content, nil
	}
	if n.row.Type.US == 0 || want.User == "" {
		return true, content, nil // it is in no list
	}
	q := topics.NotificationQuery{
		Tenant: n.tenant, User: want.User, From: want.CreatedAt, To: want.CreatedAt + 1, Limit: MaxPage,
	}
	for {
		page, err := c.History.Notifications(ctx, q)
		if err != nil {
			return false, content, err
		}
		for i := range page.Items {
			if one := &page.Items[i]; one.ID == n.id {
				return one.Type == want.Type && one.AckedAt == want.AckedAt && maps.Equal(one.Channels, want.Channels),
					content, nil
			}
		}
		if q.After = page.Next; q.After.IsZero() {
			return false, content, nil
		}
	}
}

// write rewrites a notification's rows from its events.
func (c *NotificationCheck) write(ctx context.Context, n *folded) (mended bool, err error) {
	for part := range slices.Chunk(n.events, MaxPage) {
		if err := c.History.Apply(ctx, part); err != nil {
			return false, err
		}
	}
	mended, _, err = c.same(ctx, n)
	return mended, err
}

// content finds a notification's content in the due topic, and rewrites it.
func (c *NotificationCheck) content(ctx context.Context, n *folded) (missing, mended bool, err error) {
	said, ok, err := c.ReadDue(ctx, n.due)
	if err != nil || ok && !said.Has {
		return false, false, err // it has no content
	}
	if !ok {
		return true, false, nil
	}
	progress, err := c.History.ContentProgress(ctx)
	if err != nil || progress[said.TopicPartition] <= said.Offset {
		return false, false, err // the reader has not reached it yet
	}
	has := func() (bool, error) {
		got, _, err := c.History.Notification(ctx, n.tenant, n.id)
		return got.Content != nil, err
	}
	if there, err := has(); err != nil || there {
		return false, false, err
	}
	if !c.Mend {
		return true, false, nil
	}
	err = c.History.ApplyContent(ctx, []ContentRecord{said})
	there, err2 := has()
	return true, there, errors.Join(err, err2)
}
