package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/problem"
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
	named := s.calendarSource(r.Context(), r.who.Tenant)
	var answer calendar.PreviewResponse
	var p *problem.Problem
	err = r.read.cost.Compute(r.Context(), r.who.Tenant, func() {
		answer, p = Preview(s.timetable().Zones, named, b, s.now().UnixMilli())
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

// calendarSource finds calendars by name in the timetable, else in topic control. A
// calendar that cannot be read counts as missing.
func (s *previews) calendarSource(ctx context.Context, tenant string) calendar.CalendarSource {
	return func(name string) (calendar.DateSet, bool) {
		if set, ok := s.timetable().Calendar(tenant, name); ok {
			return set, true
		}
		c, err := s.calendars.calendarOf(ctx, tenant, name)
		if err != nil || c == nil {
			return nil, false
		}
		set, err := calendar.NewDateSet(c.Dates)
		return set, err == nil
	}
}
