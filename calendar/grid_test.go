package calendar

import "testing"

func TestFirstInRange(t *testing.T) {
	for m := int64(1); m < 40; m++ {
		for a := range m {
			for lo := range m {
				for hi := lo; hi < m; hi += 3 {
					want := int64(-1)
					for x := range m {
						if v := a * x % m; v >= lo && v <= hi {
							want = x
							break
						}
					}
					if got := firstInRange(a, m, lo, hi); got != want {
						t.Fatalf("firstInRange(%d, %d, %d, %d) = %d, want %d", a, m, lo, hi, got, want)
					}
				}
			}
		}
	}
}

// TestSparseGrid: rules whose grid and times of day hardly ever meet. Expected
// instants by stepping through the grid.
func TestSparseGrid(t *testing.T) {
	for _, rule := range []string{
		"FREQ=SECONDLY;INTERVAL=86399;BYHOUR=5;BYMINUTE=5;BYSECOND=5",
		"FREQ=SECONDLY;INTERVAL=9973;BYHOUR=5;BYMINUTE=5;BYSECOND=5",
		"FREQ=SECONDLY;INTERVAL=9973;BYHOUR=5;BYMINUTE=5,6;BYSECOND=5,7;BYDAY=MO",
		"FREQ=MINUTELY;INTERVAL=1439;BYHOUR=5;BYMINUTE=5",
		"FREQ=MINUTELY;INTERVAL=997;BYHOUR=5;BYMINUTE=5;BYMONTH=2",
		"FREQ=HOURLY;INTERVAL=25;BYHOUR=5;BYDAY=MO",
	} {
		for _, zone := range []string{"UTC", "America/New_York"} {
			t.Run(rule+" "+zone, func(t *testing.T) {
				r := mustCompile(t, Spec{
					Recurrence: rule, Start: "2026-01-15T09:00:00Z", Zone: zone,
					Limits: Limits{}.Preview(),
				})
				at := r.grid.base
				for range 3 {
					o, ok, err := r.Next(at*1000 - 1)
					if err != nil || !ok {
						t.Fatalf("after %d: %v %v", at, ok, err)
					}
					for !gridHits(r, at) {
						at += r.grid.step
					}
					if o.At != at*1000 {
						t.Fatalf("got %s, want %s", utcString(o.At), utcString(at*1000))
					}
					at += r.grid.step
				}
			})
		}
	}
}

func gridHits(r *Rule, at int64) bool {
	wall := at + r.zone.span(at).off
	w, ok, _ := r.grid.walls.next(wall)
	return ok && w == wall
}
