package waterclock

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Op is what a command does.
type Op string

// The ops that this package can send.
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
	OpErase      Op = "erase"
)

// Command is a command as a value: one line of a batch, or one Kafka record. If its construction
// fails, the call that sends it returns the error.
type Command struct {
	ID      string // trigger id; a register of a batch may omit it
	Op      Op
	Headers []Header // record headers, for Kafka only

	fields     *fields
	hasKey     bool // it has an idempotency key
	ifRevision bool
	names      bool // an ack that names its occurrence
	async      bool // for HTTP only
}

func command(op Op, id string, f *fields, opts []Option) *Command {
	o := optionsOf(opts)
	o.into(f)
	return &Command{
		ID: id, Op: op, Headers: o.headers, fields: f,
		hasKey: o.idempotencyKey != "", ifRevision: o.ifRevision != nil, async: o.async,
	}
}

// ScheduleCommand creates or replaces a trigger.
func ScheduleCommand(id string, r Register, opts ...Option) *Command {
	c := command(OpRegister, id, r.fields(), opts)
	c.hasKey = c.hasKey || r.Extra["idempotency_key"] != nil
	return c
}

// CancelCommand ends a trigger.
func CancelCommand(id string, opts ...Option) *Command { return command(OpCancel, id, empty(), opts) }

// RescheduleCommand replaces all of when the trigger fires, and nothing else.
func RescheduleCommand(id string, w When, opts ...Option) *Command {
	return command(OpReschedule, id, object(w), opts)
}

// SnoozeCommand moves a one-shot to a later time, and adds an occurrence to a series.
func SnoozeCommand(id string, s Snooze, opts ...Option) *Command {
	return command(OpSnooze, id, object(s), opts)
}

// SkipCommand leaves out one occurrence of a series. "" means the next one.
func SkipCommand(id, occurrence string, opts ...Option) *Command {
	f := empty()
	f.text("occurrence", occurrence)
	return command(OpSkip, id, f, opts)
}

// AckCommand says that the user reacted to an occurrence. "" means whatever is in flight.
func AckCommand(id, occurrence string, opts ...Option) *Command {
	f := empty()
	f.text("occurrence", occurrence)
	c := command(OpAck, id, f, opts)
	c.names = occurrence != ""
	return c
}

// PauseCommand stops occurrences until ResumeCommand. The note may be empty.
func PauseCommand(id, note string, opts ...Option) *Command {
	return command(OpPause, id, empty(), withNote(opts, note))
}

// ResumeCommand ends a pause. The misfire policy decides about the missed occurrences.
func ResumeCommand(id, note string, opts ...Option) *Command {
	return command(OpResume, id, empty(), withNote(opts, note))
}

// withNote adds a note that is not empty. It replaces that of an Option.
func withNote(opts []Option, note string) []Option {
	if note == "" {
		return opts
	}
	return append(slices.Clip(opts), Note(note))
}

// RunCommand fires the trigger once now, in addition to its schedule.
func RunCommand(id string, opts ...Option) *Command { return command(OpRunNow, id, empty(), opts) }

// RezoneCommand moves a trigger with wall times to another zone.
func RezoneCommand(id, zone string, opts ...Option) *Command {
	f := empty()
	f.add("timezone", zone)
	return command(OpRezone, id, f, opts)
}

// EraseCommand ends a trigger and forgets its content. It is for Kafka: a batch does not take it.
func EraseCommand(id string, opts ...Option) *Command { return command(OpErase, id, empty(), opts) }

// Record returns the Kafka record of the command, for any client library. The murmur2 hash of the
// key chooses the partition, as with Kafka's own clients. Send Headers along with it. The tenant
// "" is the default tenant.
func (c *Command) Record(tenant string) (key, value []byte, err error) {
	key, err = recordKey(tenant, c.ID)
	if err != nil {
		return nil, nil, err
	}
	if c.async {
		return nil, nil, refuse("invalid", "", "Async is for HTTP: a command over Kafka never waits")
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

// json returns the JSON object, with one more field unless v is empty. A line of a batch also has
// op, and no line breaks.
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
	if err := json.Compact(&b, raw); err != nil { // a payload may contain line breaks
		return nil, err
	}
	return b.Bytes(), nil
}

// maxKey bounds the bytes of a trigger key.
const maxKey = 255

// recordKey returns the trigger key: id, or tenant/id.
func recordKey(tenant, id string) ([]byte, error) {
	own := tenant != "" && tenant != "default"
	switch {
	case id == "":
		return nil, refuse("invalid_key", "id", "the id is empty")
	case !own && strings.Contains(id, "/"):
		return nil, refuse("invalid_key", "id", "an id of the default tenant must not contain '/'; set the tenant")
	case strings.HasSuffix(id, "/"):
		return nil, refuse("invalid_key", "id", "the id ends with '/'")
	case own && strings.Contains(tenant, "/"):
		return nil, refuse("invalid_key", "tenant", "a tenant must not contain '/'")
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
