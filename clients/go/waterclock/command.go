package waterclock

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Op is what a command does.
type Op string

// The ops that this package makes commands of.
const (
	OpRegister   Op = "register"
	OpCancel     Op = "cancel"
	OpReschedule Op = "reschedule"
	OpSnooze     Op = "snooze"
	OpSkip       Op = "skip"
	OpPause      Op = "pause"
	OpResume     Op = "resume"
	OpRunNow     Op = "run_now"
	OpRezone     Op = "rezone"
	OpAck        Op = "ack"
)

// Command is a command as a value: a line of a batch, or a record for Kafka. An
// error in its making comes up where it is sent.
type Command struct {
	ID      string // of the trigger; a register of a batch may leave it out
	Op      Op
	Headers []Header // of the record, for Kafka

	fields     *fields
	hasKey     bool // an idempotency key
	ifRevision bool
	httpOnly   bool // Async was asked for
}

func command(op Op, id string, f *fields, opts []Option) *Command {
	o := optionsOf(opts)
	o.into(f)
	return &Command{
		ID: id, Op: op, Headers: o.headers, fields: f,
		hasKey: o.idempotencyKey != "", ifRevision: o.ifRevision != 0, httpOnly: o.async,
	}
}

// ScheduleCommand creates or replaces a trigger.
func ScheduleCommand(id string, r Register, opts ...Option) *Command {
	return command(OpRegister, id, r.fields(), opts)
}

// CancelCommand ends a trigger.
func CancelCommand(id string, opts ...Option) *Command { return command(OpCancel, id, empty(), opts) }

// RescheduleCommand changes only when.
func RescheduleCommand(id string, w When, opts ...Option) *Command {
	return command(OpReschedule, id, object(w), opts)
}

// SnoozeCommand fires later: moves a one-shot, adds an occurrence to a series.
func SnoozeCommand(id string, s Snooze, opts ...Option) *Command {
	return command(OpSnooze, id, object(s), opts)
}

// SkipCommand leaves out one occurrence of a series; "" is the next.
func SkipCommand(id, occurrence string, opts ...Option) *Command {
	f := empty()
	f.text("occurrence", occurrence)
	return command(OpSkip, id, f, opts)
}

// AckCommand says that the user reacted; "" is whatever is in flight.
func AckCommand(id, occurrence string, opts ...Option) *Command {
	f := empty()
	f.text("occurrence", occurrence)
	return command(OpAck, id, f, opts)
}

// PauseCommand stops occurrences until ResumeCommand. The note may be empty.
func PauseCommand(id, note string, opts ...Option) *Command {
	f := empty()
	f.text("note", note)
	return command(OpPause, id, f, opts)
}

// ResumeCommand goes on; the misfire policy decides on what was missed.
func ResumeCommand(id, note string, opts ...Option) *Command {
	f := empty()
	f.text("note", note)
	return command(OpResume, id, f, opts)
}

// RunCommand fires once now, off schedule.
func RunCommand(id string, opts ...Option) *Command { return command(OpRunNow, id, empty(), opts) }

// RezoneCommand moves a trigger with wall times to another zone.
func RezoneCommand(id, zone string, opts ...Option) *Command {
	f := empty()
	f.add("timezone", zone)
	return command(OpRezone, id, f, opts)
}

// Record is the record that says it by Kafka, for any client library: the key,
// whose murmur2 chooses the partition as Kafka's own clients do, and the value.
// Headers are to go with it. A tenant of "" is the default one.
func (c *Command) Record(tenant string) (key, value []byte, err error) {
	key, err = recordKey(tenant, c.ID)
	if err != nil {
		return nil, nil, err
	}
	if c.httpOnly {
		return nil, nil, refuse("invalid", "", "Async is for HTTP: a command by Kafka is never waited for")
	}
	for _, h := range c.Headers {
		switch name := strings.ToLower(h.Key); {
		case strings.HasPrefix(name, "wc-"), strings.HasPrefix(name, "wcx-"), strings.HasPrefix(name, "ce_"):
			return nil, nil, refuse("invalid", h.Key, "the header is Waterclock's own")
		}
	}
	value, err = c.json("op", string(c.Op), false)
	return key, value, err
}

// json is the object with one or two fields more. A line has none but itself.
func (c *Command) json(name, v string, line bool) ([]byte, error) {
	if c.fields == nil {
		c.fields = empty()
	}
	f := fields{b: c.fields.b[:len(c.fields.b):len(c.fields.b)], err: c.fields.err}
	if v != "" {
		f.add(name, v)
	}
	if line && c.Op != OpRegister && c.Op != "" {
		f.add("op", string(c.Op))
	}
	raw, err := f.bytes()
	if err != nil || !line {
		return raw, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil { // a payload may have had line breaks
		return nil, err
	}
	return b.Bytes(), nil
}

// maxKey bounds a trigger key.
const maxKey = 255

// recordKey is id, or tenant/id.
func recordKey(tenant, id string) ([]byte, error) {
	own := tenant != "" && tenant != "default"
	switch {
	case id == "":
		return nil, refuse("invalid_key", "id", "the id is empty")
	case !own && strings.Contains(id, "/"):
		return nil, refuse("invalid_key", "id", "an id of the default tenant has no '/'; set the tenant")
	case strings.HasSuffix(id, "/"):
		return nil, refuse("invalid_key", "id", "the id ends with '/'")
	case own && strings.Contains(tenant, "/"):
		return nil, refuse("invalid_key", "tenant", "a tenant has no '/'")
	case !utf8.ValidString(id):
		return nil, refuse("invalid_key", "id", "the id is not UTF-8")
	case strings.ContainsFunc(tenant+id, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }):
		return nil, refuse("invalid_key", "id", "the id has a control character")
	}
	key := id
	if own {
		key = tenant + "/" + id
	}
	if len(key) > maxKey {
		return nil, refuse("invalid_key", "id", "the key has over "+strconv.Itoa(maxKey)+" bytes")
	}
	return []byte(key), nil
}
