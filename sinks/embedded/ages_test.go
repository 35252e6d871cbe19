package embedded

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
)

// A directory that grows old shows what a directory rebuilt that day would show, swept or not.
func TestLive(t *testing.T) {
	for _, swept := range []bool{false, true} {
		t.Run(map[bool]string{true: "swept", false: "not swept"}[swept], func(t *testing.T) {
			var now atomic.Int64
			now.Store(start.UnixNano())
			clock := func() time.Time { return time.Unix(0, now.Load()) }
			var open []*Store
			c := sinktest.Clock{
				Now: clock, Day: 24 * time.Hour,
				Ages: []int{0, 30, 89, 91, 100, 119, 121, 150, 200, 400, 900},
			}
			c.Wait = func(until time.Time) {
				now.Store(max(now.Load(), until.UnixNano()))
				for _, s := range open {
					if !swept {
						break
					}
					if err := s.Sweep(); err != nil {
						t.Fatal(err)
					}
				}
			}
			sinktest.Live(t, func(t testing.TB, c sinktest.Config) sinks.History {
				s := openTest(t, Options{Dir: t.TempDir(), Retention: c.Retention, Now: clock, SweepEvery: -1})
				open = append(open, s)
				return s
			}, c)
		})
	}
}
