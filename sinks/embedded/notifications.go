package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Notifications (docs/formats/history.md). Table u has only keys: the positions of a user's
// notifications. Readers then read the rows of n and c. The rows are JSON, because only a few
// updates are merged into each.

// putNotification writes what an event sets in a notification, and lists it for its user unless
// the trigger was erased since.
func (c *change) putNotification(r *sinks.EventRecord, erasedUS int64) error {
	k, said, ok := sinks.NotificationOf(&r.Event, c.s.retention())
	if !ok || !sinks.NotificationUntil(k.CreatedAt, c.s.retention()).After(c.s.opts.Now()) {
		return nil
	}
	key := notificationKey(tableNotifications, k.Tenant, k.ID)
	if err := c.mergeRow(key, &said); err != nil {
		return err
	}
	switch {
	case erasedUS != 0:
		blank := sinks.NotificationErased(erasedUS, k.CreatedAt, c.s.retention())
		return c.mergeRow(key, &blank)
	case said.Type.US != 0: // it was emitted, so this is the user who got it
		return c.out.Set(userKey(k), beganAt(int64(k.CreatedAt)), nil)
	}
	return nil
}

// eraseNotifications removes the user and the content from a trigger's notifications that earlier
// batches wrote, and removes them from the user's list.
func (c *change) eraseNotifications(tenant, key string, us int64) error {
	err := c.notificationsOf(tableNotifications, tenant, key, func(k []byte, id string, v []byte) error {
		var row sinks.NotificationRow
		if err := decodeRow(v, &row); err != nil {
			return err
		}
		if row.User.US > us {
			return nil // of a later life
		}
		blank := sinks.NotificationErased(us, row.CreatedAt.V, c.s.retention())
		err := c.mergeRow(k, &blank)
		if row.User.V != "" {
			at := sinks.NotificationKey{Tenant: tenant, User: row.User.V, ID: id, CreatedAt: row.CreatedAt.V}
			err = errors.Join(err, c.out.Delete(userKey(at), nil))
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.notificationsOf(tableContent, tenant, key, func(k []byte, _ string, v []byte) error {
		var row sinks.ContentRow
		if err := decodeRow(v, &row); err != nil || row.US > us {
			return err
		}
		return c.out.Delete(k, nil)
	})
}

// notificationsOf visits the rows of a trigger's notifications.
func (c *change) notificationsOf(
	table byte, tenant, key string, visit func(k []byte, id string, v []byte) error,
) error {
	prefix := appendBeginning(appendText([]byte{table}, tenant), key+"@")
	return c.s.scan(prefix, after(prefix), func(k, v []byte) error {
		_, id, err := parseNotificationKey(k)
		if err != nil {
			return err
		}
		if of, _ := topics.TriggerOfNotification(id); of != key { // a longer key may begin with this key and an @
			return nil
		}
		return visit(slices.Clone(k), id, v)
	})
}

// ApplyContent writes content and the positions of the topics as one Pebble batch.
func (s *Store) ApplyContent(ctx context.Context, batch []sinks.ContentRecord) error {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	out := s.db.NewBatch()
	defer out.Close()
	heads := map[sinks.TopicPartition]int64{}
	for i := range batch {
		r := &batch[i]
		heads[r.TopicPartition] = max(heads[r.TopicPartition], r.Offset+1)
		if err := s.putContent(out, r); err != nil {
			return fmt.Errorf("apply content: %w", err)
		}
	}
	for p, next := range heads {
		k := appendInt(appendText([]byte{tableContentProgress}, p.Topic), int64(p.Partition))
		if err := out.Set(k, binary.AppendVarint(nil, next), nil); err != nil {
			return fmt.Errorf("apply content: %w", err)
		}
	}
	return wrap("apply content", s.commit(out))
}

// putContent leaves out expired content, and content that was emitted before its trigger was
// erased.
func (s *Store) putContent(out *pebble.Batch, r *sinks.ContentRecord) error {
	if !r.Has || !r.Until(s.retention()).After(s.opts.Now()) {
		return nil
	}
	var state sinks.StateRow
	if err := s.get(triggerPrefix(tableState, r.Tenant, r.Trigger), &state); err != nil {
		return err
	}
	if r.US <= state.ErasedUS.V {
		return nil
	}
	return out.Merge(notificationKey(tableContent, r.Tenant, r.ID), encodeRow(&r.ContentRow), nil)
}

// ContentProgress reads the positions of the due topics.
func (s *Store) ContentProgress(context.Context) (map[sinks.TopicPartition]int64, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	all := map[sinks.TopicPartition]int64{}
	prefix := []byte{tableContentProgress}
	err := s.scan(prefix, after(prefix), func(k, v []byte) error {
		topic, rest, err := takeText(k[1:])
		if err != nil {
			return err
		}
		partition, _, err := takeInt(rest)
		next, n := binary.Varint(v)
		if err == nil && n <= 0 {
			err = errValue
		}
		all[sinks.TopicPartition{Topic: topic, Partition: int32(partition)}] = next
		return err
	})
	return all, wrap("read progress of content", err)
}

// readAside is how many rows of a page are read concurrently. Each is elsewhere in the database,
// and most of the time goes into reading and decompressing a block.
const readAside = 4

// Notifications reads a user's list in key order, which is newest first.
func (s *Store) Notifications(ctx context.Context, q topics.NotificationQuery) (
	page topics.NotificationPage, err error,
) {
	if err := s.enter(); err != nil {
		return page, err
	}
	defer s.leave()
	limit := sinks.PageSize(q.Limit)
	var positions []topics.NotificationCursor
	read := func() error {
		found, err := s.notificationsBy(ctx, &q, positions)
		page.Items, positions = append(page.Items, found...), positions[:0]
		return err
	}
	err = s.walk(s.userRange(&q), false, func(k, _ []byte) error {
		created, id, err := parseUserKey(k)
		if err != nil {
			return err
		}
		positions = append(positions, topics.NotificationCursor{CreatedAt: created, ID: id})
		if len(page.Items)+len(positions) <= limit {
			return nil
		}
		if err := read(); err != nil || len(page.Items) <= limit {
			return err
		}
		return errStop
	})
	if err == nil {
		err = read()
	}
	if err != nil {
		return topics.NotificationPage{}, wrap("read notifications", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].Cursor()
	}
	return page, nil
}

// notificationsBy reads notifications, several concurrently, in the order of their positions in the
// list. It leaves out expired ones, and those that now belong to another user or have another position.
func (s *Store) notificationsBy(ctx context.Context, q *topics.NotificationQuery,
	positions []topics.NotificationCursor,
) (list []topics.Notification, err error) {
	found := make([]topics.Notification, len(positions))
	ours := make([]bool, len(positions))
	var g errgroup.Group
	var next atomic.Int64
	for range min(readAside, len(positions)) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(positions); i = int(next.Add(1)) - 1 {
				n, ok, err := s.notification(q.Tenant, positions[i].ID, q.Content)
				if err := errors.Join(err, ctx.Err()); err != nil {
					return err
				}
				found[i], ours[i] = n, ok && n.User == q.User && n.CreatedAt == positions[i].CreatedAt
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i := range found {
		if ours[i] {
			list = append(list, found[i])
		}
	}
	return list, nil
}

func (s *Store) userRange(q *topics.NotificationQuery) [2][]byte {
	from, to := sinks.NotificationBounds(q, s.opts.Now(), s.retention())
	prefix := appendText(appendText([]byte{tableByUser}, q.Tenant), q.User)
	bounds := [2][]byte{appendInt(slices.Clone(prefix), 1-int64(to)), appendInt(slices.Clone(prefix), 1-int64(from))}
	if !q.After.IsZero() {
		at := appendText(appendInt(slices.Clone(prefix), -int64(q.After.CreatedAt)), q.After.ID)
		if behind := append(at, 0); slices.Compare(behind, bounds[0]) > 0 {
			bounds[0] = behind
		}
	}
	if slices.Compare(bounds[0], bounds[1]) > 0 {
		bounds[0] = bounds[1]
	}
	return bounds
}

// Notification reads a notification with its content.
func (s *Store) Notification(_ context.Context, tenant, id string) (n topics.Notification, ok bool, err error) {
	if err := s.enter(); err != nil {
		return n, false, err
	}
	defer s.leave()
	n, ok, err = s.notification(tenant, id, true)
	return n, ok, wrap("read notification", err)
}

func (s *Store) notification(tenant, id string, content bool) (n topics.Notification, ok bool, err error) {
	now := s.opts.Now()
	var row sinks.NotificationRow
	if err := s.get(notificationKey(tableNotifications, tenant, id), &row); err != nil {
		return n, false, err
	}
	if n, ok = row.At(now, tenant, id); !ok || !content {
		return n, ok, nil
	}
	var said sinks.ContentRow
	err = s.get(notificationKey(tableContent, tenant, id), &said)
	n.Content = said.At(now, s.retention())
	return n, true, err
}

// dropNotifications removes what readers no longer see.
func (s *Store) dropNotifications() error {
	now := s.opts.Now()
	all := func(table byte, live func(v []byte) (bool, error)) error {
		return s.dropRows([]byte{table}, after([]byte{table}), live)
	}
	return errors.Join(
		all(tableByUser, s.liveSince),
		all(tableNotifications, func(v []byte) (bool, error) {
			var row sinks.NotificationRow
			err := decodeRow(v, &row)
			return row.CreatedAt.Live(now.Unix()), err
		}),
		all(tableContent, func(v []byte) (bool, error) {
			var row sinks.ContentRow
			err := decodeRow(v, &row)
			return row.At(now, s.retention()) != nil, err
		}),
	)
}

func (s *Store) notificationDigest(k, v []byte) (sinks.Row, bool, error) {
	tenant, id, err := parseNotificationKey(k)
	if err != nil {
		return sinks.Row{}, false, err
	}
	var row sinks.NotificationRow
	if err := decodeRow(v, &row); err != nil {
		return sinks.Row{}, false, err
	}
	n, ok := row.At(s.opts.Now(), tenant, id)
	return sinks.NotificationDigest(&n, row.LastUS(), s.retention()), ok, nil
}

func notificationKey(table byte, tenant, id string) []byte {
	b := append(make([]byte, 0, len(tenant)+len(id)+8), table)
	return appendText(appendText(b, tenant), id)
}

func parseNotificationKey(k []byte) (tenant, id string, err error) { return parseStateKey(k) }

func userKey(k sinks.NotificationKey) []byte {
	b := append(make([]byte, 0, len(k.Tenant)+len(k.User)+len(k.ID)+24), tableByUser)
	b = appendInt(appendText(appendText(b, k.Tenant), k.User), -int64(k.CreatedAt))
	return appendText(b, k.ID)
}

func parseUserKey(k []byte) (created trigger.Instant, id string, err error) {
	k = k[1:]
	for range 2 {
		if _, k, err = takeText(k); err != nil {
			return 0, "", err
		}
	}
	ms, k, err := takeInt(k)
	if err != nil {
		return 0, "", err
	}
	id, k, err = takeText(k)
	if err == nil && len(k) != 0 {
		err = errKey
	}
	return trigger.Instant(-ms), id, err
}
