package topics

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// Bounds on text fields, in bytes.
const (
	maxText = 255
	maxNote = 512
	maxURL  = 2048
)

// build checks the fields of the draft and turns them into c.
func (d *draft) build(c *trigger.Command) {
	if d.err != nil {
		return
	}
	c.IfRevision = d.number(fIfRevision, 1<<53)
	c.Actor = d.string(fActor, maxText)
	c.Note = d.string(fNote, maxNote)
	d.string(fCorrelationID, maxText) // only a register keeps it
	switch c.Op {
	case trigger.OpRegister:
		d.buildRegister(c)
	case trigger.OpReschedule:
		c.Spec = &trigger.Spec{Channel: "", Priority: trigger.Normal, When: d.when()}
		c.Zone = d.idleZone(&c.Spec.When)
	case trigger.OpSnooze:
		d.buildSnooze(c)
	case trigger.OpSkip:
		c.Occurrence = d.occurrence()
	case trigger.OpAck:
		c.Occurrence = d.string(fOccurrence, maxText) // may also name a snooze or a run_now
	case trigger.OpRezone:
		c.Zone = d.zone()
		if !d.seen.has(fTimezone) {
			d.refuse(trigger.CodeInvalid, "timezone", "rezone needs a timezone")
		}
	case trigger.OpRedrive:
		d.buildRedrive(c)
	}
}

func (d *draft) buildRegister(c *trigger.Command) {
	d.plainHeaders()
	s := d.content()
	s.When = d.when()
	for i := range registerOnly {
		if f := &registerOnly[i]; d.seen.has(f.f) {
			f.read(d, s)
		}
	}
	c.Spec, c.Patch, c.Zone = s, d.patch, d.idleZone(&s.When)
	c.IdempotencyKey = d.string(fIdempotencyKey, maxText)
	c.IfAbsent = d.bool(fIfAbsent)
	d.checkTogether(c)
	if d.err == nil {
		c.Hash = contentHash(s)
		d.takePreferred(s)
	}
}

// takePreferred gives a register that names no channel the one that its user prefers.
// What it names by escalation or callback counts as named.
func (d *draft) takePreferred(s *trigger.Spec) {
	named := d.seen.has(fChannel) || d.seen.has(fEscalation) || d.seen.has(fCallback)
	if !named && s.UserID != "" && MayPrefer(d.prefer) {
		s.Channel = d.prefer
	}
}

// MayPrefer says whether a register that names no channel may go to a preferred one.
// Channel webhook needs a callback.
func MayPrefer(channel string) bool { return ValidChannel(channel) && channel != channelWebhook }

// checkTogether refuses fields that are right alone and wrong together.
func (d *draft) checkTogether(c *trigger.Command) {
	s := c.Spec
	switch {
	case s.Jitter > 0 && s.Priority == trigger.High:
		d.refuse(trigger.CodeInvalid, "jitter", "jitter does not go with priority high: leave out one of them")
	case d.seen.has(fExpiresAfter) && s.Expires == 0:
		d.refuse(trigger.CodeInvalid, "expires_after", "expires_after must be longer than 0")
	case c.IfAbsent && c.IfRevision != 0:
		d.refuse(trigger.CodeInvalid, "if_absent", "if_absent does not go with if_revision: leave out one of them")
	case s.FollowUser && !d.seen.has(fTimezone):
		d.refuse(trigger.CodeInvalid, "timezone", "follow_user needs a timezone: write the one that the user has now")
	case s.FollowUser && s.When.Zone == "":
		d.refuse(trigger.CodeInvalid, "follow_user",
			"follow_user needs a local time: write fire_at without an offset, or a recurrence")
	case s.FollowUser && s.UserID == "":
		d.refuse(trigger.CodeInvalid, "user_id", "follow_user needs a user_id")
	case s.GoesTo(channelWebhook) != (s.Callback != nil):
		d.checkCallback(s.Callback != nil)
	}
}

func (d *draft) checkCallback(given bool) {
	if given {
		d.refuse(trigger.CodeInvalid, "callback",
			"callback needs channel webhook: leave out callback, or write that channel")
		return
	}
	d.refuse(trigger.CodeInvalid, "callback", "channel webhook needs a callback: name its url in callback "+
		"(header wc-callback-url, flag --callback-url)")
}

// channelWebhook is the only channel for callbacks, and the default if there is a callback.
// Otherwise the default is DefaultChannel.
const (
	channelWebhook = trigger.CallbackChannel
	DefaultChannel = "default"
)

// readUnseen are the fields to read even if they were not given: they have a default, or a
// value from elsewhere in the record.
const readUnseen fieldSet = 1<<fChannel | 1<<fPriority | 1<<fPayload | 1<<fHeaders

// content is the fields a register and a redrive share.
func (d *draft) content() *trigger.Spec {
	s := &trigger.Spec{TraceParent: d.traceParent}
	for i := range contentFields {
		if f := &contentFields[i]; d.seen.has(f.f) || readUnseen.has(f.f) {
			f.read(d, s)
		}
	}
	return s
}

// payloadBytes is the payload and its content type.
func (d *draft) payloadBytes() (payload []byte, contentType string) {
	if d.seen.has(fPayloadBase64) {
		d.unwrapPayload()
	}
	if len(d.payload) > d.limits.Payload {
		d.refuse(trigger.CodeTooLarge, "payload", fmt.Sprintf("the payload has %d bytes; at most %d", len(d.payload),
			d.limits.Payload))
	}
	switch {
	case d.contentType != "":
		return d.payload, d.contentType
	case d.payloadIsJSON:
		return d.payload, typeJSON
	}
	return d.payload, contentTypeOf(d.payload)
}

func (d *draft) unwrapPayload() {
	text := strings.TrimRight(d.text[fPayloadBase64], "=")
	switch {
	case d.seen.has(fPayload):
		d.refuse(trigger.CodeInvalid, "payload_base64", "give payload or payload_base64, not both")
		return
	case base64.RawStdEncoding.DecodedLen(len(text)) > d.limits.Payload:
		d.refuse(trigger.CodeTooLarge, "payload", fmt.Sprintf("the payload has over %d bytes", d.limits.Payload))
		return
	}
	payload, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		d.refuse(trigger.CodeInvalid, "payload_base64", "payload_base64 is not base64")
	}
	d.payload = payload
}

const typeJSON = "application/json"

// contentTypeOf is a payload's content type if no header gives one.
func contentTypeOf(payload []byte) string {
	switch {
	case len(payload) == 0:
		return ""
	case payloadIsJSON(payload):
		return typeJSON
	}
	return "application/octet-stream"
}

func (d *draft) channel() string {
	name := d.text[fChannel]
	switch {
	case !d.seen.has(fChannel) && len(d.steps) > 0: // escalation reports what is wrong with it
		return d.steps[0].channel
	case !d.seen.has(fChannel) && d.seen.has(fCallback):
		return channelWebhook
	case !d.seen.has(fChannel):
		return DefaultChannel
	case !ValidChannel(name):
		d.refuse(trigger.CodeInvalid, "channel",
			whatChannelsAre)
	}
	return name
}

const whatChannelsAre = "a channel is 1 to 49 of a-z 0-9 . _ -, the first a letter or digit, and does not end in .high"

// ValidChannel says whether s may name a channel: [a-z0-9][a-z0-9._-]{0,48}. A name that ends
// in .high would be another channel's high lane.
func ValidChannel(s string) bool {
	return len(s) <= 49 && ValidName(s) && !strings.HasSuffix(s, HighLane(""))
}

// priority maps the names' order to the numbers of trigger.Priority.
func (d *draft) priority() trigger.Priority {
	return [...]trigger.Priority{
		trigger.Normal, trigger.High,
		trigger.Low,
	}[d.choice(fPriority, "normal", "high", "low")]
}

func (d *draft) buildSnooze(c *trigger.Command) {
	if d.seen.has(fFor) == d.seen.has(fUntil) {
		d.refuse(trigger.CodeConflictingTime, "for", "a snooze needs one of for and until")
		return
	}
	if d.seen.has(fFor) {
		c.For = d.duration(fFor)
		return
	}
	at := d.moment(fUntil)
	if at.local == "" {
		d.checkRange(fUntil, at.instant)
	}
	c.Until, c.UntilLocal = at.instant, at.local
}

// buildRedrive reads what RedriveCommand wrote.
func (d *draft) buildRedrive(c *trigger.Command) {
	c.Dead = d.deadLetter(d.content())
	if c.Dead.Key != c.Key {
		d.refuse(trigger.CodeInvalid, "due_id", "due_id names another trigger than the record key")
	}
}

// string is a text field's value, checked; "" if it was not given.
func (d *draft) string(f field, limit int) string {
	s := d.text[f]
	switch {
	case !d.seen.has(f):
		return ""
	case s == "":
		d.refuse(trigger.CodeInvalid, f.path(), fieldTable[f].name+" is empty: leave it out")
	case len(s) > limit:
		d.refuse(trigger.CodeInvalid, f.path(), fmt.Sprintf("%s has %d bytes; at most %d", fieldTable[f].name, len(s),
			limit))
	case !printable(s):
		d.refuse(trigger.CodeInvalid, f.path(), fieldTable[f].name+" has a control character")
	}
	return s
}

// choice is the index of the field's value in names, 0 if it was not given.
func (d *draft) choice(f field, names ...string) int {
	if !d.seen.has(f) {
		return 0
	}
	for i, name := range names {
		if d.text[f] == name {
			return i
		}
	}
	d.refuse(trigger.CodeInvalid, f.path(), fieldTable[f].name+" must be one of "+strings.Join(names, ", "))
	return 0
}

func (d *draft) misfire() trigger.Misfire {
	return trigger.Misfire(d.choice(fMisfire, trigger.FireOnce.String(), trigger.FireAll.String(),
		trigger.SkipMissed.String()))
}

func (d *draft) bool(f field) bool { return d.choice(f, "false", "true") == 1 }

// number is a whole number from 1 to limit, 0 if it was not given.
func (d *draft) number(f field, limit int64) int64 {
	if !d.seen.has(f) {
		return 0
	}
	n, err := strconv.ParseInt(d.text[f], 10, 64)
	if err != nil || n < 1 || n > limit {
		d.refuse(trigger.CodeInvalid, f.path(),
			fmt.Sprintf("%s must be a whole number from 1 to %d", fieldTable[f].name, limit))
	}
	return n
}

// duration is 0 to 10 years; 0 if it was not given.
func (d *draft) duration(f field) time.Duration {
	if !d.seen.has(f) {
		return 0
	}
	v, err := calendar.ParseDuration(d.text[f])
	if err != nil {
		d.refuseError(f.path(), err)
	}
	return v
}

// CheckNote refuses a note that no command may have.
func CheckNote(note string) error {
	d := draft{}
	d.text[fNote] = note
	d.seen.set(fNote, note != "")
	d.string(fNote, maxNote)
	if d.err != nil {
		return d.err
	}
	return nil
}
