package cassandra

import (
	"context"
	"errors"
	"slices"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// moved is a notification that gets another place in its user's list at an event.
type moved struct {
	to sinks.NotificationKey
	us int64
}

// noteMoved notes an occurrence that first went out with a redrive. It had become a dead letter
// before that, so its notification began when it did.
func (w *writes) noteMoved(r *sinks.EventRecord, k sinks.NotificationKey) {
	if trigger.FactType(r.Type) == trigger.OccurrenceFired && r.Attempt > 1 && r.FirstFired == r.OccurredAt {
		w.moved = append(w.moved, moved{k, r.EventUS})
	}
}

// removeMoved removes the former places. It comes before the batch's rows, because these replace
// the row that names the place.
func (s *Store) removeMoved(ctx context.Context, session *gocql.Session, w *writes) error {
	if len(w.moved) == 0 {
		return nil
	}
	before := make([]sinks.NotificationKey, len(w.moved))
	err := s.each(ctx, len(w.moved), func(ctx context.Context, i int) error {
		k := w.moved[i].to
		err := session.Query(`SELECT user_id, created_at FROM notification_status WHERE tenant = ? AND notification_id = ?`,
			k.Tenant, k.ID).WithContext(ctx).Scan(&k.User, (*int64)(&k.CreatedAt))
		if errors.Is(err, gocql.ErrNotFound) {
			return nil
		}
		before[i] = k
		return err
	})
	if err != nil {
		return err
	}
	removes := &writes{s: s, now: w.now}
	for i, m := range w.moved {
		for _, k := range slices.Concat(w.placesOf(m.to), before[i:i+1]) {
			if k.User != "" && k.CreatedAt != m.to.CreatedAt {
				month := sinks.EraOf(int64(k.CreatedAt) * 1000)
				removes.addTo(userPartition(&k, month), deleteByUser, m.us, k.Tenant, k.User, month, int64(k.CreatedAt), k.ID)
			}
		}
	}
	return s.runAll(ctx, session, removes.statements)
}

// placesOf returns the places that a batch gives a notification.
func (w *writes) placesOf(k sinks.NotificationKey) (places []sinks.NotificationKey) {
	for _, place := range w.places {
		if place.Tenant == k.Tenant && place.ID == k.ID {
			places = append(places, place)
		}
	}
	return places
}
