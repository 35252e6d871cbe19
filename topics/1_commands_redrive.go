package topics

import (
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// Redrive is the due event a redrive asks for again, from the record of a
// command that DecodeCommand found to be an OpRedrive: same ce_id, next
// attempt. The caller fills in Fired and Expires.
func Redrive(rec *Record, l Limits) (*trigger.Fire, error) {
	d := newDraft(l, trigger.Origin{})
	defer func() { _ = d.release() }() // its fault has been read
	if op := d.read(rec); op != trigger.OpRedrive && d.err == nil {
		return nil, fail(trigger.CodeInvalid, "op", "this is no redrive")
	}
	f := d.fire(d.content())
	if d.err != nil {
		return nil, d.err
	}
	return f, nil
}

// maxAttempts bounds attempts, far above what any retry profile makes.
const maxAttempts = 1 << 30

func (d *draft) fire(spec *trigger.Spec) *trigger.Fire {
	f := &trigger.Fire{Spec: spec, Channel: spec.Channel, Local: d.optionalLocal()}
	var err error
	if f.Key, f.Occurrence, f.Step, err = ParseDueID(d.text[fDueID]); err != nil {
		d.refuseError("due_id", err)
	}
	f.Attempt = int(d.number(fAttempt, maxAttempts)) + 1
	f.Revision = d.number(fRevision, 1<<53)
	f.Nominal = d.instant(fScheduledAt)
	f.Expires = d.instant(fExpiresAt)
	if f.Nominal == 0 {
		d.refuse(trigger.CodeInvalid, "scheduled_at", "a redrive carries the dead letter's scheduled_at")
	}
	return f
}

func (d *draft) optionalLocal() string { return d.string(fLocalTime, maxText) }

// instant is an instant, 0 if it was not given.
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

// RedriveCommand is the redrive of a dead letter: the value of a record under the
// trigger's key. The table spells the content as it spells a trigger's, but for the
// payload, which is base64 whatever it is.
func RedriveCommand(l *trigger.DeadLetter) ([]byte, error) {
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
	} {
		list = append(list, member{fieldTable[m.f].name, m.value})
	}
	return appendObject(nil, list...), nil
}

// redriveContent is what a due event was made of. Its content type and trace are
// among the headers, and of a callback's retries none is left.
func redriveContent(f *trigger.Fire) *trigger.Spec {
	s := *f.Spec
	s.Channel, s.Headers = f.Channel, slices.Clone(s.Headers)
	if s.ContentType != "" {
		s.Headers = append(s.Headers, header(contentType, s.ContentType))
	}
	if s.TraceParent != "" {
		s.Headers = append(s.Headers, header(traceParent, s.TraceParent))
	}
	if c := s.Callback; c != nil {
		s.Callback = &trigger.Callback{URL: c.URL, Timeout: c.Timeout}
	}
	return &s
}
