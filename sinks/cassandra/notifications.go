package cassandra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const (
	// It adds only this event's elements to the map, because other events wrote the others.
	updateStatus = `UPDATE notification_status USING TIMESTAMP ? AND TTL ? SET
 user_id = ?, created_at = ?, type = ?, acked_at = ?, event_us = ?, channel_status = channel_status + ?
 WHERE tenant = ? AND notification_id = ?`
	updateByUser = `UPDATE notifications_by_user USING TIMESTAMP ? AND TTL ? SET
 type = ?, acked_at = ?, channel_status = channel_status + ?
 WHERE tenant = ? AND user_id = ? AND month = ? AND created_at = ? AND notification_id = ?`

	updateContent = `UPDATE notification_content USING TIMESTAMP ? AND TTL ? SET
 title = ?, body = ?, deep_link = ?, template_id = ?, template_data = ?, created_at = ?, fired_us = ?
 WHERE tenant = ? AND notification_id = ?`

	deleteByUser = `DELETE FROM notifications_by_user USING TIMESTAMP ?
 WHERE tenant = ? AND user_id = ? AND month = ? AND created_at = ? AND notification_id = ?`
	deleteContent = `DELETE FROM notification_content USING TIMESTAMP ? WHERE tenant = ? AND notification_id = ?`
)

// putNotification writes a row of both tables, with a statement of each for every event that still
// sets a cell; nearly always one.
func (w *writes) putNotification(k sinks.NotificationKey, row *sinks.NotificationRow) {
	ttl, ok := w.ttl(sinks.NotificationUntil(k.CreatedAt, w.s.opts.Retention).Unix())
	if !ok {
		return
	}
	last := row.LastUS()
	for at := range notificationStamps(row) {
		var eventUS any = gocql.UnsetValue
		if at.us == last { // true for one of them, because every event has created_at
			eventUS = last
		}
		w.add(updateStatus, at.us, ttl, of(row.User, at, native), of(row.CreatedAt, at, native),
			of(row.Type, at, native), of(row.AckedAt, at, native), eventUS, statusAt(row, at), k.Tenant, k.ID)
	}
	w.putListed(k, row)
}

// putListed writes a row of its user's list.
func (w *writes) putListed(k sinks.NotificationKey, row *sinks.NotificationRow) {
	ttl, ok := w.ttl(sinks.NotificationUntil(k.CreatedAt, w.s.opts.Retention).Unix())
	if !ok {
		return
	}
	month := sinks.EraOf(int64(k.CreatedAt) * 1000)
	for at := range notificationStamps(row) {
		status := statusAt(row, at)
		if status != gocql.UnsetValue || at == stampOf(row.Type) || at == stampOf(row.AckedAt) {
			w.addTo(userPartition(&k, month), updateByUser, at.us, ttl, of(row.Type, at, native),
				of(row.AckedAt, at, native), status, k.Tenant, k.User, month, int64(k.CreatedAt), k.ID)
		}
	}
}

func userPartition(k *sinks.NotificationKey, month int) partitionKey {
	return partitionKey{"notifications_by_user", k.Tenant, k.User, month}
}

// notificationStamps returns the stamps of all cells that were written.
func notificationStamps(row *sinks.NotificationRow) map[stamp]bool {
	all := map[stamp]bool{
		stampOf(row.User): true, stampOf(row.CreatedAt): true, stampOf(row.Type): true, stampOf(row.AckedAt): true,
	}
	for _, c := range row.Channels {
		all[stampOf(c)] = true
	}
	delete(all, stamp{})
	return all
}

// statusAt returns the channels whose status an event wrote.
func statusAt(row *sinks.NotificationRow, at stamp) any {
	var some map[string]string
	for channel, c := range row.Channels {
		if stampOf(c) == at {
			if some == nil {
				some = map[string]string{}
			}
			some[channel] = c.V
		}
	}
	if some == nil {
		return gocql.UnsetValue
	}
	return some
}

// eraseNotification removes a notification from its user's list, blanks its user, and deletes its
// content, as of an erase.
func (w *writes) eraseNotification(e *topics.Event, erasedUS int64) {
	e.Reason = "" // so that a late receipt's row is erased too
	if trigger.FactType(e.Type) == trigger.EscalationStopped {
		e.Reason = "ack"
	}
	k, _, ok := sinks.NotificationOf(e, w.s.opts.Retention)
	if !ok {
		return
	}
	row := sinks.NotificationErased(erasedUS, k.CreatedAt, w.s.opts.Retention)
	if ttl, ok := w.ttl(row.User.Until); ok {
		w.add(updateStatus, erasedUS, ttl, "", gocql.UnsetValue, "", gocql.UnsetValue, gocql.UnsetValue,
			gocql.UnsetValue, k.Tenant, k.ID)
	}
	month := sinks.EraOf(int64(k.CreatedAt) * 1000)
	w.addTo(userPartition(&k, month), deleteByUser, erasedUS, k.Tenant, k.User, month, int64(k.CreatedAt), k.ID)
	w.add(deleteContent, erasedUS, k.Tenant, k.ID)
}

// newest holds the newest event_us of each partition that was applied, by this process or an
// earlier one.
type newest struct {
	mu sync.Mutex
	us map[int32]int64
}

func (n *newest) note(heads map[int32]sinks.Progress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.us == nil {
		n.us = map[int32]int64{}
	}
	for partition, p := range heads {
		n.us[partition] = max(n.us[partition], p.EventUS)
	}
}

// knowNewest reads the positions of a batch's partitions when this process first sees them. A
// replay may come long after an erase, when its deletions have left no trace.
func (s *Store) knowNewest(ctx context.Context, batch []sinks.EventRecord) error {
	known := func(r sinks.EventRecord) bool { return s.newest.knows(r.Partition) }
	if !slices.ContainsFunc(batch, func(r sinks.EventRecord) bool { return !known(r) }) {
		return nil
	}
	all, err := s.Progress(ctx)
	if err != nil {
		return err
	}
	for i := range batch {
		if p := batch[i].Partition; !s.newest.knows(p) {
			s.newest.note(map[int32]sinks.Progress{p: all[p]})
		}
	}
	return nil
}

func (n *newest) knows(partition int32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.us[partition]
	return ok
}

func (n *newest) of(partition int32) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.us[partition]
}

// noteLate notes an event's trigger if a newer erase may already have been applied. That erase
// did not know the event's rows.
func (w *writes) noteLate(r *sinks.EventRecord) {
	if r.EventUS > w.s.newest.of(r.Partition) {
		return
	}
	if w.late == nil {
		w.late = map[[2]string]bool{}
	}
	w.late[[2]string{r.Tenant, r.Trigger}] = true
}

// eraseLate erases the rows that a batch wrote for triggers that were erased since.
func (s *Store) eraseLate(ctx context.Context, session *gocql.Session, batch []sinks.EventRecord, w *writes) error {
	if len(w.late) == 0 {
		return nil
	}
	keys := slices.Collect(maps.Keys(w.late))
	erased, err := s.erasedTriggers(ctx, session, keys)
	if err != nil || len(erased) == 0 {
		return err
	}
	blanks := &writes{s: s, now: w.now}
	for i := range batch {
		e := batch[i].Event
		if us := erased[[2]string{e.Tenant, e.Trigger}]; !batch[i].Poison && e.EventUS <= us {
			blanks.eraseNotification(&e, us)
		}
	}
	return s.runAll(ctx, session, blanks.statements)
}

// erasedTriggers returns when some triggers were erased, for those that were.
func (s *Store) erasedTriggers(ctx context.Context, session *gocql.Session, keys [][2]string) (
	map[[2]string]int64, error,
) {
	times := make([]int64, len(keys))
	err := s.each(ctx, len(keys), func(ctx context.Context, i int) error {
		err := session.Query(`SELECT erased_us FROM trigger_state WHERE tenant = ? AND trigger = ?`, keys[i][0],
			keys[i][1]).WithContext(ctx).Scan(&times[i])
		if errors.Is(err, gocql.ErrNotFound) {
			return nil
		}
		return err
	})
	erased := map[[2]string]int64{}
	for i, us := range times {
		if us != 0 {
			erased[keys[i]] = us
		}
	}
	return erased, err
}

// ApplyContent writes content, and then deletes the content of triggers that were erased since,
// because the erase could not find it. Both erase and content check for the other after their
// writes.
func (s *Store) ApplyContent(ctx context.Context, batch []sinks.ContentRecord) error {
	return s.do(ctx, "apply content", func(session *gocql.Session) error {
		now, err := clock(ctx, session)
		if err != nil {
			return fmt.Errorf("read the server's time: %w", err)
		}
		w := &writes{s: s, now: now}
		triggers := w.putContents(batch)
		if err := s.runAll(ctx, session, w.statements); err != nil {
			return err
		}
		erased, err := s.erasedTriggers(ctx, session, triggers)
		if err != nil {
			return fmt.Errorf("find erasures: %w", err)
		}
		w.statements = nil
		heads := map[sinks.TopicPartition]int64{}
		for i := range batch {
			r := &batch[i]
			heads[r.TopicPartition] = max(heads[r.TopicPartition], r.Offset+1)
			if us := erased[[2]string{r.Tenant, r.Trigger}]; r.Has && r.US <= us {
				w.add(deleteContent, us, r.Tenant, r.ID)
			}
		}
		for p, next := range heads {
			w.add(insertProgress, p.Topic, p.Partition, next, int64(0), next)
		}
		return s.runAll(ctx, session, w.statements)
	})
}

// putContents writes the rows of a batch and returns their triggers.
func (w *writes) putContents(batch []sinks.ContentRecord) [][2]string {
	triggers := map[[2]string]bool{}
	for i := range batch {
		r := &batch[i]
		if !r.Has {
			continue
		}
		ttl, ok := w.ttl(r.Until(w.s.opts.Retention).Unix())
		if !ok {
			continue
		}
		triggers[[2]string{r.Tenant, r.Trigger}] = true
		c := &r.Content
		w.add(updateContent, r.US, ttl, set(c.Title), set(c.Body), set(c.DeepLink), set(c.TemplateID),
			set(string(c.TemplateData)), set(int64(r.Created)), r.US, r.Tenant, r.ID)
	}
	return slices.Collect(maps.Keys(triggers))
}

// ContentProgress reads the positions of the due topics. Reading resumes from the group's
// offsets, not from these.
func (s *Store) ContentProgress(ctx context.Context) (all map[sinks.TopicPartition]int64, err error) {
	err = s.do(ctx, "read progress of content", func(session *gocql.Session) error {
		all = map[sinks.TopicPartition]int64{}
		it := session.Query(`SELECT topic, partition, next_offset FROM progress`).WithContext(ctx).Iter()
		var p sinks.TopicPartition
		var next int64
		for it.Scan(&p.Topic, &p.Partition, &next) {
			if p.Topic != s.opts.Topic && p.Topic != s.opts.DeadLetters {
				all[p] = next
			}
		}
		return it.Close()
	})
	return all, err
}

const selectByUser = `SELECT created_at, notification_id, type, acked_at, channel_status FROM notifications_by_user
 WHERE tenant = ? AND user_id = ? AND month = ? AND created_at >= ? AND created_at < ?`

// Notifications reads the months of a query, newest first.
func (s *Store) Notifications(ctx context.Context, q topics.NotificationQuery) (
	page topics.NotificationPage, err error,
) {
	err = s.do(ctx, "read notifications", func(session *gocql.Session) error {
		page = topics.NotificationPage{}
		from, to := sinks.NotificationBounds(&q, s.opts.Now(), s.opts.Retention)
		if from >= to {
			return nil
		}
		for _, month := range erasBetween(from, to, true) {
			if full, err := userMonth(ctx, session, &q, month, from, to, &page); err != nil || full {
				return errors.Join(err, s.addContents(ctx, session, q.Content, page.Items))
			}
		}
		return s.addContents(ctx, session, q.Content, page.Items)
	})
	return page, err
}

// userMonth adds the notifications of one month. full reports that the page is full and there are
// more.
func userMonth(ctx context.Context, session *gocql.Session, q *topics.NotificationQuery, month int,
	from, to trigger.Instant, page *topics.NotificationPage,
) (full bool, err error) {
	limit := sinks.PageSize(q.Limit)
	it := session.Query(selectByUser, q.Tenant, q.User, month, int64(from), int64(to)).WithContext(ctx).
		PageSize(limit + 1).Iter()
	for {
		n := topics.Notification{Tenant: q.Tenant, User: q.User}
		var kind *string
		if !it.Scan((*int64)(&n.CreatedAt), &n.ID, &kind, (*int64)(&n.AckedAt), &n.Channels) {
			return false, it.Close()
		}
		key, ok := topics.TriggerOfNotification(n.ID)
		if kind == nil || !ok || n.CreatedAt == q.After.CreatedAt && n.ID <= q.After.ID {
			continue
		}
		if len(page.Items) == limit {
			page.Next = page.Items[limit-1].Cursor()
			return true, it.Close()
		}
		n.Trigger, n.Type, n.Channels = key, *kind, notNil(n.Channels)
		page.Items = append(page.Items, n)
	}
}

// notNil returns an empty map for nil.
func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// contentsAtOnce is how many contents a query asks for. Each is a partition of its own: one query for all
// of a page would leave the page to one coordinator.
const contentsAtOnce = 10

// addContents reads the contents of a page, which is of one tenant.
func (s *Store) addContents(
	ctx context.Context, session *gocql.Session, wanted bool, items []topics.Notification,
) error {
	if !wanted {
		return nil
	}
	parts := slices.Collect(slices.Chunk(items, contentsAtOnce))
	return s.each(ctx, len(parts), func(ctx context.Context, i int) error {
		return readContents(ctx, session, parts[i])
	})
}

const selectContents = `SELECT notification_id, title, body, deep_link, template_id, template_data, created_at
 FROM notification_content WHERE tenant = ? AND notification_id IN ?`

// readContents sets the content of each notification that has one. They are of one tenant.
func readContents(ctx context.Context, session *gocql.Session, items []topics.Notification) error {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	it := session.Query(selectContents, items[0].Tenant, ids).WithContext(ctx).Iter()
	found := make(map[string]*topics.NotificationContent, len(items))
	for {
		var c topics.NotificationContent
		var id, data string
		if !it.Scan(&id, &c.Title, &c.Body, &c.DeepLink, &c.TemplateID, &data, (*int64)(&c.CreatedAt)) {
			break
		}
		if data != "" {
			c.TemplateData = jsontext.Value(data)
		}
		found[id] = &c
	}
	for i := range items {
		items[i].Content = found[items[i].ID]
	}
	return it.Close()
}

// Notification reads a notification with its content.
func (s *Store) Notification(ctx context.Context, tenant, id string) (n topics.Notification, ok bool, err error) {
	err = s.do(ctx, "read notification", func(session *gocql.Session) error {
		n, ok = topics.Notification{Tenant: tenant, ID: id}, false
		key, is := topics.TriggerOfNotification(id)
		if !is {
			return nil
		}
		n.Trigger = key
		err := session.Query(`SELECT user_id, created_at, type, acked_at, channel_status FROM notification_status
 WHERE tenant = ? AND notification_id = ?`, tenant, id).WithContext(ctx).
			Scan(&n.User, (*int64)(&n.CreatedAt), &n.Type, (*int64)(&n.AckedAt), &n.Channels)
		if errors.Is(err, gocql.ErrNotFound) || err == nil && n.CreatedAt == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		ok, n.Channels = true, notNil(n.Channels)
		one := []topics.Notification{n}
		err = readContents(ctx, session, one)
		n.Content = one[0].Content
		return err
	})
	if !ok {
		return topics.Notification{}, false, err
	}
	return n, true, err
}

const scanNotifications = `SELECT tenant, notification_id, user_id, created_at, type, acked_at, channel_status, event_us
 FROM notification_status WHERE token(tenant, notification_id) >= ? AND token(tenant, notification_id) <= ?`

func nextNotification(it *gocql.Iter, retention time.Duration) (row sinks.Row, there, more bool) {
	var n topics.Notification
	var eventUS int64
	if !it.Scan(&n.Tenant, &n.ID, &n.User, (*int64)(&n.CreatedAt), &n.Type, (*int64)(&n.AckedAt), &n.Channels,
		&eventUS) {
		return row, false, false
	}
	n.Trigger, _ = topics.TriggerOfNotification(n.ID)
	return sinks.NotificationDigest(&n, eventUS, retention), n.CreatedAt != 0, true
}
