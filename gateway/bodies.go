package gateway

import (
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waterclock/waterclock/topics"
)

// What bodies look like, for /openapi.json. What they mean is for
// topics.DecodeCommand to say; a test holds the two together.

// textOrNumber is topics.TextOrNumber in a schema.
type textOrNumber string

// Schema is what JSON may have for a time or a duration.
func (textOrNumber) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeNumber}}}
}

// Register is the body of a register, PUT and, with id, POST.
type Register struct{}

// Patch is the body of a PATCH.
type Patch struct{}

// ReminderBody is a register with title and body.
type ReminderBody struct{}

// ReminderPatch is a patch with title, body or skip.
type ReminderPatch struct{}

// RegisterOrShort is what POST takes.
type RegisterOrShort struct{}

// RegisteredEither is what POST answers: in the form it was asked.
type RegisteredEither struct{}

func (Register) Schema(r huma.Registry) *huma.Schema {
	return commandSchema(r, registerFields("id"))
}

func (Patch) Schema(r huma.Registry) *huma.Schema {
	return commandSchema(r, slices.DeleteFunc(registerFields(), func(name string) bool { return name == "idempotency_key" }))
}

func (ReminderBody) Schema(r huma.Registry) *huma.Schema {
	return commandSchema(r, registerFields("id", "title", "body"))
}

func (ReminderPatch) Schema(r huma.Registry) *huma.Schema {
	return commandSchema(r, slices.DeleteFunc(registerFields("title", "body", "skip"), func(name string) bool { return name == "idempotency_key" }))
}

func (RegisterOrShort) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[Register](r), schemaOf[ShortForm](r)}}
}

func (RegisteredEither) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[Registered](r), schemaOf[ShortAnswer](r)}}
}

func schemaOf[T any](r huma.Registry) *huma.Schema {
	return named(r, reflect.TypeFor[T](), "")
}

// fieldDocs say what a field of a register is; those without one are in the
// answer of GET too, or plain.
var fieldDocs = map[string]string{
	"id":              "Without it, and without an idempotency key, a new one is made: trg_ and a ULID",
	"channel":         "Where due events go; default: default, or webhook beside a callback",
	"delay":           "7m, 1h30m, PT7M or seconds, from the command's append; one of delay, fire_at, recurrence",
	"fire_at":         "An instant, or a local date-time beside timezone, or 10 or 13 digits since 1970; beside recurrence its start",
	"timezone":        "An IANA name",
	"recurrence":      "RRULE:…, cron:… or every:15m",
	"include":         "More dates; alone they are a recurrence",
	"exclude":         "Dates left out; a bare date leaves out all of that day",
	"payload":         "Any JSON; null is none",
	"payload_base64":  "A payload that is not JSON",
	"target_key":      "Key of the due record; default the trigger's",
	"headers":         "Travel to the due event",
	"tags":            "For lists",
	"jitter":          "Spreads firing over this time",
	"expires_after":   "Later than this an occurrence is expired instead of fired",
	"callback":        "For channel webhook",
	"if_revision":     "Only if the trigger is at this revision",
	"if_absent":       "Only if the trigger does not exist",
	"idempotency_key": "As the header Idempotency-Key",
	"title":           "Goes into the payload",
	"body":            "Goes into the payload",
	"skip":            "Alone: leaves out the instance of this date",
}

// notOfRegister are the fields of CommandJSON that other ops have.
var notOfRegister = []string{"op", "actor", "for", "occurrence", "note", "due_id", "attempt", "revision", "scheduled_at", "local_time", "expires_at"}

// registerFields are the names of a register's fields, and some more.
func registerFields(more ...string) []string {
	t := reflect.TypeFor[topics.CommandJSON]()
	for i := range t.NumField() {
		if name := jsonName(t.Field(i)); !slices.Contains(notOfRegister, name) {
			more = append(more, name)
		}
	}
	return more
}

func jsonName(f reflect.StructField) string {
	tag := f.Tag.Get("json")
	for i := range tag {
		if tag[i] == ',' {
			return tag[:i]
		}
	}
	return tag
}

// commandSchema is the schema of an object with some of the fields of a
// command. null counts as absent everywhere.
func commandSchema(r huma.Registry, names []string) *huma.Schema {
	all := huma.SchemaFromType(r, reflect.TypeFor[topics.CommandJSON]())
	s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: false}
	for _, name := range names {
		p := all.Properties[name]
		if p == nil {
			p = &huma.Schema{Type: huma.TypeString}
		}
		p.Description = fieldDocs[name]
		s.Properties[name] = orNull(p)
	}
	return s
}

func orNull(p *huma.Schema) *huma.Schema {
	switch {
	case p.OneOf != nil:
		p.OneOf = append(p.OneOf, &huma.Schema{Type: "null"})
	case p.Ref != "":
		return &huma.Schema{OneOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}, Description: p.Description}
	case p.Type != "":
		p.Nullable = true
	}
	return p
}

// SnoozeBody has one of for and until.
type SnoozeBody struct {
	For        topics.TextOrNumber `json:"for,omitempty" doc:"A duration such as 10m"`
	Until      topics.TextOrNumber `json:"until,omitempty" doc:"An instant, or a local date-time in the trigger's zone"`
	IfRevision int64               `json:"if_revision,omitempty"`
	Corr       string              `json:"correlation_id,omitempty"`
}

// SkipBody names an occurrence; the default is the next.
type SkipBody struct {
	Occurrence string `json:"occurrence,omitempty" doc:"A local date, local date-time or instant"`
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// NoteBody says why.
type NoteBody struct {
	Note       string `json:"note,omitempty"`
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// EmptyBody needs nothing.
type EmptyBody struct {
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// RezoneBody names the new zone.
type RezoneBody struct {
	Timezone   string `json:"timezone" doc:"An IANA name"`
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// ReminderSnooze is SnoozeBody, or minutes.
type ReminderSnooze struct {
	Minutes    float64             `json:"minutes,omitempty"`
	For        topics.TextOrNumber `json:"for,omitempty"`
	Until      topics.TextOrNumber `json:"until,omitempty"`
	IfRevision int64               `json:"if_revision,omitempty"`
	Corr       string              `json:"correlation_id,omitempty"`
}

// PreviewBody is a wish to preview.
type PreviewBody struct {
	ID         any                   `json:"id,omitempty" doc:"Comes back in the answer"`
	FireAt     topics.TextOrNumber   `json:"fire_at,omitempty"`
	Recurrence string                `json:"recurrence,omitempty"`
	Delay      topics.TextOrNumber   `json:"delay,omitempty"`
	Start      string                `json:"start,omitempty"`
	Timezone   string                `json:"timezone,omitempty"`
	Include    []string              `json:"include,omitempty"`
	Exclude    []string              `json:"exclude,omitempty"`
	Until      string                `json:"until,omitempty"`
	Count      int                   `json:"count,omitempty" minimum:"1"`
	DST        *topics.DSTJSON       `json:"dst,omitempty"`
	Calendars  *topics.CalendarsJSON `json:"calendars,omitempty"`
	After      topics.TextOrNumber   `json:"after,omitempty" doc:"Exclusive; default now"`
	N          int                   `json:"n,omitempty" minimum:"1" maximum:"10000"` // calendar.PreviewMaxN
}
