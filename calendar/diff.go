package calendar

import "slices"

// ZoneChange says from which instant a zone's clocks read differently in
// another release. A trigger of the zone whose next fire is at least 48 hours
// before At cannot move.
type ZoneChange struct {
	Zone    string
	At      int64 // unix ms of the first difference; the start of the range if added or removed
	Added   bool  // unknown to the old release
	Removed bool  // unknown to the new one
}

// Diff compares what clocks read in two releases over from ≤ t < to (unix
// ms). Names of offsets and flags do not count, nor do bytes: two builds of
// one release differ in nearly every file and in no rule.
func Diff(old, new *Zones, from, to int64) []ZoneChange {
	var out []ZoneChange
	for _, name := range union(old.names, new.names) {
		a, b := old.find(name), new.find(name)
		switch {
		case a == nil:
			out = append(out, ZoneChange{Zone: name, At: from, Added: true})
		case b == nil:
			out = append(out, ZoneChange{Zone: name, At: from, Removed: true})
		default:
			if at, differ := firstDifference(a, b, from, to); differ {
				out = append(out, ZoneChange{Zone: name, At: at})
			}
		}
	}
	return out
}

// find is Lookup for names that may be absent.
func (z *Zones) find(name string) *Zone {
	if _, ok := z.raw[name]; !ok {
		return nil
	}
	zone, err := z.Lookup(name)
	if err != nil {
		return nil
	}
	return zone
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// firstDifference walks both zones from change to change. It asks package
// time directly: a table for each of 600 zones would cost more than the walk.
func firstDifference(a, b *Zone, from, to int64) (at int64, differ bool) {
	for t, end := floorDiv(from, 1000), ceilDiv(to, 1000); t < end; {
		sa, sb := spanOf(a.loc, t), spanOf(b.loc, t)
		if sa.off != sb.off {
			return max(t*1000, from), true
		}
		t = min(sa.hi, sb.hi)
	}
	return 0, false
}
