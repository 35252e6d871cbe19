package topics

import (
	"encoding/base64"

	"github.com/waterclock/waterclock/trigger"
)

// Redrive is the due event a redrive asks for again, from the record of a
// command that DecodeCommand found to be an OpRedrive: same ce_id, next
// attempt. Fired and Expires are for the caller to settle.
func Redrive(rec *Record, l Limits) (*trigger.Fire, error) {
	d := newDraft(l, trigger.Origin{})
	defer d.release()
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

// RedriveCommand makes the redrive of a dead letter: the gateway and the
// command line write its EncodeCommand under the trigger's key.
func RedriveCommand(l *trigger.DeadLetter) *CommandJSON {
	f, s := &l.Fire, l.Fire.Spec
	c := &CommandJSON{
		Op: trigger.OpRedrive.String(), DueID: f.ID(), Attempt: f.Attempt, Revision: f.Revision,
		ScheduledAt: TextOrNumber(f.Nominal.String()), LocalTime: f.Local,
		Channel: f.Channel, UserID: s.UserID, TargetKey: s.TargetKey, CorrelationID: s.CorrelationID,
	}
	if len(s.Payload) > 0 {
		c.PayloadBase64 = base64.StdEncoding.EncodeToString(s.Payload)
	}
	if s.Priority != trigger.Normal {
		c.Priority = s.Priority.String()
	}
	c.Headers = redriveHeaders(s)
	for _, t := range s.Tags {
		c.setTag(t)
	}
	if s.Callback != nil {
		c.Callback = &CallbackJSON{URL: s.Callback.URL}
		if s.Callback.Timeout > 0 {
			c.Callback.Timeout = TextOrNumber(milliseconds(s.Callback.Timeout))
		}
	}
	return c
}

func (c *CommandJSON) setTag(t trigger.Tag) {
	if c.Tags == nil {
		c.Tags = make(map[string]string)
	}
	c.Tags[t.Key] = t.Value
}

// redriveHeaders is the user's headers as a JSON object: of one name the last.
func redriveHeaders(s *trigger.Spec) map[string]string {
	hs := make(map[string]string, len(s.Headers)+2)
	for _, h := range s.Headers {
		hs[h.Key] = string(h.Value)
	}
	if s.ContentType != "" {
		hs[contentType] = s.ContentType
	}
	if s.TraceParent != "" {
		hs[traceParent] = s.TraceParent
	}
	return hs
}
