package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// The reminder routes are other names for the trigger routes. title and body are part of
// the payload, and answers also have reminder_id and fire_at_utc.

// ReminderAnswer is the answer to a write.
type ReminderAnswer struct {
	ReminderID string `json:"reminder_id"`
	FireAtUTC  string `json:"fire_at_utc,omitempty" format:"date-time"`
	Changed
}

// Reminder is a trigger under its other names.
type Reminder struct {
	ReminderNames
	*Trigger
}

// ReminderNames are the other names.
type ReminderNames struct {
	ReminderID string          `json:"reminder_id"`
	FireAtUTC  string          `json:"fire_at_utc,omitempty" format:"date-time"`
	Title      json.RawMessage `json:"title,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
}

// MarshalJSON spells one object of both.
func (m Reminder) MarshalJSON() ([]byte, error) { return m.appendJSON(nil) }

func (m Reminder) appendJSON(b []byte) ([]byte, error) {
	return appendJoined(b, &m.ReminderNames, m.Trigger)
}

// Reminders is a page of a list.
type Reminders struct {
	Items      []Reminder `json:"items"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

func (r Reminders) appendJSON(b []byte) ([]byte, error) { return appendPage(b, r.Items, r.NextCursor) }

// ReminderAccepted is the answer to a write that is durable and not yet decided.
type ReminderAccepted struct {
	ReminderID string `json:"reminder_id"`
	Accepted
}

var asReminder = wording{
	path: "/api/reminders/",
	registered: func(c *command, v *verdict) any {
		a := changed(c, v)
		return ReminderAnswer{a.TriggerID, a.FireAt, Changed{
			TriggerID: a.TriggerID, State: a.State,
			Revision: a.Revision, FireAt: a.FireAt, Notes: a.Notes,
		}}
	},
	changed: func(c *command, v *verdict) any {
		a := changed(c, v)
		return ReminderAnswer{a.TriggerID, cmp.Or(a.NextFireAt, a.FireAt), a}
	},
	accepted: func(id string) any { return ReminderAccepted{id, Accepted{id}} },
}

// reminders serves triggers under their other names.
type reminders struct {
	bodies *bodies
	lookup *lookup
	views  *triggerViews
	writes *triggerWrites

	cursors *cursorSeal
}

func (s *reminders) createReminder(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return err
	}
	for _, name := range []string{"title", "body", "payload"} {
		if !fs.given(name) { // null means absent, except in a patch
			fs.take(name)
		}
	}
	if fs, err = withPayload(fs); err != nil {
		return err
	}
	return s.writes.register(w, r, fs, &asReminder)
}

// withPayload moves title and body into the payload.
func withPayload(fs fields) (fields, error) {
	title, body := fs.take("title"), fs.take("body")
	if title == nil && body == nil {
		return fs, nil
	}
	var payload fields
	if i := fs.index("payload"); i >= 0 {
		if fs[i].value.Kind() != '{' {
			return nil, problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "payload",
				"beside title or body the payload must be an object")
		}
		var err error
		if payload, err = parseFields(fs[i].value); err != nil {
			return nil, err
		}
	}
	for _, f := range [...]field{{"title", title}, {"body", body}} { // in one order: a repeat has the same bytes
		if f.value != nil {
			payload.set(f.name, f.value)
		}
	}
	fs.set("payload", jsontext.Value(payload.encode()))
	return fs, nil
}

func (s *reminders) listReminders(w http.ResponseWriter, r *request) error {
	page, q, err := s.views.list(r)
	if err != nil {
		return err
	}
	answer := Reminders{Items: make([]Reminder, 0, len(page.Items)), NextCursor: s.cursors.next(q, page)}
	for _, f := range page.Items {
		answer.Items = append(answer.Items, reminder(f.State, r.payloads()))
	}
	return sendSized(w, http.StatusOK, answer, r.read.size())
}

func (s *reminders) getReminder(w http.ResponseWriter, r *request) error {
	st, err := s.lookup.read(r)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(st.Revision))
	return sendJSON(w, http.StatusOK, reminder(st, r.payloads()))
}

func reminder(st *trigger.State, payloads bool) Reminder {
	t := triggerJSON(st, payloads)
	m := Reminder{ReminderNames{ReminderID: t.TriggerID, FireAtUTC: cmp.Or(t.NextFireAt, instantText(st.Nominal()))}, t}
	if fs, err := parseFields(st.Spec.Payload); err == nil && !t.PayloadHidden {
		m.Title, m.Body = json.RawMessage(fs.take("title")), json.RawMessage(fs.take("body"))
	}
	return m
}

// snoozeReminder accepts {"minutes": N} beside the fields of :snooze.
func (s *reminders) snoozeReminder(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return err
	}
	if v := fs.take("minutes"); v.Kind() != 'n' && v != nil {
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n < 0 || n > 10*366*24*60 || fs.given("for") || fs.given("until") {
			return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "minutes",
				"minutes must be a number without for or until")
		}
		fs.set("for", strconv.FormatInt(int64(n*60_000), 10)+"ms")
	}
	return s.writes.change(w, r, trigger.OpSnooze, fs, &asReminder)
}

// patchReminder accepts {"skip": "2026-12-25"} to leave out one instance. Any other body is
// a PATCH of the trigger.
func (s *reminders) patchReminder(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return err
	}
	occurrence, err := fs.takeText("skip")
	if err != nil {
		return err
	}
	if occurrence != "" {
		note := fs.take("note")
		if len(fs) > 0 {
			return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, fs[0].name,
				"skip can only be combined with a note: patch other fields by another request")
		}
		if note != nil {
			fs.set("note", note)
		}
		fs.set("occurrence", occurrence)
		err := s.writes.change(w, r, trigger.OpSkip, fs, &asReminder)
		if err != nil && problem.Of(err).Field == "occurrence" {
			return problem.InField(err, "skip")
		}
		return err
	}
	if fs, err = withPayload(fs); err != nil {
		return err
	}
	return s.writes.patch(w, r, fs, &asReminder)
}

func (s *reminders) deleteReminder(w http.ResponseWriter, r *request) error {
	return s.writes.cancel(w, r, &asReminder)
}
