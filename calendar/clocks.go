package calendar

import (
	"cmp"
	"slices"
	"time"
)

// ClockChange is an instant at which clocks of some zones are put forward or back.
type ClockChange struct {
	At    int64 // unix ms
	Shift time.Duration
	Zones []string // by name
}

// ClockChanges lists the changes of all zones in from < t ≤ to (unix ms), in
// order. It keeps no zone: hardly anybody uses all of them.
func (z *Zones) ClockChanges(from, to int64) []ClockChange {
	type instant struct{ at, shift int64 }
	zones := map[instant][]string{}
	for _, name := range z.names {
		loc, err := time.LoadLocationFromTZData(name, z.raw[name])
		if err != nil {
			continue
		}
		for s := spanOf(loc, floorDiv(from, 1000)); s.hi < forever && s.hi*1000 <= to; {
			next := spanOf(loc, s.hi)
			if next.off != s.off {
				change := instant{s.hi, next.off - s.off}
				zones[change] = append(zones[change], name)
			}
			s = next
		}
	}
	all := make([]ClockChange, 0, len(zones))
	for change, names := range zones {
		all = append(all, ClockChange{change.at * 1000, time.Duration(change.shift) * time.Second, names})
	}
	slices.SortFunc(all, func(a, b ClockChange) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Shift, b.Shift))
	})
	return all
}
