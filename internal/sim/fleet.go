package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Rules has every kind of rule, none more frequent than hourly.
var Rules = []Series{
	{Recurrence: "FREQ=DAILY"},
	{Recurrence: "RRULE:FREQ=DAILY;INTERVAL=3"},
	{Recurrence: "FREQ=DAILY;BYHOUR=0,2,3;BYMINUTE=0,30"},
	{Recurrence: "FREQ=DAILY;BYHOUR=1,2;BYMINUTE=30;BYSETPOS=-1"},
	{Recurrence: "FREQ=DAILY;BYMONTH=3,4,10,11;BYDAY=SU"},
	{Recurrence: "FREQ=WEEKLY;BYDAY=SU,WE"},
	{Recurrence: "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU,SA;BYHOUR=2"},
	{Recurrence: "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"},
	{Recurrence: "FREQ=MONTHLY;BYMONTHDAY=31,-2"},
	{Recurrence: "FREQ=MONTHLY;BYDAY=-1SU,2SU"},
	{Recurrence: "FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU"},
	{Recurrence: "FREQ=YEARLY;BYYEARDAY=1,60,100,-1"},
	{Recurrence: "FREQ=YEARLY;BYWEEKNO=1,13,44,53;BYDAY=SU"},
	{Recurrence: "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29"},
	{Recurrence: "FREQ=HOURLY;INTERVAL=7"},
	{Recurrence: "FREQ=HOURLY;BYHOUR=1,2,3;BYMINUTE=30"},
	{Recurrence: "FREQ=MINUTELY;INTERVAL=97;BYHOUR=0,1,2,3"},
	{Recurrence: "every:5h"},
	{Recurrence: "every:36h"},
	{Recurrence: "cron:30 2 * * *"},
	{Recurrence: "cron:0,45 0-3 * * SUN"},
	{Recurrence: "cron:*/40 1-2 * * *"},
	{Recurrence: "cron:15 */6 * * *"},
	{Recurrence: "cron:0 9 LW * *"},
	{Recurrence: "cron:0 3 15W * FRI#2"},
	{Recurrence: "cron:30 23 L * *"},
	{Recurrence: "@monthly"},
	{},
}

// oddZones have unusual clock changes: by half an hour, by two hours, at midnight, for Ramadan,
// negative, on the previous UTC day, and none.
var oddZones = []string{
	"America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Antarctica/Troll", "America/Havana", "Atlantic/Azores",
	"America/Santiago", "Africa/Casablanca", "Asia/Gaza", "Africa/Cairo", "Asia/Beirut", "Pacific/Chatham",
	"Pacific/Apia", "Asia/Kathmandu", "UTC", "",
}

// Reach bounds how far ahead random series lie.
type Reach struct {
	Days   int           // range of dates in a series
	Start  int           // days until it begins
	Jitter time.Duration // at most
}

// draw varies everything that a series may have.
func (reach Reach) draw(r *rand.Rand, s Series, begin time.Time) Series {
	pick := func(percent int) bool { return r.IntN(100) < percent }
	day := func() string { return begin.AddDate(0, 0, 1+r.IntN(reach.Days)).Format(time.DateOnly) }
	s.Timezone = oddZones[r.IntN(len(oddZones))]
	if s.Recurrence == "@monthly" {
		s.Recurrence = "cron:@monthly"
	}
	if pick(70) || s.Recurrence == "" {
		s.Start = begin.AddDate(0, 0, 1+r.IntN(reach.Start)).Format(time.DateOnly) +
			[]string{"T02:30", "T00:00", "T01:15", "T23:59:59", "T09:00"}[r.IntN(5)]
	}
	if pick(60) {
		s.DST = &DST{Gap: []string{"shift", "skip"}[r.IntN(2)], Overlap: []string{"first", "second", "both"}[r.IntN(3)]}
	}
	switch {
	case s.Recurrence == "":
	case pick(15):
		s.Count = 1 + r.IntN(60)
	case pick(15):
		s.Until = day() + []string{"T02:30", "T12:00:00Z"}[r.IntN(2)]
	}
	if pick(20) || s.Recurrence == "" {
		s.Include = []string{day() + "T02:30", day() + "T12:00:00Z", day() + "T01:30"}
	}
	if pick(20) && s.Recurrence != "" {
		s.Exclude = []string{day(), day() + "T02:30", day()}
	}
	if pick(20) {
		s.Calendars = &Calendars{
			Names: []string{"holidays"},
			On:    []string{"skip", "next_business_day", "previous_business_day"}[r.IntN(3)],
		}
		if elapsed(s.Recurrence) {
			s.Calendars.On = "skip"
		}
	}
	if pick(20) {
		s.Jitter = (time.Second + time.Duration(r.Int64N(int64(reach.Jitter)))).Truncate(time.Second)
	}
	if len(s.Include) > 0 { // a date may be nearer than twice the jitter, which is refused
		s.Jitter = 0
	}
	return s
}

// elapsed reports whether a rule counts elapsed time, so that whole days cannot move it.
func elapsed(rule string) bool {
	for _, mark := range []string{"every:", "HOURLY", "MINUTELY", "*/"} {
		if strings.Contains(rule, mark) {
			return true
		}
	}
	return false
}

// Fleet registers n series of all kinds, and returns their keys.
func (w *World) Fleet(n int, reach Reach) []string {
	begin := time.Now()
	var holidays []string
	for d := begin; d.Before(begin.AddDate(4, 0, 0)); d = d.AddDate(0, 0, 1+w.Rand.IntN(20)) {
		holidays = append(holidays, d.Format(time.DateOnly))
	}
	w.PutCalendar("holidays", holidays)
	time.Sleep(time.Second) // every partition reads topic control by itself
	keys, from := make([]string, n), w.Rand.IntN(len(Rules))
	for i := range keys {
		keys[i] = fmt.Sprintf("s%d", i)
		w.RegisterSeries(keys[i], reach.draw(w.Rand, Rules[(i+from)%len(Rules)], begin))
	}
	return keys
}
