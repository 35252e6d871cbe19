package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// A tenant is behind while more of its timers fall due than fire, and the oldest is later than the bound. Each second
// some of tenant a's fall due and the partition fires so many.
func TestBehind(t *testing.T) {
	for _, c := range []struct {
		name    string
		backlog int // timers that are an hour overdue at the beginning
		perS    int // of tenant a, on time
		low     int // of tenant b, of priority low
		fires   int // of both
		after   time.Duration
		seconds int
		a       bool // is behind, in the end; b never is
	}{
		{name: "more falls due than fires", perS: 100, fires: 60, seconds: 60, a: true},
		{name: "for a short time", perS: 100, fires: 60, seconds: 9},
		{name: "without a bound", perS: 100, fires: 60, after: -1, seconds: 60},
		{name: "within the bound", perS: 100, fires: 99, seconds: 60},
		{name: "keeps up", perS: 100, fires: 100, low: 10, seconds: 60},
		{name: "after an outage, at 80 %", backlog: 10_000, perS: 80, fires: 100, seconds: 60},
		{name: "after an outage, at 120 %", backlog: 10_000, perS: 120, fires: 100, seconds: 60, a: true},
		{name: "a herd", backlog: 10_000, fires: 100, seconds: 60},
		{name: "nothing fires", perS: 100, seconds: 60},
		{name: "another tenant takes all turns", perS: 100, low: 20, fires: 60, seconds: 60, a: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, b := fair.New(0), behind{after: 10 * time.Second}
			if c.after != 0 {
				b.after = c.after
			}
			const hour = trigger.Instant(3_600_000)
			wall := time.Unix(1_000_000, 0)
			push := func(tenant string, i int, p trigger.Priority, due, now trigger.Instant) {
				tm := trigger.Timer{Due: due, Kind: trigger.TimerSeries, Priority: p, Occurrence: fmt.Sprint(due)}
				ref := statestore.Ref(tm, trigger.Key(fmt.Sprint(tenant, "/", i)))
				q.Push(statestore.DueKey{Due: due, Ref: ref}, now)
			}
			for i := range c.backlog {
				push("a", i, trigger.Normal, hour, 2*hour)
			}
			for s := range c.seconds {
				now := 2*hour + trigger.Instant(s*1000)
				for i := range c.perS {
					push("a", i, trigger.Normal, now, now)
				}
				for i := range c.low {
					push("b", i, trigger.Low, now, now)
				}
				q.Take(c.fires, now)
				wall = wall.Add(time.Second)
				b.check(wall, now+1000, &q)
			}
			if got := b.of("a", wall) > 0; got != c.a {
				t.Errorf("a is behind: %v, %+v", got, b.late)
			}
			if b.of("b", wall) > 0 {
				t.Errorf("b is behind: %+v", b.late)
			}
			if c.a && b.of("a", wall.Add(checkHolds)) > 0 {
				t.Error("behind long after the last turn")
			}
		})
	}
}
