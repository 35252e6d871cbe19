package sinks

import (
	"context"

	"github.com/waterclock/waterclock/topics"
)

// Users is the part of the history that an erasure of a user needs.
type Users interface {
	// TriggersOf visits the keys of the triggers whose last known user is this one, and of the
	// triggers of that user's notifications. It may visit a key more than once. It reads all
	// triggers.
	TriggersOf(ctx context.Context, tenant, user string, visit func(key string) error) error
}

// NotifiedTriggers visits the triggers of a user's notifications, for TriggersOf.
func NotifiedTriggers(ctx context.Context, n Notifications, tenant, user string, visit func(key string) error) error {
	q := topics.NotificationQuery{Tenant: tenant, User: user, Limit: MaxPage}
	for last := ""; ; {
		page, err := n.Notifications(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if key := page.Items[i].Trigger; key != last {
				if err := visit(key); err != nil {
					return err
				}
				last = key
			}
		}
		if q.After = page.Next; q.After.IsZero() {
			return nil
		}
	}
}
