package topics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

//go:generate go run ./gen ../schemas/command.schema.json

// CommandSchema is schemas/command.schema.json: the JSON Schema of a command, built from
// the table of its fields. What a field may be is in its row (schema), what several fields
// share is in schemaTypes, and which fields an op has is in the rows' ops.
func CommandSchema() ([]byte, error) {
	var refs, defs []string
	for _, t := range schemaTypes {
		defs = append(defs, pair(t.name, t.schema))
	}
	for _, g := range schemaGroups {
		defs = append(defs, pair(g.name, objectOf(fieldsWith(g.holds), g.more)))
	}
	for i := range schemaVariants {
		v := &schemaVariants[i]
		refs = append(refs, ref(v.name))
		defs = append(defs, pair(v.name, v.schema()))
	}
	text := braces(
		pair("$schema", quoted("https://json-schema.org/draft/2020-12/schema")),
		pair("$id", quoted("https://waterclock.dev/schemas/command.schema.json")),
		pair("title", quoted("Waterclock command")),
		pair("description", quoted(schemaDescription)),
		pair("type", quoted("object")),
		pair("required", list(quoted("op"))),
		pair("oneOf", list(refs...)),
		pair("$defs", braces(defs...)),
	)
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		return nil, fmt.Errorf("the schema of a command: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

const schemaDescription = "The value of a record on waterclock.commands in the JSON spelling. The record's key is " +
	"the trigger's id, or tenant/id. A null field is the same as an absent one. What this schema cannot say " +
	"(exactly one time field, ranges against the append time, what a rule means) the engine checks; a command it " +
	"refuses goes to waterclock.rejected with the reason."

// schemaTypes are what the fields' schemas refer to.
var schemaTypes = []struct{ name, schema string }{
	{"channel", `{"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,48}$",
		"not": {"type": "string", "pattern": "\\.high$"}}`},
	{"text", fmt.Sprintf(`{"type": "string", "minLength": 1, "maxLength": %d,
		"pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$"}`, maxText)},
	{"duration", braces(
		pair("description", quoted("7m, 1h30m, 2d, 1w, 500ms, PT7M, or a number of seconds. A day is 24 hours. "+
			"No years, no months, at most 10 years.")),
		`"type": ["string", "number"]`,
		pair("pattern", quoted(`^([0-9]+(\.[0-9]{1,3})?|([0-9]+(\.[0-9]{1,3})?(w|d|h|ms|m|s))+|`+
			`[Pp]([0-9.]+[WwDd])*([Tt]([0-9.]+[HhMmSs])+)?)$`)),
		`"minimum": 0`,
		`"maximum": 315576000`,
	)},
	{"time", braces(
		pair("description", quoted("RFC 3339 with an offset or Z; a local date-time, whose zone is timezone; or a "+
			"number of 10 digits (seconds) or 13 digits (milliseconds since 1970).")),
		`"type": ["string", "integer"]`,
		pair("pattern", quoted(`^([0-9]{10}|[0-9]{13}|`+schemaDate+schemaTime+`)$`)),
	)},
	{"date", braces(
		pair("description", quoted("A local date, a local date-time, or an instant.")),
		`"type": "string"`,
		pair("pattern", quoted(`^([0-9]{10}|[0-9]{13}|`+schemaDate+`(`+schemaTime+`)?)$`)),
	)},
	{"dates", fmt.Sprintf(`{"type": "array", "items": %s, "maxItems": %d}`, ref("date"), maxDates)},
	{"timezone", `{"description": "An IANA name, never an offset.", "type": "string",
		"pattern": "^[A-Za-z][A-Za-z0-9_+/-]{0,63}$"}`},
	{"texts", `{"type": "object", "additionalProperties": {"type": "string"}}`},
}

const (
	schemaDate = `[0-9]{4}-[0-9]{2}-[0-9]{2}`
	schemaTime = `[Tt][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?`
)

// The schemas that are too long for their rows.
var (
	schemaCalendarNames = fmt.Sprintf(`{"type": "array", "minItems": 1, "maxItems": %d,
		"items": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"}}`, calendar.MaxCalendars)
	schemaURL = fmt.Sprintf(`{"type": "string", "maxLength": %d,
		"pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+([/?#].*)?$"}`, maxURL)
	schemaRetry   = fmt.Sprintf(`{"type": "array", "items": %s, "maxItems": %d}`, ref("duration"), maxCallbackRetries)
	schemaHeaders = `{"$ref": "#/$defs/texts", "maxProperties": 64,
		"propertyNames": {"minLength": 1, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$", "not": {"pattern": "^[Ww][Cc]-"}},
		"additionalProperties": {"type": "string", "pattern": "^[^\\x00-\\x08\\x0a-\\x1f\\x7f]*$"}}`
	schemaTags = fmt.Sprintf(`{"$ref": "#/$defs/texts", "maxProperties": %d,
		"propertyNames": {"minLength": 1, "maxLength": %d, "pattern": "^[^:\\x00-\\x1f\\x7f-\\x9f]*$"},
		"additionalProperties": {"type": "string", "maxLength": %d}}`, maxTags, maxTagKey, maxTagValue)
	schemaEscalation = fmt.Sprintf(`{"type": "array", "minItems": 1, "maxItems": %d,
		"items": {
			"type": "object",
			"properties": {"channel": {"$ref": "#/$defs/channel"}, "after": {"$ref": "#/$defs/duration"}},
			"required": ["channel"],
			"additionalProperties": false
		}}`, maxSteps)
)

// schemaGroup is fields that several ops share.
type schemaGroup struct {
	name  string
	ops   opSet
	holds func(*fieldDef) bool
	more  string // what the group demands beside its fields' schemas
}

var schemaGroups = []schemaGroup{
	{
		name: "common", ops: allOps,
		holds: func(d *fieldDef) bool { return d.ops == allOps && d.f != fOp },
	},
	{
		name: "when", ops: ofWhen,
		holds: func(d *fieldDef) bool { return d.ops&ofWhen == ofWhen && d.ops != allOps },
		more: `"anyOf": [{"required": ["delay"]}, {"required": ["fire_at"]}, {"required": ["recurrence"]},
			{"required": ["include"]}]`,
	},
	{
		name: "content", ops: ofContent,
		holds: func(d *fieldDef) bool { return d.ops == ofContent },
		more:  `"not": {"required": ["payload", "payload_base64"]}`,
	},
}

// schemaVariant is one or more ops with the same fields.
type schemaVariant struct {
	name, doc string
	ops       []trigger.Op
	required  []field
	more      string // what the ops demand beside their fields' schemas
}

var schemaVariants = []schemaVariant{
	{
		name: "register", doc: "Create the trigger, or replace the whole of it.",
		ops: []trigger.Op{trigger.OpRegister},
	},
	{name: "reschedule", doc: "Change only when it fires.", ops: []trigger.Op{trigger.OpReschedule}},
	{
		name: "snooze", doc: "Fire again, or later: for a while, or until a time.",
		ops: []trigger.Op{trigger.OpSnooze}, more: `"oneOf": [{"required": ["for"]}, {"required": ["until"]}]`,
	},
	{name: "skip", doc: "Leave out one occurrence, by default the next.", ops: []trigger.Op{trigger.OpSkip}},
	{name: "ack", doc: "The user reacted.", ops: []trigger.Op{trigger.OpAck}},
	{name: "pauseOrResume", ops: []trigger.Op{trigger.OpPause, trigger.OpResume}},
	{
		name: "rezone", doc: "Move a local-time trigger to another zone; wall times are kept.",
		ops: []trigger.Op{trigger.OpRezone}, required: []field{fTimezone},
	},
	{name: "cancelOrErase", ops: []trigger.Op{trigger.OpCancel, trigger.OpErase}},
	{name: "run", doc: "Fire once now.", ops: []trigger.Op{trigger.OpRunNow}},
	{
		name: "redrive", doc: "Try a dead-lettered occurrence again. Written by the gateway and the command line " +
			"from the dead letter.",
		ops: []trigger.Op{trigger.OpRedrive}, required: []field{fDueID, fAttempt, fScheduledAt},
	},
}

func (v *schemaVariant) schema() string {
	op := beside(v.ops[0]) // the others have the same fields
	var groups []string
	own := func(d *fieldDef) bool { return d.ops&op != 0 && d.f != fOp }
	for i := range schemaGroups {
		g, rest := &schemaGroups[i], own
		if g.ops&op == 0 {
			continue
		}
		groups = append(groups, ref(g.name))
		own = func(d *fieldDef) bool { return rest(d) && !g.holds(d) }
	}
	names := make([]string, 0, len(v.ops))
	for _, op := range v.ops {
		names = append(names, op.String())
	}
	which := enum(names...)
	if len(names) == 1 {
		which = pair("const", quoted(names[0]))
	}
	members := []string{
		pair("allOf", list(groups...)),
		pair("properties", braces(append([]string{pair("op", braces(which))}, fieldsWith(own)...)...)),
		required(v.required),
		v.more,
		`"unevaluatedProperties": false`,
	}
	if v.doc != "" {
		members = append([]string{pair("description", quoted(v.doc))}, members...)
	}
	return braces(members...)
}

// fieldsWith are the properties for which is says yes, of the top, in the order of the table.
func fieldsWith(is func(*fieldDef) bool) (properties []string) {
	for _, def := range commandFields() {
		if def.owner == 0 && is(&def) {
			properties = append(properties, def.property())
		}
	}
	return properties
}

// property is a field as a member of its object's properties.
func (def *fieldDef) property() string {
	var inner []string
	var needed []field
	for _, in := range commandFields() {
		if in.owner == def.f && def.f != fOp {
			inner = append(inner, in.property())
			if in.needed {
				needed = append(needed, in.f)
			}
		}
	}
	schema := def.schema
	switch {
	case inner != nil:
		schema = objectOf(inner, required(needed), `"additionalProperties": false`)
	case schema != "":
	case def.kind == kindBool:
		schema = `{"type": "boolean", "default": false}`
	case def.kind == kindNumber:
		schema = `{"type": "integer", "minimum": 1}`
	case def.kind == kindText:
		schema = ref("text")
	}
	if def.doc != "" {
		schema = braces(pair("description", quoted(def.doc)), strings.TrimSpace(schema[1:len(schema)-1]))
	}
	return pair(def.name, schema)
}

func objectOf(properties []string, more ...string) string {
	return braces(append([]string{
		pair("type", quoted("object")), pair("properties", braces(properties...)),
	}, more...)...)
}

func required(fields []field) string {
	if len(fields) == 0 {
		return ""
	}
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		names = append(names, quoted(fieldTable[f].name))
	}
	return pair("required", list(names...))
}

func textUpTo(most int) string {
	return fmt.Sprintf(`{"type": "string", "minLength": 1, "maxLength": %d}`, most)
}

func integerUpTo(most int) string {
	return fmt.Sprintf(`{"type": "integer", "minimum": 1, "maximum": %d}`, most)
}

func ref(name string) string { return braces(pair("$ref", quoted("#/$defs/"+name))) }

// enum is the pair that names the values a text may have.
func enum(values ...string) string {
	all := make([]string, 0, len(values))
	for _, v := range values {
		all = append(all, quoted(v))
	}
	return pair("enum", list(all...))
}

// choice is one of some texts, of which the first is the default.
func choice(first string, others ...string) string {
	return braces(enum(append([]string{first}, others...)...), pair("default", quoted(first)))
}

func pair(name, value string) string { return quoted(name) + ":" + value }

// braces makes an object of members; empty ones count for nothing.
func braces(members ...string) string { return "{" + joined(members) + "}" }

func list(items ...string) string { return "[" + joined(items) + "]" }

func joined(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		if p == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(p)
	}
	return b.String()
}

func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string it cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}
