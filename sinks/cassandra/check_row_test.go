package cassandra

import (
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
)

// TestCheckRow removes rows by TRUNCATE, like a node that lost its files. A DELETE would leave a
// tombstone that is newer than the rewritten row.
func TestCheckRow(t *testing.T) {
	o := newKeyspace(t)
	sinktest.CheckRow(t, func(t testing.TB, c sinktest.Config) sinks.History {
		o := o
		o.Retention = c.Retention
		return openTest(t, o)
	}, func(sinks.History, string, string) { change(t, o, `TRUNCATE trigger_state`) })
}
