package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/topics"
)

func TestCheckNotifications(t *testing.T) {
	sinktest.CheckNotifications(t, func(t testing.TB, c sinktest.Config) sinks.History {
		return openTest(t, Options{Dir: t.TempDir(), Retention: c.Retention})
	}, func(h sinks.History, table sinktest.Lost, n *topics.Notification) {
		k := map[sinktest.Lost][]byte{
			sinktest.LostStatus:  notificationKey(tableNotifications, n.Tenant, n.ID),
			sinktest.LostContent: notificationKey(tableContent, n.Tenant, n.ID),
			sinktest.LostByUser: userKey(sinks.NotificationKey{
				Tenant: n.Tenant, User: n.User, ID: n.ID, CreatedAt: n.CreatedAt,
			}),
		}[table]
		if err := h.(*Store).db.Delete(k, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	})
}
