package slo

import (
	"maps"
	"slices"
	"time"
)

// Behind is a partition whose events end long before those of the others.
type Behind struct {
	Partition int32  `json:"partition"`
	Newest    string `json:"newest_event_at"`
}

// arrivals count the events of all partitions by hour, to find those that stand still. A quiet
// partition is not behind, so it is not the time that counts: it is what the others had since.
type arrivals struct {
	count  map[int32]int64
	newest map[int32]int64 // event_us
	hours  map[int64]int64

	hour, run int64 // events of an hour that are not in hours yet
}

const hourUS = int64(time.Hour / time.Microsecond)

// missingEvents is how many a partition would have had by now before it counts as behind. By
// chance that happens once in e^20 cases.
const missingEvents = 20

// add takes in events of a partition, the last of them at us.
func (a *arrivals) add(p int32, us, events int64) {
	if us == 0 || events == 0 {
		return // no event
	}
	if a.count == nil {
		a.count, a.newest, a.hours = map[int32]int64{}, map[int32]int64{}, map[int64]int64{}
	}
	a.count[p] += events
	a.newest[p] = max(a.newest[p], us)
	if hour := us / hourUS; hour != a.hour {
		a.end()
		a.hour = hour
	}
	a.run += events
}

func (a *arrivals) end() {
	if a.run > 0 {
		a.hours[a.hour] += a.run
		a.run = 0
	}
}

// behind are the partitions without an event for so long that, by its share of the events until
// then, each would have had many in the hours after that one. until bounds what matters.
func (a *arrivals) behind(until int64) (all []Behind) {
	a.end()
	for _, p := range slices.Sorted(maps.Keys(a.count)) {
		us, own := a.newest[p], a.count[p]
		var others, since int64
		for hour, events := range a.hours {
			if hour > us/hourUS {
				since += events
			} else {
				others += events
			}
		}
		if others -= own; us < until && others > 0 && float64(since)*float64(own) >= missingEvents*float64(others) {
			all = append(all, Behind{p, utc(time.UnixMicro(us))})
		}
	}
	return all
}
