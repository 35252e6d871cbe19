package calendar

// check refuses combinations. First the shapes that implementations dispute
// (the contract's list, and no others), then what RFC 5545 forbids.
func (r *recurRule) check() error {
	if err := r.disputed(); err != nil {
		return err
	}
	bad := func(part, format string, args ...any) error {
		return failAt(CodeInvalidRule, "recurrence", r.at[part], format, args...)
	}
	numbered := false
	for _, d := range r.byDay {
		numbered = numbered || d.n != 0
	}
	switch {
	case r.byWeekNo != nil && r.freq != yearly:
		return bad("BYWEEKNO", "BYWEEKNO needs FREQ=YEARLY, not %s", r.freq)
	case r.byYearDay != nil && (r.freq == daily || r.freq == weekly || r.freq == monthly):
		return bad("BYYEARDAY", "BYYEARDAY cannot stand with FREQ=%s; write FREQ=YEARLY", r.freq)
	case r.byMonthDay != nil && r.freq == weekly:
		return bad("BYMONTHDAY",
			"BYMONTHDAY cannot stand with FREQ=WEEKLY; write FREQ=MONTHLY, or FREQ=DAILY with both")
	case numbered && r.freq != monthly && r.freq != yearly:
		return bad("BYDAY", "BYDAY with a number (2MO) needs FREQ=MONTHLY or YEARLY, not %s", r.freq)
	case numbered && r.byWeekNo != nil:
		return bad("BYDAY", "BYDAY with a number (2MO) cannot stand with BYWEEKNO; a week has one Monday")
	case r.pos != nil && !r.hasSet():
		return bad("BYSETPOS", "BYSETPOS picks from what another BY part makes, and there is none; add BYDAY, say")
	}
	if numbered && (r.freq == monthly || r.byMonth != nil) {
		for _, d := range r.byDay {
			if d.n > 5 || d.n < -5 {
				return bad("BYDAY", "BYDAY=%d%s: a month has no more than 5 of a weekday", d.n, weekdayNames[d.day])
			}
		}
	}
	return nil
}

func (r *recurRule) disputed() error {
	bad := func(part, msg string) error {
		return failAt(CodeDisputedRule, "recurrence", r.at[part], "%s", msg)
	}
	switch {
	case r.count > 0 && r.until.kind != isNothing:
		return bad("UNTIL", "both COUNT and UNTIL: RFC 5545 allows one of them; leave one out")
	case r.freq == yearly && r.byMonthDay != nil && r.byMonth == nil:
		return bad("BYMONTHDAY",
			"YEARLY with BYMONTHDAY but no BYMONTH means every month to some and the start's month to others; add "+
				"BYMONTH, or write FREQ=MONTHLY")
	case r.freq == yearly && r.byWeekNo != nil && r.interval > 1:
		return bad("INTERVAL",
			"BYWEEKNO with INTERVAL over 1: whether the week's year or the calendar year counts is disputed; drop "+
				"INTERVAL, or use FREQ=WEEKLY;INTERVAL=52")
	case r.freq == yearly && r.byWeekNo != nil && r.byMonth != nil:
		return bad("BYMONTH", "BYWEEKNO with BYMONTH is read in two ways; leave BYMONTH out, or use BYMONTH with BYDAY")
	}
	return nil
}

func (r *recurRule) hasSet() bool {
	return r.bySecond != nil || r.byMinute != nil || r.byHour != nil || r.byDay != nil ||
		r.byMonthDay != nil || r.byYearDay != nil || r.byWeekNo != nil || r.byMonth != nil
}

// anchor writes into the rule what DTSTART would supply (RFC 5545 §3.3.10,
// "information, not contained in the rule, … is taken from DTSTART"). After
// it, the rule depends on its start for phase and lower bound only, so an
// evaluation may begin in any period.
//
// For FREQ below DAILY only what stands beside an explicit part is filled in;
// the rest is elapsed time.
func (r *recurRule) anchor(start Wall) {
	day := start.day()
	_, m, d := dateOf(day)
	tod := int(int64(start)-int64(day)*msPerDay) / 1000
	h, mi, s := tod/3600, tod/60%60, tod%60
	if r.freq >= daily {
		fillIn(&r.byHour, h)
		fillIn(&r.byMinute, mi)
		fillIn(&r.bySecond, s)
	} else if r.freq == hourly && r.byMinute != nil {
		fillIn(&r.bySecond, s)
	}
	noDay := r.byDay == nil && r.byMonthDay == nil && r.byYearDay == nil
	switch {
	case !noDay || r.freq < weekly:
	case r.freq == weekly || r.byWeekNo != nil:
		r.byDay = []weekdayNum{{0, weekdayOf(day)}}
	case r.freq == monthly || r.byMonth != nil:
		r.byMonthDay = []int{d}
	default:
		r.byMonth, r.byMonthDay = []int{m}, []int{d}
	}
}

func fillIn(list *[]int, v int) {
	if *list == nil {
		*list = []int{v}
	}
}
