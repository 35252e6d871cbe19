package cassandra

import (
	"context"
	"errors"
	"slices"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// moved is a notification that gets another position in its user's list at an event.
type moved struct {
	to sinks.NotificationKey
	us int64
}

// noteMoved notes an occurrence that first went out with a redrive, or that ended once more without
// having gone out. It had become a dead letter before that, so its notification began when it did.
func (w *writes) noteMoved(r *sinks.EventRecord, k sinks.NotificationKey) {
	moves := false
	switch trigger.FactType(r.Type) {
	case trigger.OccurrenceFired:
		moves = r.FirstFired == r.OccurredAt
	case trigger.DeadLettered, trigger.OccurrenceExpired:
		moves = r.FirstFired == ""
	}
	if moves && r.Attempt > 1 {
		w.moved = append(w.moved, moved{k, r.EventUS})
	}
}

// removeMoved removes the former positions. It comes before the batch's rows, because these replace
// the row that names the position.
func (s *Store) removeMoved(ctx context.Context, session *gocql.Session, w *writes) error {
	if len(w.moved) == 0 {
		return nil
	}
	keys := make([]sinks.NotificationKey, len(w.moved))
	for i := range w.moved {
		keys[i] = w.moved[i].to
	}
	before, err := s.positionsNow(ctx, session, keys)
	if err != nil {
		return err
	}
	removes := &writes{s: s, now: w.now}
	for i, m := range w.moved {
		for _, k := range slices.Concat(w.positionsOf(m.to), before[i:i+1]) {
			if k.User != "" && k.CreatedAt != m.to.CreatedAt {
				month := sinks.EraOf(int64(k.CreatedAt) * 1000)
				removes.addTo(userPartition(&k, month), deleteByUser, m.us, k.Tenant, k.User, month, int64(k.CreatedAt),
					k.ID)
			}
		}
	}
	return s.runAll(ctx, session, removes.statements)
}

// positionsOf returns the positions that a batch gives a notification.
func (w *writes) positionsOf(k sinks.NotificationKey) (positions []sinks.NotificationKey) {
	for _, at := range w.positions {
		if at.Tenant == k.Tenant && at.ID == k.ID {
			positions = append(positions, at)
		}
	}
	return positions
}

// lateReceipt is what the event of a late receipt sets. That event has the trigger's present user.
type lateReceipt struct {
	k   sinks.NotificationKey
	row sinks.NotificationRow
}

// listLate writes late receipts into the list of the user who got the notification, if that is
// another one than the trigger's present user.
func (s *Store) listLate(ctx context.Context, session *gocql.Session, w *writes) error {
	if len(w.receipts) == 0 {
		return nil
	}
	keys := make([]sinks.NotificationKey, len(w.receipts))
	for i := range w.receipts {
		keys[i] = w.receipts[i].k
	}
	got, err := s.positionsNow(ctx, session, keys)
	if err != nil {
		return err
	}
	lists := &writes{s: s, now: w.now}
	for i, k := range got {
		if k.User != "" && k.User != w.receipts[i].k.User {
			lists.putListed(k, &w.receipts[i].row)
		}
	}
	return s.runAll(ctx, session, lists.statements)
}

// positionsNow reads the positions of notifications. One without a user is in no list.
func (s *Store) positionsNow(ctx context.Context, session *gocql.Session, keys []sinks.NotificationKey) (
	positions []sinks.NotificationKey, err error,
) {
	positions = make([]sinks.NotificationKey, len(keys))
	err = s.each(ctx, len(keys), func(ctx context.Context, i int) error {
		k := keys[i]
		err := session.Query(selectPosition, k.Tenant, k.ID).WithContext(ctx).Scan(&k.User, (*int64)(&k.CreatedAt))
		if errors.Is(err, gocql.ErrNotFound) {
			return nil
		}
		positions[i] = k
		return err
	})
	return positions, err
}

const selectPosition = `SELECT user_id, created_at FROM notification_status WHERE tenant = ? AND notification_id = ?`
