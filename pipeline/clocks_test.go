package pipeline

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClocksAgree: a second broker counts whose clock was met lately and is as
// far from ours as the first's; the same broker does not.
func TestClocksAgree(t *testing.T) {
	const month, limit = 30 * 24 * time.Hour, 30 * time.Second
	for _, c := range []struct {
		name   string
		met    map[int32]time.Duration
		passes time.Duration
		want   bool
	}{
		{"nobody else", nil, 0, false},
		{"itself", map[int32]time.Duration{1: -month}, 0, false},
		{"one that is right", map[int32]time.Duration{2: 0}, 0, false},
		{"one that agrees", map[int32]time.Duration{2: -month + 20*time.Second}, 0, true},
		{"one that agreed too long ago", map[int32]time.Duration{2: -month}, 2 * time.Minute, false},
		{"one that agrees and one that does not", map[int32]time.Duration{2: 0, 3: -month}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var met clocks
				for broker, offset := range c.met {
					met.note(broker, offset)
				}
				time.Sleep(c.passes)
				if _, ok := met.agrees(1, -month, limit); ok != c.want {
					t.Errorf("agrees: %v", ok)
				}
			})
		})
	}
}

// TestClockHolds: what is agreed on holds as long as the offset stays what it was.
func TestClockHolds(t *testing.T) {
	c := clock{limit: 30 * time.Second}
	now := time.Now()
	offer := func(offset time.Duration, held bool) {
		t.Helper()
		if c.compare(now, now, now.Add(offset)); c.held != held {
			t.Errorf("at %v: held %v", offset, c.held)
		}
	}
	offer(0, false)
	offer(time.Hour, true)
	c.agree()
	offer(time.Hour+10*time.Second, false)
	offer(3*time.Hour, true)
	offer(time.Hour, true) // what was agreed on is over
	offer(29*time.Second, false)
}

// TestClockDoubts: to ask whether the clocks are apart changes nothing. poll asks before it waits and
// again before the turn, which must then run.
func TestClockDoubts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{limit: 30 * time.Second}
		now := time.Now()
		c.compare(now, now, now)
		apart := now.Add(2 * time.Second)
		if c.doubtful(now) {
			t.Error("the clocks agree, and it doubts")
		}
		for range 2 {
			if !c.doubtful(apart) {
				t.Error("the clocks are apart, and it does not doubt, or only once")
			}
		}
		c.asked = time.Now()
		if c.doubtful(apart) {
			t.Error("it doubts right after it has asked")
		}
	})
}
