package calendar

// daySet is the expression's dates. Expressions without day fields, and plain
// weekdays, need no map of the year.
func (c *cronExpr) daySet() *daySet {
	s := &daySet{weekdays: 0x7f, freq: daily, interval: 1}
	plain := c.months == 1<<13-2 && c.dom.days == 1<<32-2 && c.dow.nth == [7]uint64{} && c.dow.last == 0
	switch {
	case !plain:
		s.filler = c
	case c.domStar || c.dowStar:
		s.weekdays = uint8(c.dow.days)
	}
	return s
}

// fill marks the days of a year that match (yearFiller).
func (c *cronExpr) fill(jan1 int, leap bool) (m yearMap, err error) {
	year := 2001
	if leap {
		year = 2000
	}
	doy := 0
	for month := 1; month <= 12; month++ {
		last := daysInMonth(year, month)
		for d := 1; d <= last; d++ {
			if c.months>>month&1 != 0 && c.matches(d, last, (jan1+doy)%7) {
				m.set(doy)
			}
			doy++
		}
	}
	return m, nil
}

// matches decides on the dth day of a month of `last` days, a given weekday.
func (c *cronExpr) matches(d, last, weekday int) bool {
	inMonth := c.dom.has(d, last, weekday)
	inWeek := c.dow.has(d, last, weekday)
	if c.domStar || c.dowStar {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

func (f *cronDays) has(d, last, weekday int) bool {
	switch {
	case f.days>>d&1 != 0, f.last && d == last:
		return true
	case weekday == 0 || weekday == 6:
		return false
	case f.lastWeekday && (d == last || weekday == 5 && last-d <= 2):
		return true
	}
	return f.nearest != 0 && f.nearestHas(d, last, weekday)
}

// nearestHas tells whether the weekday d stands in for an nW: for itself, for
// the Saturday after or the Sunday before it, and, as nW never leaves its
// month, for a Saturday the 1st two days before it and for a last Sunday two
// days after it.
func (f *cronDays) nearestHas(d, last, weekday int) bool {
	w := f.nearest
	return w>>d&1 != 0 ||
		weekday == 5 && d+1 <= last && w>>(d+1)&1 != 0 ||
		weekday == 1 && w>>(d-1)&1 != 0 && d > 1 ||
		weekday == 1 && d == 3 && w>>1&1 != 0 ||
		weekday == 5 && d+2 == last && w>>last&1 != 0
}

func (f *cronWeekdays) has(d, last, weekday int) bool {
	return f.days>>weekday&1 != 0 ||
		f.nth[weekday]>>((d+6)/7)&1 != 0 ||
		f.last>>weekday&1 != 0 && d+7 > last
}
