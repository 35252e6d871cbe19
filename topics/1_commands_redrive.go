package topics

import (
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// maxAttempts bounds attempts, far above what any retry profile makes.
const maxAttempts = 1 << 30

// deadLetter is the due event to send again, as it was last sent.
func (d *draft) deadLetter(spec *trigger.Spec) *trigger.Fire {
	f := &trigger.Fire{Spec: spec, Channel: spec.Channel, Local: d.string(fLocalTime, maxText)}
	var err error
	if f.Key, f.Occurrence, f.Step, err = ParseDueID(d.text[fDueID]); err != nil {
		d.refuseError("due_id", err)
	}
	f.Attempt = int(d.number(fAttempt, maxAttempts))
	f.Revision = d.number(fRevision, 1<<53)
	if !d.seen.has(fAttempt) {
		d.refuse(trigger.CodeInvalid, "attempt", "a redrive carries the dead letter's attempt")
	}
	f.Nominal = d.instant(fScheduledAt)
	f.Expires = d.instant(fExpiresAt)
	if f.Nominal == 0 {
		d.refuse(trigger.CodeInvalid, "scheduled_at", "a redrive carries the dead letter's scheduled_at")
	}
	if f.Expires > f.Nominal {
		spec.Expires = f.Expires.Sub(f.Nominal)
	}
	return f
}

// instant reads an instant; 0 if the field was not given.
func (d *draft) instant(f field) trigger.Instant {
	if !d.seen.has(f) {
		return 0
	}
	m := d.moment(f)
	if m.local != "" {
		d.refuse(trigger.CodeInvalid, f.path(), fieldTable[f].name+" needs an offset or Z")
	}
	return m.instant
}

// RedriveCommand is the value of the command that redrives a dead letter. Its record key is
// the trigger's key. It keeps the dead letter's time of expiry, if there is one. The content
// is spelled by the table of fields, except that the payload is always base64. The note and the
// actor may be empty.
func RedriveCommand(l *trigger.DeadLetter, note, actor string) ([]byte, error) {
	f := &l.Fire
	if _, err := trigger.ParseKey([]byte(f.Key)); err != nil {
		return nil, err
	}
	content := redriveContent(f)
	list := []member{{fieldTable[fOp].name, appendString(nil, trigger.OpRedrive.String())}}
	for i := range registerFields {
		def := &fieldTable[registerFields[i].f]
		switch {
		case def.ops&ofRedrive == 0 || def.spell == nil, def.f == fPayload:
		case def.f == fPayloadBase64:
			list = append(list, member{def.name, spellBase64(nil, content.Payload)})
		default:
			list = append(list, member{def.name, def.spell(nil, content)})
		}
	}
	for _, m := range [...]struct {
		f     field
		value []byte
	}{
		{fDueID, spellText(nil, f.ID())},
		{fAttempt, spellNumber(nil, int64(f.Attempt))},
		{fRevision, spellNumber(nil, f.Revision)},
		{fScheduledAt, spellText(nil, f.Nominal.String())},
		{fLocalTime, spellText(nil, f.Local)},
		{fExpiresAt, spellInstant(f.Expires)},
		{fNote, spellText(nil, note)},
		{fActor, spellText(nil, actor)},
	} {
		list = append(list, member{fieldTable[m.f].name, m.value})
	}
	return appendObject(nil, list...), nil
}

// spellInstant spells an instant, and nothing where there is none.
func spellInstant(at trigger.Instant) []byte {
	if at == 0 {
		return nil
	}
	return spellText(nil, at.String())
}

// redriveContent is the Spec of a due event. Content type and traceparent are sent as
// headers.
func redriveContent(f *trigger.Fire) *trigger.Spec {
	s := *f.Spec
	s.Channel, s.Headers = f.Channel, slices.Clone(s.Headers)
	if s.ContentType != "" {
		s.Headers = append(s.Headers, header(contentType, s.ContentType))
	}
	if s.TraceParent != "" {
		s.Headers = append(s.Headers, header(traceParent, s.TraceParent))
	}
	return &s
}
