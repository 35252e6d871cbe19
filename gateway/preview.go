package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// postPreview says when a wish would fire; nothing is registered.
func (s *Server) postPreview(w http.ResponseWriter, r *request) error {
	if s.opts.Timetable == nil {
		return problem(http.StatusUnprocessableEntity, trigger.CodeUnsupported, "", "this server has no tz database to preview with")
	}
	fs, err := s.object(w, r)
	if err != nil {
		return err
	}
	answer, refused := calendar.PreviewWith(s.opts.Timetable().Zones, s.calendarSource(r.Context()), fs.encode(), s.opts.Now().UnixMilli())
	if refused != nil {
		p := asProblem(refused)
		_ = json.Unmarshal(answer.ID, &p.ID) // an id that is no text is left out
		return p
	}
	return sendJSON(w, http.StatusOK, answer)
}

// calendarSource finds calendars by name as the timetable has them, else topic
// control; what cannot be read is not there.
func (s *Server) calendarSource(ctx context.Context) calendar.CalendarSource {
	return func(name string) (calendar.DateSet, bool) {
		if set, ok := s.opts.Timetable().Calendars[name]; ok {
			return set, true
		}
		c, err := s.calendar(ctx, name)
		if err != nil || c == nil {
			return nil, false
		}
		set, err := calendar.NewDateSet(c.Dates)
		return set, err == nil
	}
}
