package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"

	"github.com/waterclock/waterclock/calendar"
)

// readDates reads a calendar's dates from iCalendar, JSON or lines. It returns nil if there are
// none, unless JSON has an explicit empty list. It expands recurring iCalendar events up to until
// (Unix ms).
func (a *app) readDates(content []byte, until int64) ([]string, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	switch text := bytes.TrimSpace(content); {
	case bytes.HasPrefix(bytes.ToUpper(text[:min(len(text), 15)]), []byte("BEGIN:VCALENDAR")):
		return a.datesOfICS(content, until)
	case bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("[")):
		return datesOfJSON(text)
	}
	return datesOfLines(string(content))
}

func datesOfJSON(content []byte) ([]string, error) {
	var list []string
	if json.Unmarshal(content, &list) == nil {
		return list, nil
	}
	var object struct {
		Name  string   `json:"name"` // in the output of get -o json; ignored, because the name is an argument
		Dates []string `json:"dates"`
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf(`write a list of dates, or {"dates":["2026-12-25"]}: %w`, err)
	}
	return object.Dates, nil
}

// datesOfLines takes the first word of each line as a date.
func datesOfLines(content string) (dates []string, err error) {
	for i, line := range strings.Split(content, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(strings.ReplaceAll(line, ",", " "))
		if len(words) == 0 {
			continue
		}
		if _, err := calendar.ParseDate(words[0]); err != nil {
			return nil, fmt.Errorf("line %d: %q is not a date: write 2026-12-25", i+1, clean(words[0]))
		}
		dates = append(dates, words[0])
	}
	return dates, nil
}

// maxHolidays bounds the days that one recurring event expands to. It is also the largest size of
// a calendar.
const maxHolidays = 10_000

// datesOfICS takes the all-day events. An event with a time of day is not a holiday.
func (a *app) datesOfICS(content []byte, until int64) (dates []string, err error) {
	cal, err := ics.ParseCalendar(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read iCalendar: %w", err)
	}
	timed := 0
	for _, e := range cal.Events() {
		if p := e.GetProperty(ics.ComponentPropertyRecurrenceId); p != nil && len(p.Value) == len("20261225") {
			return nil, fmt.Errorf("event %s: RECURRENCE-ID, which moves or cancels one day of a recurring event, "+
				"is not supported: write EXDATE and RDATE in that event", clean(titleOf(e)))
		}
		if p := e.GetProperty(ics.ComponentPropertyStatus); p != nil && strings.EqualFold(p.Value, "CANCELLED") {
			continue
		}
		start := e.GetProperty(ics.ComponentPropertyDtStart)
		if start == nil || len(start.Value) != len("20261225") {
			timed++
			continue
		}
		of, err := datesOfEvent(e, start.Value, until)
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", clean(titleOf(e)), err)
		}
		dates = append(dates, of...)
	}
	if timed > 0 {
		a.note("%s with a time of day ignored: a holiday is a whole day", plural(timed, "event"))
	}
	return dates, nil
}

func titleOf(e *ics.VEvent) string {
	if p := e.GetProperty(ics.ComponentPropertySummary); p != nil {
		return p.Value
	}
	return e.Id()
}

// datesOfEvent returns every day of an event. DTEND is the day after the last one; DURATION may
// stand in its place (RFC 5545 section 3.6.1). Without both the event lasts one day.
func datesOfEvent(e *ics.VEvent, start string, until int64) ([]string, error) {
	first, err := icsDate(start)
	if err != nil {
		return nil, err
	}
	days := calendar.Date(1)
	if p := e.GetProperty(ics.ComponentPropertyDtEnd); p != nil {
		end, err := icsDate(p.Value)
		if err != nil {
			return nil, err
		}
		days = max(1, end-first)
	} else if p := e.GetProperty(ics.ComponentPropertyDuration); p != nil {
		if days, err = icsDays(p.Value); err != nil {
			return nil, err
		}
	}
	firsts, err := unroll(e, first, until)
	if err != nil {
		return nil, err
	}
	var dates []string
	for _, d := range firsts {
		for i := range days {
			if dates = append(dates, (d + i).String()); len(dates) > maxHolidays {
				return nil, fmt.Errorf("over %d days", maxHolidays)
			}
		}
	}
	return dates, nil
}

// icsDays parses the duration of an all-day event: days or weeks (RFC 5545 section 3.3.6).
func icsDays(s string) (calendar.Date, error) {
	m := wholeDays.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("DURATION %q: a whole day lasts days or weeks, such as P3D or P1W", clean(s))
	}
	n, err := strconv.Atoi(m[1])
	if m[2] == "W" {
		n *= 7
	}
	return calendar.Date(max(1, n)), err
}

var wholeDays = regexp.MustCompile(`^\+?P(\d{1,5})([DW])$`)

// bareUntil matches an UNTIL without a time, as all-day events have it. The rules of triggers
// have a time of day and refuse it.
var bareUntil = regexp.MustCompile(`(?i)(UNTIL=\d{8})(;|$)`)

// unroll lists the days on which an event begins: its first day or those of its rule up to until,
// and its RDATEs, without its EXDATEs.
func unroll(e *ics.VEvent, first calendar.Date, until int64) ([]calendar.Date, error) {
	days := []calendar.Date{first}
	more, err := icsDates(e, ics.ComponentPropertyRdate)
	if err != nil {
		return nil, err
	}
	without, err := icsDates(e, ics.ComponentPropertyExdate)
	if err != nil {
		return nil, err
	}
	if rule := e.GetProperty(ics.ComponentPropertyRrule); rule != nil {
		if days, err = recur(rule.Value, first, until); err != nil {
			return nil, err
		}
	}
	days = append(days, more...)
	slices.Sort(days)
	return slices.DeleteFunc(slices.Compact(days), func(d calendar.Date) bool {
		return slices.Contains(without, d)
	}), nil
}

// icsDates returns the days of a property that may stand several times.
func icsDates(e *ics.VEvent, name ics.ComponentProperty) (days []calendar.Date, err error) {
	for _, p := range e.GetProperties(name) {
		for _, text := range strings.Split(p.Value, ",") {
			d, err := icsDate(text)
			if err != nil || strings.Contains(text, "/") {
				return nil, fmt.Errorf("%s %q is not a date", name, clean(text))
			}
			days = append(days, d)
		}
	}
	return days, nil
}

// recur lists the days of a rule up to until.
func recur(rule string, first calendar.Date, until int64) ([]calendar.Date, error) {
	start := first.String() + "T00:00"
	spec := calendar.Spec{
		Recurrence: "RRULE:" + bareUntil.ReplaceAllString(rule, "${1}T000000$2"), Start: start,
		Limits: calendar.Limits{}.Preview(),
	}
	r, err := calendar.Compile(calendar.Embedded(), spec)
	if err != nil {
		return nil, worded(err)
	}
	if r.ElapsedTime() {
		return nil, errors.New("it recurs within a day; a holiday must recur by days, weeks, months or years")
	}
	list, err := r.Between(int64(first)*dayMS-1, until, maxHolidays+1)
	if err != nil {
		return nil, worded(err)
	}
	out := make([]calendar.Date, len(list))
	for i, o := range list {
		out[i] = o.Local.Date()
	}
	return out, nil
}

const dayMS = int64(24 * time.Hour / time.Millisecond)

// icsDate parses a date such as 20261225 and ignores a time of day after it.
func icsDate(s string) (calendar.Date, error) {
	if len(s) < 8 {
		return 0, fmt.Errorf("%q is not a date", clean(s))
	}
	return calendar.ParseDate(s[:4] + "-" + s[4:6] + "-" + s[6:8])
}
