package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/forecast"
)

// Hours are never older than 15 minutes, and minutes never older than one, while a round over all partitions takes less
// than half of that; and the effort stays what the rests make of it.
func TestForecastAge(t *testing.T) {
	const ms, hours, minutes = time.Millisecond, 12 * time.Minute, 45 * time.Second
	for _, c := range []struct {
		name   string
		oldest time.Duration
		limit  time.Duration
		works  []time.Duration // of each partition
	}{
		{"few triggers", hours, time.Minute, []time.Duration{ms, ms}},
		{"a million", hours, 15 * time.Minute, []time.Duration{2000 * ms, 1000 * ms, 2000 * ms}},
		{"one partition", hours, 15 * time.Minute, []time.Duration{8000 * ms}},
		{"one is large", hours, 15 * time.Minute, []time.Duration{8000 * ms, 1000 * ms}},
		{"minutes", minutes, time.Minute, []time.Duration{200 * ms, 100 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				e := &Engine{owned: map[int32]*ownership{}}
				id := map[*ownership]int{}
				for i := range c.works {
					own := &ownership{}
					e.owned[int32(i)], id[own] = own, i
				}
				const rest = 32
				made, worked, oldest := map[*ownership]time.Time{}, time.Duration(0), time.Duration(0)
				p := &painter{
					e: e, rest: rest, least: 5 * time.Second, oldest: c.oldest, kept: map[*ownership]paintedAt{},
				}
				p.draw = func(_ context.Context, own *ownership) (*forecast.Picture, time.Duration, error) {
					work, begun := c.works[id[own]], time.Now()
					time.Sleep(work * (1 + rest))
					if before, ok := made[own]; ok {
						oldest = max(oldest, time.Since(before))
					}
					made[own], worked = begun, worked+work
					return &forecast.Picture{}, work, nil
				}
				begun := time.Now()
				for time.Since(begun) < 6*time.Hour {
					p.round(ctx)
					time.Sleep(paintEvery)
				}
				if oldest > c.limit || len(made) != len(c.works) {
					t.Errorf("a picture was %v old, of %d partitions", oldest, len(made))
				}
				if share := worked.Seconds() / time.Since(begun).Seconds(); share > 1./rest {
					t.Errorf("it takes %.3f of a core", share)
				}
			})
		})
	}
}
