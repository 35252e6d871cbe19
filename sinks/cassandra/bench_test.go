package cassandra

import (
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
)

func BenchmarkApply(b *testing.B) {
	o := newKeyspace(b)
	sinktest.Bench(b, func(t testing.TB) sinks.History { return openTest(t, o) })
}
