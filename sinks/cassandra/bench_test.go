package cassandra

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
)

func BenchmarkApply(b *testing.B) {
	o := newKeyspace(b)
	sinktest.Bench(b, func(t testing.TB) sinks.History { return openTest(t, o) })
}

// BenchmarkNotifications reads a page of a hundred notifications of a user who has 10,000.
func BenchmarkNotifications(b *testing.B) {
	for _, all := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("all=%d", all), func(b *testing.B) {
			o := newKeyspace(b)
			sinktest.BenchNotifications(b, func(t testing.TB) sinks.History { return openTest(t, o) }, 10_000, all)
		})
	}
}
