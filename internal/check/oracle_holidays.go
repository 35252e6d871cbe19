package check

// holidays are the dates of a series' calendars, and what happens to an occurrence on them. nil has no dates.
type holidays struct {
	on     string
	listed map[int64]bool
	most   int64 // the most days by which an occurrence may move
}

// What happens to an occurrence on a date of a calendar. skip is the third: it is left out.
const (
	onNext     = "next_business_day"
	onPrevious = "previous_business_day"
)

func newHolidays(on string, listed map[int64]bool) *holidays {
	h := &holidays{on: on, listed: listed}
	if !h.moves() {
		return h
	}
	h.most = 2 // a weekend
	for day := range listed {
		if h.closed(day - 1) {
			continue // not the first of its run
		}
		n := int64(1)
		for n < maxMove && h.closed(day+n) {
			n++
		}
		h.most = max(h.most, n)
	}
	h.most += 2 // a run may begin with a weekend
	return h
}

func (h *holidays) moves() bool { return h != nil && (h.on == onNext || h.on == onPrevious) }

// closed reports whether a day is no business day: it is a date of a calendar, or on a weekend.
func (h *holidays) closed(day int64) bool {
	weekday := weekdayOf(day)
	return h.listed[day] || weekday == 0 || weekday == 6
}

// maxMove is the number of days after which a search for a business day ends without one.
const maxMove = 366

// moved returns the day on which an occurrence of a day fires. ok is false if there is none.
func (h *holidays) moved(day int64) (to int64, ok bool) {
	if !h.moves() {
		return day, true
	}
	step := int64(1)
	if h.on == onPrevious {
		step = -1
	}
	for n := range int64(maxMove) {
		if to = day + n*step; !h.closed(to) {
			return to, true
		}
	}
	return day, false
}

// has reports whether the calendars let an occurrence of the rule fire.
func (h *holidays) has(o *occurrence) bool {
	return h == nil || h.moves() || !h.listed[o.local.day()]
}

// later is the most days by which an occurrence may fire after its own day.
func (h *holidays) later() int64 {
	if h == nil || h.on != onNext {
		return 0
	}
	return h.most
}

// earlier is how far an occurrence may fire before its own day (ms).
func (h *holidays) earlier() int64 {
	if h == nil || h.on != onPrevious {
		return 0
	}
	return h.most * 86400 * 1000
}
