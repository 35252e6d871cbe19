package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Trigger is a trigger as GET shows it: its standing, the fields of its register (the table
// of package topics), and its firings.
type Trigger struct {
	Standing
	register []byte // a JSON object
	Firings
}

// Standing is the present state of a trigger.
type Standing struct {
	TriggerID string `json:"trigger_id"`
	Tenant    string `json:"tenant"`
	State     string `json:"state" enum:"PENDING,PAUSED,IN_FLIGHT,FIRED,FAILED,CANCELLED,EXPIRED"`
	Revision  int64  `json:"revision"`

	RegisteredFireAt string `json:"registered_fire_at,omitempty" doc:"fire_at as registered, if fire_at shows another text: a local time, or a snooze has moved it" example:"2026-11-20T09:00:00"`

	NextFireAt string   `json:"next_fire_at,omitempty" format:"date-time" doc:"When it fires next, jitter and snoozes included"`
	LocalTime  string   `json:"local_time,omitempty" example:"2026-11-20T09:00:00[America/New_York]"`
	TZData     string   `json:"tzdata,omitempty" doc:"Release of the tz database the instant was resolved with"`
	Skipped    []string `json:"skipped,omitempty" doc:"Coming occurrences that are left out"`
	AsOf       string   `json:"as_of,omitempty" format:"date-time" doc:"The instant that was asked for"`

	PayloadHidden bool `json:"payload_hidden,omitempty" doc:"It has a payload, which is left out: the caller's roles may not read it, or payload=false asked for that"`
}

// Firings are the past firings of a trigger, and the occurrences that are still open.
type Firings struct {
	Attempt     int        `json:"attempt" doc:"Of the occurrence in flight, else of the last one; 0 before the first"`
	LastFiredAt string     `json:"last_fired_at,omitempty" format:"date-time"`
	Live        []LiveJSON `json:"live,omitempty" doc:"Occurrences with a timer of their own"`
	Note        string     `json:"note,omitempty" doc:"Of the pause"`
	CreatedAt   string     `json:"created_at" format:"date-time"`
	UpdatedAt   string     `json:"updated_at" format:"date-time"`
	ForgetAt    string     `json:"forget_at,omitempty" format:"date-time" doc:"Of a finished trigger: until when its record is kept"`
}

// LiveJSON is an occurrence with a timer of its own.
type LiveJSON struct {
	Kind       string `json:"kind" enum:"snoozed,in_flight,retry,run_now,escalating"`
	Occurrence string `json:"occurrence"`
	Step       int    `json:"step,omitempty" doc:"Step of its escalation that went out last, from 0"`
	At         string `json:"at" format:"date-time" doc:"When its timer fires: the occurrence fires, is retried, or times out"`
	Attempt    int    `json:"attempt"`
	NextStepAt string `json:"next_step_at,omitempty" format:"date-time" doc:"When the next step of its escalation goes out"`
}

var liveKinds = [...]string{
	trigger.LiveSnoozed: "snoozed", trigger.LiveInFlight: "in_flight", trigger.LiveRetry: "retry",
	trigger.LiveRunNow: "run_now", trigger.LiveEscalating: "escalating",
}

// MarshalJSON encodes the three parts as one object.
func (t *Trigger) MarshalJSON() ([]byte, error) { return t.appendJSON(nil) }

func (t *Trigger) appendJSON(b []byte) ([]byte, error) {
	return appendJoined(b, &t.Standing, rawObject(t.register), &t.Firings)
}

// appendJoined appends one object with the members of several objects. None of them may be
// empty.
func appendJoined(b []byte, objects ...any) ([]byte, error) {
	b = append(b, '{')
	for _, o := range objects {
		begin := len(b)
		var err error
		if b, err = appendJSON(b, o); err != nil {
			return nil, err
		}
		copy(b[begin:], b[begin+1:]) // without the braces in between
		b = b[:len(b)-1]
		b[len(b)-1] = ','
	}
	b[len(b)-1] = '}'
	return b, nil
}

// appender encodes itself. json.Marshal would read all of that once more, to compact it.
type appender interface {
	appendJSON(b []byte) ([]byte, error)
}

type rawObject []byte

func (o rawObject) appendJSON(b []byte) ([]byte, error) { return append(b, o...), nil }

func appendJSON(b []byte, v any) ([]byte, error) {
	if a, ok := v.(appender); ok {
		return a.appendJSON(b)
	}
	one, err := json.Marshal(v)
	return append(b, one...), err
}

// appendPage appends a page of a list.
func appendPage[T appender](b []byte, items []T, next string) (_ []byte, err error) {
	b = append(b, `{"items":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = items[i].appendJSON(b); err != nil {
			return nil, err
		}
	}
	if b = append(b, ']'); next != "" {
		b = append(b, `,"next_cursor":`...)
		b, err = jsontext.AppendQuote(b, next)
	}
	return append(b, '}'), err
}

// triggerJSON shows a trigger, with or without its payload.
func triggerJSON(st *trigger.State, payloads bool) *Trigger {
	return &Trigger{
		Standing: Standing{
			TriggerID: st.Key.ID(), Tenant: st.Key.Tenant(), State: st.Status.String(), Revision: st.Revision,
			RegisteredFireAt: registeredFireAt(st), NextFireAt: instantText(st.NextFire()),
			LocalTime: st.Series.Local, TZData: st.Series.TZData, Skipped: st.Series.Skip,
			PayloadHidden: !payloads && len(st.Spec.Payload) > 0,
		},
		register: registerJSON(st, payloads), Firings: firingsJSON(st),
	}
}

func registeredFireAt(st *trigger.State) string {
	switch w := &st.Spec.When; {
	case w.Kind == trigger.WhenLocal:
		return w.Local
	case w.Kind == trigger.WhenInstant && w.FireAt != st.Nominal():
		return w.FireAt.String()
	}
	return ""
}

// registerJSON encodes the fields of a register that a trigger has, with or without its
// payload. Some fields are shown as planned, or even if they have the default value.
func registerJSON(st *trigger.State, payloads bool) []byte {
	hasPayload := false
	b := append(make([]byte, 0, 256+len(st.Spec.Payload)*4/3), '{')
	for i := range shownTable {
		f := &shownTable[i]
		if f.instead && hasPayload || f.ofPayload && !payloads {
			continue
		}
		name := len(b)
		b = append(b, f.quoted...)
		value := len(b)
		if f.text == nil {
			b = f.Append(b, &st.Spec)
		} else if text := f.text(st); text != "" {
			b, _ = jsontext.AppendQuote(b, text)
		}
		if len(b) == value {
			b = b[:name]
			continue
		}
		hasPayload = hasPayload || f.Name == "payload"
		b = append(b, ',')
	}
	b[len(b)-1] = '}' // not empty: a trigger always has a channel
	return asMarshaled(b)
}

// asMarshaled is JSON as json.Marshal writes it: compact, and safe in HTML. Most triggers
// have that form already.
func asMarshaled(b []byte) []byte {
	if !slices.ContainsFunc(b, spelledOtherwise) {
		return b
	}
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, b) != nil {
		return b
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes()
}

// spelledOtherwise reports whether json.Marshal may drop or escape a byte: white space,
// characters with a meaning in HTML, and 0xe2, which begins U+2028 and U+2029.
func spelledOtherwise(c byte) bool { return c <= ' ' || c == '<' || c == '>' || c == '&' || c == 0xe2 }

func firingsJSON(st *trigger.State) Firings {
	f := Firings{
		Note: st.Note, CreatedAt: st.CreatedAt.String(), UpdatedAt: st.UpdatedAt.String(),
		ForgetAt: instantText(st.ForgetAt),
	}
	if n := len(st.Done); n > 0 {
		f.LastFiredAt, f.Attempt = st.Done[n-1].At.String(), 1
	}
	for i := range st.Live {
		l := &st.Live[i]
		if l.Kind == trigger.LiveInFlight || l.Kind == trigger.LiveRetry {
			f.Attempt = l.Attempt
		}
		f.Live = append(f.Live, LiveJSON{
			liveKinds[l.Kind], l.Occurrence, l.Step, l.Due.String(), l.Attempt, instantText(l.NextStep),
		})
	}
	return f
}

// shownField is how GET shows a field of a register, if it differs from the table.
type shownField struct {
	text   func(*trigger.State) string // "" shows nothing; nil: as the trigger keeps it
	always bool                        // never omitted
	doc    string
	format string
	oneOf  []any
	kind   reflect.Type // type of an object or a list
}

var shown = map[string]shownField{
	"channel": {always: true},
	"delay":   {doc: "As registered"},
	"fire_at": {
		doc: "Nominal instant of the next occurrence, or of the last one that fired", format: "date-time",
		text: func(st *trigger.State) string { return instantText(st.Nominal()) },
	},
	"timezone":  {text: shownZone},
	"start":     {text: shownStart},
	"include":   {kind: of[[]string]()},
	"exclude":   {kind: of[[]string]()},
	"dst":       {kind: of[topics.DSTJSON]()},
	"calendars": {kind: of[topics.CalendarsJSON]()},

	"payload":        {doc: "The payload, if it is JSON"},
	"payload_base64": {doc: "The payload, if it is not"},
	"headers":        {kind: of[map[string]string]()},
	"tags":           {kind: of[map[string]string]()},
	"priority": {
		always: true, oneOf: []any{"high", "normal", "low"},
		text: func(st *trigger.State) string { return st.Spec.Priority.String() },
	},
	"misfire": {
		always: true, oneOf: []any{"fire_all", "fire_once", "skip"},
		text: func(st *trigger.State) string { return st.Spec.Misfire.String() },
	},
	"callback":   {kind: of[topics.CallbackJSON]()},
	"escalation": {kind: of[[]topics.StepJSON]()},
}

// shownTable lists the fields that a trigger keeps, and how they are shown.
var shownTable = func() (all []shownRow) {
	for _, f := range registerTable {
		if f.Kept {
			all = append(all, shownRow{
				f, shown[f.Name], `"` + f.Name + `":`, f.Name == "payload_base64",
				strings.HasPrefix(f.Name, "payload"),
			})
		}
	}
	return all
}()

type shownRow struct {
	topics.Field
	shownField
	quoted  string // the quoted name and a colon
	instead bool   // field of the payload that a single parse decides: JSON or not

	ofPayload bool
}

// shownZone is UTC for a rule without a timezone.
func shownZone(st *trigger.State) string {
	if w := &st.Spec.When; w.Zone != "" || w.Recurrence == "" {
		return w.Zone
	}
	return "UTC"
}

// shownStart is the start as it was given, else the one that the rule was planned from.
func shownStart(st *trigger.State) string { return cmp.Or(st.Spec.When.Start, st.Series.Start) }

// describeRegister adds the fields of a register to the schemas of the types that show
// them.
func describeRegister(types huma.Registry) {
	for _, name := range []string{"Trigger", "Reminder"} {
		s := types.Map()[name]
		var always []string
		for i := range shownTable {
			f := &shownTable[i]
			s.Properties[f.Name] = f.schema(types)
			if f.always {
				always = append(always, f.Name)
			}
		}
		s.Required = slices.Insert(s.Required, slices.Index(s.Required, "revision")+1, always...)
	}
}

func (f *shownRow) schema(types huma.Registry) *huma.Schema {
	if f.kind != nil {
		return types.Schema(f.kind, true, f.Name)
	}
	schema := &huma.Schema{Type: f.Type, Description: f.doc, Format: f.format, Enum: f.oneOf}
	if f.Type == huma.TypeInteger {
		schema.Format = "int64"
	}
	return schema
}
