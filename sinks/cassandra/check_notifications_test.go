package cassandra

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/topics"
)

// TestCheckNotifications removes rows by TRUNCATE; see TestCheckRow.
func TestCheckNotifications(t *testing.T) {
	o := newKeyspace(t)
	sinktest.CheckNotifications(t, func(t testing.TB, c sinktest.Config) sinks.History {
		o := o
		o.Retention = c.Retention
		return openTest(t, o)
	}, func(_ sinks.History, table sinktest.Lost, _ *topics.Notification) {
		name := map[sinktest.Lost]string{
			sinktest.LostStatus: "notification_status", sinktest.LostContent: "notification_content",
			sinktest.LostByUser: "notifications_by_user",
		}[table]
		change(t, o, fmt.Sprintf(`TRUNCATE %s`, name))
	})
}
