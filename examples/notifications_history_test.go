package examples

import "testing"

func TestNotificationsHistory(t *testing.T) {
	runGuide(t, startDev(t), t.TempDir(), "../docs/api/notifications-history.md", 1)
}
