package embedded

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
)

func TestCheckRow(t *testing.T) {
	sinktest.CheckRow(t, func(t testing.TB, c sinktest.Config) sinks.History {
		return openTest(t, Options{Dir: t.TempDir(), Retention: c.Retention, Now: time.Now})
	}, func(h sinks.History, tenant, key string) {
		if err := h.(*Store).db.Delete(triggerPrefix(tableState, tenant, key), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	})
}
