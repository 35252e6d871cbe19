package gateway

import (
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waterclock/waterclock/topics"
)

// The schemas of bodies, for /openapi.json. The table of package topics decides which
// fields a register has, and topics.DecodeCommand what they mean. A test compares the two.

// textOrNumber is topics.TextOrNumber in a schema.
type textOrNumber string

// Schema is the schema of a time or a duration in JSON.
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

// RegisterOrShort is the body of POST.
type RegisterOrShort struct{}

// RegisteredEither is the answer to POST, in the form of the request.
type RegisteredEither struct{}

// Schema describes it for the OpenAPI document.
func (Register) Schema(huma.Registry) *huma.Schema {
	return commandSchema(registerFields("id"))
}

// Schema describes it for the OpenAPI document.
func (Patch) Schema(huma.Registry) *huma.Schema {
	return commandSchema(slices.DeleteFunc(registerFields(),
		func(name string) bool { return name == "idempotency_key" }))
}

// Schema describes it for the OpenAPI document.
func (ReminderBody) Schema(huma.Registry) *huma.Schema {
	return commandSchema(registerFields("id", "title", "body"))
}

// Schema describes it for the OpenAPI document.
func (ReminderPatch) Schema(huma.Registry) *huma.Schema {
	return commandSchema(slices.DeleteFunc(registerFields("title", "body", "skip"),
		func(name string) bool { return name == "idempotency_key" }))
}

// Schema describes it for the OpenAPI document.
func (RegisterOrShort) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[Register](r), schemaOf[ShortForm](r)}}
}

// Schema describes it for the OpenAPI document.
func (RegisteredEither) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[Registered](r), schemaOf[ShortAnswer](r)}}
}

func schemaOf[T any](r huma.Registry) *huma.Schema {
	return named(r, reflect.TypeFor[T](), "")
}

// otherDocs describes the fields beside a register's.
var otherDocs = map[string]string{
	"id":    "Default: made from the idempotency key, or else a new one, trg_ and a ULID",
	"title": "Goes into the payload",
	"body":  "Goes into the payload",
	"skip":  "Alone: leaves out the instance of this date",
}

func fieldDoc(name string) string {
	if f, ok := topics.RegisterField(name); ok {
		return f.Doc
	}
	return otherDocs[name]
}

// registerFields lists the names of a register's fields, and more.
func registerFields(more ...string) []string {
	for _, f := range topics.RegisterFields() {
		more = append(more, f.Name)
	}
	return more
}

// commandSchema is the schema of an object with some of the fields of a command. null
// counts as absent everywhere. The fields' own schemas are added later (openapi_fields.go).
func commandSchema(names []string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: false}
	for _, name := range names {
		s.Properties[name] = &huma.Schema{Type: huma.TypeString, Nullable: true, Description: fieldDoc(name)}
	}
	return s
}

// SnoozeBody has one of for and until.
type SnoozeBody struct {
	For        topics.TextOrNumber `json:"for,omitempty" doc:"A duration such as 10m"`
	Until      topics.TextOrNumber `json:"until,omitempty" doc:"An instant, or a local date-time in the trigger's zone"`
	Note       string              `json:"note,omitempty"`
	IfRevision int64               `json:"if_revision,omitempty"`
	Corr       string              `json:"correlation_id,omitempty"`
}

// AckBody names the occurrence that the user has reacted to; the default is every one in
// flight.
type AckBody struct {
	Occurrence string `json:"occurrence,omitempty" doc:"Its name in events and due events, without the life"`
	Note       string `json:"note,omitempty"`
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// SkipBody names an occurrence; the default is the next.
type SkipBody struct {
	Occurrence string `json:"occurrence,omitempty" doc:"A local date, local date-time or instant"`
	Note       string `json:"note,omitempty"`
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// NoteBody has no fields of its own but a note: the reason.
type NoteBody struct {
	Note       string `json:"note,omitempty"`
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// RezoneBody names the new zone.
type RezoneBody struct {
	Timezone   string `json:"timezone" doc:"An IANA name"`
	Note       string `json:"note,omitempty"`
	IfRevision int64  `json:"if_revision,omitempty"`
	Corr       string `json:"correlation_id,omitempty"`
}

// ReminderSnooze is SnoozeBody, or minutes.
type ReminderSnooze struct {
	Minutes    float64             `json:"minutes,omitempty"`
	For        topics.TextOrNumber `json:"for,omitempty"`
	Until      topics.TextOrNumber `json:"until,omitempty"`
	Note       string              `json:"note,omitempty"`
	IfRevision int64               `json:"if_revision,omitempty"`
	Corr       string              `json:"correlation_id,omitempty"`
}

// PreviewBody is a rule or time to preview.
type PreviewBody struct {
	ID         any                   `json:"id,omitempty" doc:"Returned in the answer"`
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
