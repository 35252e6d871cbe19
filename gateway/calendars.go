package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Calendar is a named set of local dates, the same for all tenants.
type Calendar struct {
	Name  string   `json:"name,omitempty" nullable:"true"`
	Dates []string `json:"dates" doc:"Local dates such as 2026-12-25"`
}

// Calendars are all of them, by name.
type Calendars struct {
	Items []CalendarSummary `json:"items"`
}

// CalendarSummary is what a list says of a calendar.
type CalendarSummary struct {
	Name  string `json:"name"`
	Dates int    `json:"dates" doc:"How many there are"`
	First string `json:"first,omitempty" doc:"The first date"`
	Last  string `json:"last,omitempty" doc:"The last date"`
}

func (s *Server) listCalendars(w http.ResponseWriter, r *request) error {
	all, err := s.calendars(r.Context(), "")
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	list := Calendars{Items: []CalendarSummary{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list.Items = append(list.Items, Summary(all[name]))
	}
	return sendJSON(w, http.StatusOK, list)
}

// Summary is what a list says of a calendar, whose dates are in order.
func Summary(c *topics.Calendar) CalendarSummary {
	s := CalendarSummary{Name: c.Name, Dates: len(c.Dates)}
	if s.Dates > 0 {
		s.First, s.Last = c.Dates[0], c.Dates[s.Dates-1]
	}
	return s
}

func (s *Server) getCalendar(w http.ResponseWriter, r *request) error {
	c, err := s.calendar(r.Context(), r.names["name"])
	switch {
	case err != nil:
		return problem.Unavailable(err, "Kafka does not answer")
	case c == nil:
		return problem.New(http.StatusNotFound, trigger.CodeNotFound, "name", "no such calendar")
	}
	return sendJSON(w, http.StatusOK, calendarJSON(c.Name, c.Dates))
}

func calendarJSON(name string, dates []string) Calendar {
	if dates == nil {
		dates = []string{}
	}
	return Calendar{name, dates}
}

// calendar is one of them; nil for none.
func (s *Server) calendar(ctx context.Context, name string) (*topics.Calendar, error) {
	all, err := s.calendars(ctx, name)
	return all[name], err
}

// calendars are the last words of topic control on the one of a name, or with ""
// on each. The topic holds some settings, and is read as it is.
func (s *Server) calendars(ctx context.Context, only string) (map[string]*topics.Calendar, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ReadWithin)
	defer cancel()
	end, err := stableEnd(ctx, s.kafka.Client(), s.control.topic, 0)
	if err != nil {
		return nil, err
	}
	all := map[string]*topics.Calendar{}
	err = s.control.read(ctx, 0, 0, end, func(r *kgo.Record) error {
		name, isCalendar := strings.CutPrefix(string(r.Key), topics.ControlCalendars)
		if !isCalendar || only != "" && name != only {
			return nil
		}
		delete(all, name)
		if set, err := topics.DecodeSetting(&topics.Record{Key: r.Key, Value: r.Value}); err == nil &&
			set.Calendar != nil {
			all[name] = set.Calendar
		}
		return nil
	})
	return all, err
}

// putCalendar writes a calendar; partitions apply it at a definite offset.
func (s *Server) putCalendar(w http.ResponseWriter, r *request) error {
	b, err := s.body(w, r)
	if err != nil {
		return err
	}
	fs, err := parseFields(b)
	if err != nil {
		return err
	}
	c := topics.Calendar{Name: r.names["name"]}
	for _, f := range fs {
		if f.name != "dates" && f.name != "name" {
			return problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, f.name,
				problem.Quoted(f.name)+" is no field: a calendar has dates")
		}
	}
	if json.Unmarshal(b, &c) != nil || !fs.given("dates") {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "dates",
			"dates is a list of dates such as 2026-12-25")
	}
	if name, err := fs.takeText("name"); err != nil || name != "" && name != c.Name {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "name",
			"the name in the body is not the one in the path")
	}
	if !topics.ValidName(c.Name) {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "name",
			"a calendar's name is 1 to 64 of a-z 0-9 . _ -, the first a letter or digit")
	}
	key, value, err := topics.EncodeCalendar(c)
	if err != nil {
		return problem.InField(err, "dates")
	}
	all, err := s.calendars(r.Context(), "")
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	if all[c.Name] == nil && len(all) >= s.opts.Calendars {
		return problem.New(http.StatusTooManyRequests, trigger.CodeQuotaExceeded, "name", fmt.Sprintf(
			"there are %d calendars, as many as there may be (limits.calendars): delete one that no trigger names",
			len(all)))
	}
	if at := s.putSetting(r.Context(), key, value); at.err != nil {
		return problem.Unavailable(at.err, "Kafka has not acknowledged the calendar; repeating it is safe")
	}
	var stored topics.Calendar
	if err := json.Unmarshal(value, &stored); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, calendarJSON(c.Name, stored.Dates))
}
