package topics

import (
	"encoding/base64"
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// maxAttempts bounds attempts, far above what any retry profile makes. Workers count attempts in 24 bits, those of the
// retries after a redrive too.
const maxAttempts = 16_000_000

// maxOccurrence bounds the name of an occurrence in a due_id, in bytes. Those that we make have at most 60.
const maxOccurrence = 128

// deadLetter is the due event to send again, as it was last sent.
func (d *draft) deadLetter(spec *trigger.Spec) *trigger.Fire {
	f := &trigger.Fire{Spec: spec, Channel: spec.Channel, Local: d.string(fLocalTime, maxText)}
	var err error
	if f.Key, f.Occurrence, f.Step, err = ParseDueID(d.text[fDueID]); err != nil {
		d.refuseError("due_id", err)
	}
	if len(f.Occurrence) > maxOccurrence { // it would be in the state three times, beside the content
		d.refuse(trigger.CodeInvalid, "due_id", "the occurrence in due_id is longer than 128 bytes")
	}
	f.Attempt = int(d.number(fAttempt, maxAttempts))
	f.Revision = d.number(fRevision, 1<<53)
	if !d.seen.has(fAttempt) {
		d.refuse(trigger.CodeInvalid, "attempt", "a redrive carries the dead letter's attempt")
	}
	f.Nominal = d.instant(fScheduledAt)
	f.Expires, f.FirstFired = d.instant(fExpiresAt), d.instant(fFirstFiredAt)
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
	b := make([]byte, 0, redriveBytes+base64.StdEncoding.EncodedLen(len(content.Payload)))
	b = append(b, '{')
	add := func(of field, spell func(b []byte) []byte) { b = appendMember(b, 1, fieldTable[of].name, spell) }
	add(fOp, func(b []byte) []byte { return appendString(b, trigger.OpRedrive.String()) })
	for i := range registerFields {
		def := &fieldTable[registerFields[i].f]
		switch {
		case def.ops&ofRedrive == 0 || def.spell == nil, def.f == fPayload:
		case def.f == fPayloadBase64:
			add(def.f, func(b []byte) []byte { return spellBase64(b, content.Payload) })
		default:
			add(def.f, func(b []byte) []byte { return def.spell(b, content) })
		}
	}
	add(fDueID, func(b []byte) []byte { return spellText(b, f.ID()) })
	add(fAttempt, func(b []byte) []byte { return spellNumber(b, int64(f.Attempt)) })
	add(fRevision, func(b []byte) []byte { return spellNumber(b, f.Revision) })
	add(fScheduledAt, func(b []byte) []byte { return spellText(b, f.Nominal.String()) })
	add(fLocalTime, func(b []byte) []byte { return spellText(b, f.Local) })
	add(fExpiresAt, func(b []byte) []byte { return spellInstant(b, f.Expires) })
	add(fFirstFiredAt, func(b []byte) []byte { return spellInstant(b, f.FirstFired) })
	add(fNote, func(b []byte) []byte { return spellText(b, note) })
	add(fActor, func(b []byte) []byte { return spellText(b, actor) })
	return append(b, '}'), nil
}

// redriveBytes is about what a redrive takes beside its payload.
const redriveBytes = 512

// spellInstant spells an instant, and nothing where there is none.
func spellInstant(b []byte, at trigger.Instant) []byte {
	if at == 0 {
		return b
	}
	return spellText(b, at.String())
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
