package topics

import (
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// This is the one table of a command's fields. These are built from it: the decoder of both
// spellings, the hash of a register's content, the JSON of a trigger (PATCH, GET, apply),
// /openapi.json, /docs, the flags of the command line, and the JSON Schema of a command.
//
// A new field of a register needs
//
//   - a constant in 1_commands_fields.go, and a row here
//   - a field of trigger.Spec (trigger/spec.go)
//   - a field of the state message: schemas/waterclock/v1/state.proto, 2_state.go and
//     2_spec_decode.go; then `make generate`, which writes schemas/command.schema.json, too
//   - if it goes out with due events: 3_due.go, 3_due_decode.go, 6_rejected.go
//
// Tests fail until all of it is there.

// fieldDef is a row: one field. A field with an owner is a member of that object, not of the
// command itself.
type fieldDef struct {
	f     field
	name  string
	kind  fieldKind
	owner field // 0 (fOp): the top
	ops   opSet // the ops that have it

	doc    string // for people; "" where the name says it
	schema string // JSON Schema of its value; "" is the kind's (property), or is made of the fields it owns
	needed bool   // its owner is refused without it

	flag string // of `waterclock schedule`; "" if it has none, or a flag of its own
	help string // of the flag

	// For fields that a trigger's Spec keeps. The when fields are read together, by when.
	read   func(d *draft, s *trigger.Spec)
	spell  func(b []byte, s *trigger.Spec) []byte // appends its value as JSON; a default appends nothing
	hash   func(h *content, s *trigger.Spec)
	hashAt byte // its place in the hash: the lowest number that it writes
}

// opSet is a set of ops.
type opSet uint32

func beside(ops ...trigger.Op) (s opSet) {
	for _, op := range ops {
		s |= 1 << op
	}
	return s
}

const allOps = opSet(1<<(trigger.OpErase+1) - 1<<trigger.OpRegister)

var (
	ofRegister = beside(trigger.OpRegister)
	ofWhen     = beside(trigger.OpRegister, trigger.OpReschedule)
	ofContent  = beside(trigger.OpRegister, trigger.OpRedrive)
	ofRedrive  = beside(trigger.OpRedrive)
)

// The table and what is derived from it. init fills them, because the table's functions use
// the table: they name the field that they refuse.
var (
	fieldTable     [fieldCount]fieldDef
	fieldsOf       [trigger.OpErase + 1]fieldSet // of each op
	contentFields  []fieldReader                 // that a register and a redrive share, in the order they are read
	registerOnly   []fieldReader                 // read behind the when fields
	hashed         []fieldHasher                 // in the order they are hashed
	fieldsByName   map[field]map[string]field
	fieldsByHeader map[string]field
)

// commandFields are the rows. A register's fields are in the order of the documentation.
func commandFields() []fieldDef {
	return []fieldDef{
		{f: fOp, name: "op", ops: allOps},

		// What and for whom. More of these follow the when fields.
		{
			f: fChannel, name: "channel", ops: ofContent,
			schema: `{"$ref": "#/$defs/channel", "default": "default"}`,
			doc:    "Where due events go; default: default, or webhook beside a callback",
			flag:   "channel", help: "where the due event goes (default \"default\")",
			read:  func(d *draft, s *trigger.Spec) { s.Channel = d.channel() },
			spell: func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.Channel) },
			hash:  func(h *content, s *trigger.Spec) { h.text(20, s.Channel) }, hashAt: 20,
		},
		{
			f: fUserID, name: "user_id", ops: ofContent,
			flag: "user", help: "`user` it is for",
			read:  func(d *draft, s *trigger.Spec) { s.UserID = d.string(fUserID, maxText) },
			spell: func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.UserID) },
			hash:  func(h *content, s *trigger.Spec) { h.text(21, s.UserID) }, hashAt: 21,
		},

		// When. These are read together.
		{
			f: fDelay, name: "delay", kind: kindTime, ops: ofWhen,
			schema: ref("duration"),
			doc:    "From the command's append; one of delay, fire_at, recurrence",
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.When.DelayText) },
			hash:   func(h *content, s *trigger.Spec) { h.text(2, s.When.DelayText) }, hashAt: 2,
		},
		{
			f: fFireAt, name: "fire_at", kind: kindTime, ops: ofWhen,
			schema: ref("time"),
			doc: "An instant, or a local date-time beside timezone, or 10 or 13 digits since 1970; beside recurrence " +
				"its start",
			spell: spellFireAt,
			hash: func(h *content, s *trigger.Spec) {
				h.number(3, int64(s.When.FireAt))
				h.text(4, s.When.Local)
			}, hashAt: 3,
		},
		{
			f: fTimezone, name: "timezone", ops: ofWhen | beside(trigger.OpRezone),
			schema: ref("timezone"),
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.When.Zone) },
			hash:   func(h *content, s *trigger.Spec) { h.text(5, s.When.Zone) }, hashAt: 5,
		},
		{
			f: fRecurrence, name: "recurrence", ops: ofWhen,
			schema: textUpTo(maxRule),
			doc:    "RRULE:… or FREQ=…, cron:…, every:15m",
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.When.Recurrence) },
			hash:   func(h *content, s *trigger.Spec) { h.text(6, s.When.Recurrence) }, hashAt: 6,
		},
		{
			f: fStart, name: "start", kind: kindTime, ops: ofWhen,
			schema: ref("time"),
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.When.Start) },
			hash:   func(h *content, s *trigger.Spec) { h.text(7, s.When.Start) }, hashAt: 7,
		},
		{
			f: fUntil, name: "until", kind: kindTime, ops: ofWhen | beside(trigger.OpSnooze),
			schema: ref("time"),
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.When.Until) },
			hash:   func(h *content, s *trigger.Spec) { h.text(10, s.When.Until) }, hashAt: 10,
		},
		{
			f: fCount, name: "count", kind: kindNumber, ops: ofWhen,
			schema: integerUpTo(maxCount),
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellNumber(b, int64(s.When.Count)) },
			hash:   func(h *content, s *trigger.Spec) { h.number(11, int64(s.When.Count)) }, hashAt: 11,
		},
		{
			f: fInclude, name: "include", kind: kindPart, ops: ofWhen,
			schema: ref("dates"),
			doc:    "More dates; alone they are a recurrence",
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellList(b, s.When.Include) },
			hash:   func(h *content, s *trigger.Spec) { h.items(8, s.When.Include) }, hashAt: 8,
		},
		{
			f: fExclude, name: "exclude", kind: kindPart, ops: ofWhen,
			schema: ref("dates"),
			doc:    "Dates left out; a bare date leaves out all of that day",
			spell:  func(b []byte, s *trigger.Spec) []byte { return spellList(b, s.When.Exclude) },
			hash:   func(h *content, s *trigger.Spec) { h.items(9, s.When.Exclude) }, hashAt: 9,
		},
		{
			f: fDST, name: "dst", kind: kindPart, ops: ofWhen, spell: spellDST,
			hash: func(h *content, s *trigger.Spec) {
				h.text(12, s.When.DST.Gap)
				h.text(13, s.When.DST.Overlap)
			}, hashAt: 12,
		},
		{f: fGap, name: "gap", owner: fDST, ops: ofWhen, schema: choice("shift", "skip")},
		{
			f: fOverlap, name: "overlap", owner: fDST, ops: ofWhen,
			schema: choice("first", "second", "both"),
		},
		{
			f: fCalendars, name: "calendars", kind: kindPart, ops: ofWhen, spell: spellCalendars,
			hash: func(h *content, s *trigger.Spec) { h.calendars(s.When.Calendars) }, hashAt: 14,
		},
		{
			f: fNames, name: "names", kind: kindPart, owner: fCalendars, ops: ofWhen,
			schema: schemaCalendarNames,
			needed: true,
		},
		{
			f: fOn, name: "on", owner: fCalendars, ops: ofWhen,
			schema: choice("skip", "next_business_day", "previous_business_day"),
		},

		// Content.
		{
			f: fPayload, name: "payload", kind: kindPart, ops: ofContent,
			schema: `{}`,
			doc:    "Any JSON; null is none. It becomes the due event's value byte for byte",
			read:   func(d *draft, s *trigger.Spec) { s.Payload, s.ContentType = d.payloadBytes() },
			spell:  spellPayload,
			hash:   func(h *content, s *trigger.Spec) { h.data(22, s.Payload); h.text(23, s.ContentType) }, hashAt: 22,
		},
		{
			f: fPayloadBase64, name: "payload_base64", ops: ofContent,
			schema: `{"type": "string", "contentEncoding": "base64"}`,
			doc:    "A payload that is not JSON", spell: spellPayloadBase64,
		},
		{
			f: fTargetKey, name: "target_key", ops: ofContent,
			doc:  "Key of the due event; default the trigger's",
			flag: "target-key", help: "`key` of the due event (default the trigger's)",
			read:  func(d *draft, s *trigger.Spec) { s.TargetKey = d.string(fTargetKey, maxText) },
			spell: func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.TargetKey) },
			hash:  func(h *content, s *trigger.Spec) { h.text(24, s.TargetKey) }, hashAt: 24,
		},
		{
			f: fHeaders, name: "headers", kind: kindPart, ops: ofContent,
			schema: schemaHeaders,
			doc:    "Travel to the due event",
			read:   func(d *draft, s *trigger.Spec) { s.Headers = d.headers },
			spell:  spellHeaders,
			hash:   func(h *content, s *trigger.Spec) { h.headers(s.Headers) }, hashAt: 42,
		},
		{
			f: fTags, name: "tags", kind: kindPart, ops: ofContent,
			schema: schemaTags,
			doc:    "For lists",
			read:   func(d *draft, s *trigger.Spec) { s.Tags = d.tags; sortTags(s.Tags) },
			spell:  spellTags,
			hash:   func(h *content, s *trigger.Spec) { h.tags(s.Tags) }, hashAt: 40,
		},
		{
			f: fPriority, name: "priority", ops: ofContent,
			schema: `{"enum": ["high", "normal", "low"], "default": "normal"}`,
			flag:   "priority", help: "high, normal or low",
			read:  func(d *draft, s *trigger.Spec) { s.Priority = d.priority() },
			spell: spellPriority,
			hash:  func(h *content, s *trigger.Spec) { h.number(25, int64(wirePriority[s.Priority])) }, hashAt: 25,
		},

		// How. Only a register has these.
		{
			f: fJitter, name: "jitter", kind: kindTime, ops: ofRegister,
			schema: ref("duration"),
			doc:    "Spreads firing over this time",
			flag:   "jitter", help: "spread over a `duration`",
			read:  func(d *draft, s *trigger.Spec) { s.Jitter = d.duration(fJitter) },
			spell: func(b []byte, s *trigger.Spec) []byte { return spellDuration(b, s.Jitter) },
			hash:  func(h *content, s *trigger.Spec) { h.number(26, int64(s.Jitter)) }, hashAt: 26,
		},
		{
			f: fExpiresAfter, name: "expires_after", kind: kindTime, ops: ofRegister,
			schema: ref("duration"),
			doc:    "An occurrence that is later than this expires and does not fire",
			flag:   "expires-after", help: "`duration` after which it is too late to fire",
			read:  func(d *draft, s *trigger.Spec) { s.Expires = d.duration(fExpiresAfter) },
			spell: func(b []byte, s *trigger.Spec) []byte { return spellDuration(b, s.Expires) },
			hash:  func(h *content, s *trigger.Spec) { h.number(27, int64(s.Expires)) }, hashAt: 27,
		},
		{
			f: fMisfire, name: "misfire", ops: ofRegister,
			schema: `{"enum": ["fire_all", "fire_once", "skip"], "default": "fire_once"}`,
			flag:   "misfire", help: "what to do with missed occurrences: fire_all, fire_once or skip",
			read:  func(d *draft, s *trigger.Spec) { s.Misfire = d.misfire() },
			spell: spellMisfire,
			hash:  func(h *content, s *trigger.Spec) { h.number(28, int64(s.Misfire)) }, hashAt: 28,
		},
		{
			f: fFollowUser, name: "follow_user", kind: kindBool, ops: ofRegister,
			flag: "follow-user", help: "move with the user's zone",
			read:  func(d *draft, s *trigger.Spec) { s.FollowUser = d.bool(fFollowUser) },
			spell: func(b []byte, s *trigger.Spec) []byte { return spellBool(b, s.FollowUser) },
			hash:  func(h *content, s *trigger.Spec) { h.flag(29, s.FollowUser) }, hashAt: 29,
		},
		{
			f: fCallback, name: "callback", kind: kindPart, ops: ofContent,
			doc:   "For channel webhook",
			read:  func(d *draft, s *trigger.Spec) { s.Callback = d.callback() },
			spell: spellCallback,
			hash:  func(h *content, s *trigger.Spec) { h.callback(s.Callback) }, hashAt: 30,
		},
		{f: fURL, name: "url", owner: fCallback, ops: ofContent, schema: schemaURL, needed: true},
		{
			f: fTimeout, name: "timeout", kind: kindTime, owner: fCallback, ops: ofContent,
			schema: ref("duration"),
		},
		{
			f: fRetry, name: "retry", kind: kindPart, owner: fCallback, ops: ofContent,
			schema: schemaRetry,
		},
		{
			f: fBody, name: "body", owner: fCallback, ops: ofContent,
			doc:    `What is sent: {"triggerId","payload"}, or the payload itself`,
			schema: choice("envelope", "raw"),
		},
		{
			f: fRecheck, name: "recheck", kind: kindBool, owner: fCallback, ops: ofContent,
			doc: "Ask before each request whether it still stands",
		},
		{
			f: fEscalation, name: "escalation", kind: kindPart, ops: ofRegister,
			schema: schemaEscalation,
			doc: "Steps: the first is the channel, each further one has a channel and after, from 1s to 7d since the " +
				"step before; 1 to 8",
			read:  func(d *draft, s *trigger.Spec) { s.Escalation = d.escalation(s.Channel) },
			spell: spellEscalation,
			hash:  func(h *content, s *trigger.Spec) { h.escalation(s.Escalation) }, hashAt: 36,
		},
		{
			f: fCorrelationID, name: "correlation_id", ops: allOps,
			flag: "correlation-id", help: "`id` that events carry",
			read:  func(d *draft, s *trigger.Spec) { s.CorrelationID = d.string(fCorrelationID, maxText) },
			spell: func(b []byte, s *trigger.Spec) []byte { return spellText(b, s.CorrelationID) },
		},

		{
			f: fNote, name: "note", ops: allOps,
			schema: textUpTo(maxNote),
			doc:    "Why, in at most 512 bytes: the detail of the event about this command",
			flag:   "note", help: "`reason`, which the event has as its detail",
		},

		// Conditions of the command. The trigger does not keep them.
		{
			f: fIfRevision, name: "if_revision", kind: kindNumber, ops: allOps,
			doc: "Only if the trigger is at this revision; else conflict",
		},
		{
			f: fIfAbsent, name: "if_absent", kind: kindBool, ops: ofRegister,
			doc:  "Only if the trigger does not exist",
			flag: "if-absent", help: "only if there is no such trigger",
		},
		{
			f: fIdempotencyKey, name: "idempotency_key", ops: ofRegister,
			doc:  "As the header Idempotency-Key",
			flag: "idempotency-key", help: "`key` under which a repeat changes nothing",
		},
		{f: fActor, name: "actor", ops: allOps, doc: "Who asked, for the event log"},

		// Fields of other ops.
		{
			f: fFor, name: "for", kind: kindTime, ops: beside(trigger.OpSnooze),
			schema: ref("duration"),
		},
		{f: fOccurrence, name: "occurrence", ops: beside(trigger.OpSkip, trigger.OpAck)},
		{f: fDueID, name: "due_id", ops: ofRedrive, schema: `{"type": "string"}`},
		{f: fAttempt, name: "attempt", kind: kindNumber, ops: ofRedrive, doc: "Of the dead letter"},
		{f: fRevision, name: "revision", kind: kindNumber, ops: ofRedrive},
		{
			f: fScheduledAt, name: "scheduled_at", kind: kindTime, ops: ofRedrive,
			schema: ref("time"),
		},
		{f: fLocalTime, name: "local_time", ops: ofRedrive},
		{f: fExpiresAt, name: "expires_at", kind: kindTime, ops: ofRedrive, schema: ref("time")},
		{
			f: fFirstFiredAt, name: "first_fired_at", kind: kindTime, ops: ofRedrive, schema: ref("time"),
			doc: "When the occurrence first went out, if it did",
		},
	}
}

// fieldReader and fieldHasher are the parts of a row that the decoder needs, packed for
// speed.
type fieldReader struct {
	f    field
	read func(d *draft, s *trigger.Spec)
}

type fieldHasher struct {
	f    field
	hash func(h *content, s *trigger.Spec)
}

func init() {
	for _, row := range commandFields() {
		fieldTable[row.f] = row
		row.addRegisterField()
	}
	deriveFields()
}

func deriveFields() {
	for f := range fieldCount {
		def := &fieldTable[f]
		for op := range fieldsOf {
			fieldsOf[op].set(f, def.ops&(1<<op) != 0)
		}
		if def.hash != nil {
			hashed = append(hashed, fieldHasher{f, def.hash})
		}
		switch {
		case def.read == nil:
		case def.ops == ofRegister:
			registerOnly = append(registerOnly, fieldReader{f, def.read})
		default:
			contentFields = append(contentFields, fieldReader{f, def.read})
		}
	}
	slices.SortFunc(hashed, func(a, b fieldHasher) int {
		return int(fieldTable[a.f].hashAt) - int(fieldTable[b.f].hashAt)
	})
	fieldsByName, fieldsByHeader = indexFields(), indexHeaders()
}

// Field is a field of a register, for code that writes or describes registers.
type Field struct {
	Name string
	Doc  string // "" where the name says it
	When bool   // it says when
	Kept bool   // the trigger keeps it; otherwise it is a condition of the command
	Type string // type of JSON Schema in answers; "" is an object, a list or the payload

	Flag, Help string // of `waterclock schedule`; "" if it has none, or a flag of its own
	Bool       bool   // the flag has no value

	f field
}

// Append appends the Spec's value of the field as JSON. It appends nothing if the value is
// the default, or is spelled by another field.
func (f *Field) Append(b []byte, s *trigger.Spec) []byte {
	if spell := fieldTable[f.f].spell; spell != nil {
		return spell(b, s)
	}
	return b
}

// RegisterFields are the fields of a register, in the order of the table.
func RegisterFields() []Field { return slices.Clone(registerFields) }

// RegisterField returns the field with this name.
func RegisterField(name string) (Field, bool) {
	i := slices.IndexFunc(registerFields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return registerFields[i], true
}

// registerFields are the table's rows for a register's own fields, without op and actor.
var registerFields []Field

func (def *fieldDef) addRegisterField() {
	if def.owner != 0 || def.ops&ofRegister == 0 || def.f == fOp || def.f == fActor {
		return
	}
	registerFields = append(registerFields, Field{
		Name: def.name, Doc: def.doc, When: def.ops&ofWhen == ofWhen && def.ops != allOps, Kept: def.spell != nil,
		Type: def.kind.schemaType(), Flag: def.flag, Help: def.help, Bool: def.kind == kindBool, f: def.f,
	})
}

func (k fieldKind) schemaType() string {
	return [...]string{
		kindText: "string", kindTime: "string", kindNumber: "integer", kindBool: "boolean",
		kindPart: "",
	}[k]
}
