package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// previews answers when a register would fire.
type previews struct {
	bodies    *bodies
	calendars *calendars

	now       func() time.Time
	timetable func() *trigger.Timetable
}

// postPreview answers when a trigger would fire; it registers nothing.
func (s *previews) postPreview(w http.ResponseWriter, r *request) error {
	if s.timetable == nil {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeUnsupported, "",
			"this server has no tz database to preview with")
	}
	b, err := s.bodies.body(w, r)
	if err != nil {
		return err
	}
	timetable := s.timetable()
	named, err := s.named(r.Context(), timetable, r.who.Tenant, b)
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	var answer calendar.PreviewResponse
	var p *problem.Problem
	err = r.read.cost.Compute(r.Context(), r.who.Tenant, func() {
		answer, p = Preview(timetable.Zones, func(name string) (calendar.DateSet, bool) {
			set, ok := named[name]
			return set, ok
		}, b, s.now().UnixMilli())
	})
	switch {
	case err != nil:
		return err
	case p != nil:
		return p
	}
	r.read.charge(len(answer.Occurrences))
	return sendJSON(w, http.StatusOK, answer)
}

// Preview answers a body at a given now (unix ms). It serves other callers, too. Beside a
// problem, the response has the body's id, if any; the problem has the id only if it is a
// string.
func Preview(zones *calendar.Zones, named calendar.CalendarSource, body []byte, now int64) (calendar.PreviewResponse,
	*problem.Problem,
) {
	answer, err := preview(zones, named, body, now)
	if err == nil {
		return answer, nil
	}
	p := problem.Of(err)
	_ = json.Unmarshal(answer.ID, &p.ID)
	return answer, p
}

func preview(zones *calendar.Zones, named calendar.CalendarSource, body []byte,
	now int64,
) (answer calendar.PreviewResponse, err error) {
	fs, err := parseFields(body)
	if err != nil {
		var q struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(body, &q) // a body that is not JSON has no id
		return calendar.PreviewResponse{ID: q.ID}, err
	}
	answer, refused := calendar.PreviewWith(zones, named, fs.encode(), now)
	if refused != nil {
		return answer, refused
	}
	return answer, nil
}

// named are the calendars that a body names: of the timetable, and those that it has not yet from topic control,
// by one read, because one who computes must not wait for Kafka. Preview refuses a body whose names cannot be found.
func (s *previews) named(ctx context.Context, timetable *trigger.Timetable, tenant string, body []byte) (
	map[string]calendar.DateSet, error,
) {
	sets := map[string]calendar.DateSet{}
	var unknown, full []string
	for _, name := range calendarNames(body) {
		if set, ok := timetable.Calendar(tenant, name); ok {
			sets[name] = set
		} else if topics.ValidName(name) {
			unknown, full = append(unknown, name), append(full, trigger.OwnCalendar(tenant, name), name)
		}
	}
	if len(unknown) == 0 {
		return sets, nil
	}
	all, err := s.calendars.calendars(ctx, full...)
	if err != nil {
		return nil, err
	}
	for _, name := range unknown {
		if c := cmp.Or(all[trigger.OwnCalendar(tenant, name)], all[name]); c != nil {
			if set, err := calendar.NewDateSet(c.Dates); err == nil {
				sets[name] = set
			}
		}
	}
	return sets, nil
}

// calendarNames are the names in the body of a preview; none if they are more than it may have.
func calendarNames(body []byte) []string {
	var b struct {
		Calendars struct {
			Names []string `json:"names"`
		} `json:"calendars"`
	}
	if json.Unmarshal(body, &b) != nil || len(b.Calendars.Names) > calendar.MaxCalendars {
		return nil
	}
	return b.Calendars.Names
}
