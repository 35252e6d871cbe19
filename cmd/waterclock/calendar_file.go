package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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

// datesOfEvent returns every day of an event. DTEND is the day after the last one (RFC 5545
// section 3.6.1). Without DTEND the event lasts one day.
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

// bareUntil matches an UNTIL without a time, as all-day events have it. The rules of triggers
// have a time of day and refuse it.
var bareUntil = regexp.MustCompile(`(?i)(UNTIL=\d{8})(;|$)`)

// unroll lists the days on which a recurring event begins, up to until.
func unroll(e *ics.VEvent, first calendar.Date, until int64) ([]calendar.Date, error) {
	rule := e.GetProperty(ics.ComponentPropertyRrule)
	if rule == nil {
		return []calendar.Date{first}, nil
	}
	start := first.String() + "T00:00"
	spec := calendar.Spec{
		Recurrence: "RRULE:" + bareUntil.ReplaceAllString(rule.Value, "${1}T000000$2"), Start: start,
		Limits: calendar.Limits{}.Preview(),
	}
	for _, p := range e.GetProperties(ics.ComponentPropertyExdate) {
		for _, text := range strings.Split(p.Value, ",") {
			d, err := icsDate(text)
			if err != nil {
				return nil, err
			}
			spec.Exclude = append(spec.Exclude, d.String())
		}
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
