package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func TestStalls(t *testing.T) {
	type said struct {
		term, at, through int64
		held              string
	}
	for _, c := range []struct {
		name   string
		said   []said
		stalls int
	}{
		{"it follows", []said{{1, 1000, 990, ""}, {1, 2000, 1000, ""}, {1, 3000, 2000, ""}, {1, 8000, 7999, ""}}, 0},
		{"it stands", []said{{1, 1000, 990, ""}, {1, 2000, 990, ""}, {1, 3000, 990, ""}}, 1},
		{"it stands on", []said{{1, 1000, 990, ""}, {1, 2000, 990, ""}, {1, 3000, 990, ""}, {1, 4000, 990, ""}}, 2},
		{"it says why", []said{{1, 1000, 990, ""}, {1, 2000, 990, "lag"}, {1, 3000, 990, "lag"}}, 0},
		{"a topic is no reason", []said{{1, 1000, 990, ""}, {1, 2000, 990, "due.x"}, {1, 3000, 990, "due.x"}}, 1},
		{"another owner", []said{{1, 1000, 990, ""}, {1, 2000, 990, ""}, {2, 3000, 990, ""}, {2, 4000, 990, ""}}, 0},
		{"a clock is set back", []said{{1, 9000, 8990, ""}, {1, 2000, 9000, ""}, {1, 3000, 9000, ""}}, 0},
		{"it is withdrawn", []said{{1, 1000, 990, ""}, {1, 2000, 990, ""}, {}, {1, 3000, 990, ""}}, 0},
	} {
		var records []*kgo.Record
		for _, s := range c.said {
			r := &kgo.Record{Key: topics.WatermarkKey(0)}
			if s.term != 0 {
				at, through := trigger.Instant(s.at), trigger.Instant(s.through)
				m := &topics.Watermark{Term: s.term, At: at, FiredThrough: through}
				if s.held != "" {
					m.Held = []string{s.held}
				}
				r.Value = m.Value()
			}
			records = append(records, r)
		}
		if found := sim.Stalls(records); len(found) != c.stalls {
			t.Errorf("%s: %q", c.name, found)
		}
	}
}

// Watermarks follow the clock while something happens, while nothing does, and over owners.
func TestWatermarksFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 3, Partitions: 2})
		publish := func(o *pipeline.Options) { o.WatermarkInterval = time.Second }
		w.Start("a", publish)
		w.AwaitOwners()
		for i := range 40 {
			w.Register(fmt.Sprint("k", i), time.Now().Add(time.Duration(i)*100*time.Millisecond))
			time.Sleep(300 * time.Millisecond)
		}
		w.Kill("a")
		w.Start("b", publish)
		w.AwaitOwners()
		time.Sleep(time.Minute)
		w.AwaitWatermarks()
		w.CheckInvariants()
	})
}
