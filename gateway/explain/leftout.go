package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// leftOut explains by a day of a calendar, if the newest occurrence that the rule alone has is
// later than the event e and did not fire. No event says so: such an occurrence is never planned.
func (x *explanation) leftOut(e *topics.Event) bool {
	s := x.in.State
	w := &s.Spec.When
	if s.Status != trigger.Pending || w.Calendars == nil || s.Series.At == 0 || x.in.Zones == nil {
		return false
	}
	rule, err := plainRule(x.in.Zones, s)
	if err != nil {
		return false
	}
	since := max(s.Series.After, s.CreatedAt)
	if e != nil {
		since = max(since, instantOf(e.OccurredAt))
	}
	// One that moved to the business day before has fired before its plain instant.
	if o, ok, err := rule.Prev(int64(min(x.in.Now, s.Series.At-1))); err == nil && ok && o.At > int64(since) &&
		w.Calendars.On != calendar.OnPrevious && !slices.Contains(s.Series.Skip, o.ID()) {
		x.say(Skipped, "Not sent: %s is %s.", x.at(trigger.Instant(o.At)), x.leftOutDay())
		x.citeState("next by the rule alone %s, with its calendars %s", trigger.Instant(o.At), s.Series.At)
		return true
	}
	if o, ok, err := rule.Next(int64(max(x.in.Now, since))); err == nil && ok && o.At != int64(s.Series.At) &&
		!slices.Contains(s.Series.Skip, o.ID()) && (e == nil || plans(e)) {
		x.sayScheduled(e)
		x.add("Not %s: that is %s.", x.at(trigger.Instant(o.At)), x.leftOutDay())
		x.citeState("next by the rule alone %s, with its calendars %s", trigger.Instant(o.At), s.Series.At)
		return true
	}
	return false
}

// leftOutDay is what the day of an occurrence is to the calendar, and what becomes of it then. Weekends move, too.
func (x *explanation) leftOutDay() string {
	c := x.in.State.Spec.When.Calendars
	names := plain(strings.Join(c.Names, ", "), maxSnippet)
	switch c.On {
	case calendar.OnNext:
		return fmt.Sprintf("no business day of calendar %s, so it moves to the next business day", names)
	case calendar.OnPrevious:
		return fmt.Sprintf("no business day of calendar %s, so it moved to the business day before", names)
	}
	return fmt.Sprintf("a day of calendar %s, on which it does not fire", names)
}

// plainRule compiles a trigger's recurrence without its calendars.
func plainRule(zones *calendar.Zones, s *trigger.State) (*calendar.Rule, error) {
	w := &s.Spec.When
	dst, err := calendar.ParseDST(w.DST.Gap, w.DST.Overlap)
	if err != nil {
		return nil, fmt.Errorf("read the DST policies: %w", err)
	}
	start := s.Series.Start
	if start == "" {
		start = w.Start
	}
	r, err := calendar.Compile(zones, calendar.Spec{
		Recurrence: w.Recurrence, Start: start, Zone: w.Zone, Include: w.Include, Exclude: w.Exclude,
		Until: w.Until, Count: w.Count, DST: dst, Append: int64(s.CreatedAt), Limits: calendar.Limits{MinPeriod: -1},
	})
	if err != nil {
		return nil, fmt.Errorf("compile the rule: %w", err)
	}
	return r, nil
}
