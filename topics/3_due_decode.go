package topics

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// ParseDueID splits a ce_id. It reads from the end, because the key may have '@' and '#', and
// the occurrence has neither.
func ParseDueID(id string) (key trigger.Key, occurrence string, step int, err error) {
	if id == "" {
		return "", "", 0, fail(trigger.CodeInvalid, "due_id", "due_id is missing: write the ce_id of the due event")
	}
	hash := strings.LastIndexByte(id, '#')
	if hash < 0 {
		return "", "", 0, dueIDError("has no #step")
	}
	at := strings.LastIndexByte(id[:hash], '@')
	if at < 0 || at+1 == hash {
		return "", "", 0, dueIDError("has no @occurrence")
	}
	n, good := parseNumber(id[hash+1:], 16)
	if !good {
		return "", "", 0, dueIDError("has no number behind the #")
	}
	key, err = trigger.ParseKey([]byte(id[:at]))
	if err != nil {
		return "", "", 0, dueIDError("does not begin with a trigger key")
	}
	return key, id[at+1 : hash], int(n), nil
}

func dueIDError(what string) error {
	return fail(trigger.CodeInvalid, "due_id", "due_id is <trigger key>@<occurrence>#<step>; this one "+what)
}

// Due is a due event as a channel worker reads it. Header values that cannot be parsed are
// left zero, because workers need only the id, the payload and where to send it.
type Due struct {
	Fire  trigger.Fire // of Spec, only what a due event carries
	Basis string
	Tags  map[string]string
}

// DecodeDue reads a due event, or a dead letter, which has the same headers. The caller sets
// the channel, from the topic's name or a dead letter's wc-error-channel. Payload and header
// values alias rec.
func DecodeDue(rec *Record) (*Due, error) {
	spec := &trigger.Spec{Priority: trigger.Normal, Payload: rec.Value}
	d := &Due{Fire: trigger.Fire{Spec: spec}}
	id := ""
	for i := range rec.Headers {
		h := &rec.Headers[i]
		if h.Key == ceID {
			id = string(h.Value)
		}
		d.read(h)
	}
	if id == "" {
		return nil, fail(trigger.CodeInvalid, "", "the record has no ce_id: it is not a due event")
	}
	key, occurrence, step, err := ParseDueID(id)
	if err != nil {
		return nil, err
	}
	d.Fire.Key, d.Fire.Occurrence, d.Fire.Step = key, occurrence, step
	if string(rec.Key) != string(key) {
		spec.TargetKey = string(rec.Key)
	}
	return d, nil
}

func (d *Due) read(h *trigger.Header) {
	f, v := &d.Fire, string(h.Value)
	switch h.Key {
	case ceTime:
		f.Nominal = parseWritten(v)
	case ceFired:
		f.Fired = parseWritten(v)
	case ceRevision:
		f.Revision, _ = parseNumber(v, 63)
	case ceAttempt:
		n, _ := parseNumber(v, 31)
		f.Attempt = int(n)
	case ceLocalTime:
		f.Local = v
	case ceUser:
		f.Spec.UserID = v
	case ceExpiry:
		f.Expires = parseWritten(v)
	case ceReceiptBy:
		f.ReceiptBy = parseWritten(v)
	case cePostponed:
		n, _ := parseNumber(v, 31)
		f.Postponed = int(n)
	case ceBasis:
		d.Basis = v
	case contentType:
		f.Spec.ContentType = v
	case traceParent:
		f.Spec.TraceParent = v
	case dueCallback:
		f.Spec.Callback = readCallback(h.Value)
	case dueTags:
		_ = json.Unmarshal(h.Value, &d.Tags)
		f.Spec.Tags = sortedTags(d.Tags)
	case headerErrorChannel:
		f.Channel = v
	case deadTargetKey:
		f.Spec.TargetKey = v
	case deadPriority:
		f.Spec.Priority = priorityNamed(v)
	case deadCorrelation:
		f.Spec.CorrelationID = v
	case deadFirstFired:
		f.FirstFired = parseWritten(v)
	default:
		if !reservedHeader(h.Key) {
			f.Spec.Headers = append(f.Spec.Headers, *h)
		}
	}
}

func priorityNamed(name string) trigger.Priority {
	for _, p := range []trigger.Priority{trigger.High, trigger.Low} {
		if name == p.String() {
			return p
		}
	}
	return trigger.Normal
}

// reservedHeader reports whether a header of a due event or dead letter is the engine's, not
// the user's.
func reservedHeader(key string) bool {
	return strings.HasPrefix(key, eventPrefix) || strings.HasPrefix(key, enginePrefix) ||
		strings.HasPrefix(key, commandPrefix)
}

func readCallback(b []byte) *trigger.Callback {
	var c struct {
		URL, Timeout string
		Retry        []string // of a dead letter
		Body         string
		Recheck      bool
	}
	if json.Unmarshal(b, &c) != nil {
		return nil
	}
	timeout, _ := time.ParseDuration(c.Timeout)
	read := &trigger.Callback{URL: c.URL, Timeout: timeout, Raw: c.Body == bodyRaw, Recheck: c.Recheck}
	if c.Retry != nil {
		read.Retry = make([]time.Duration, 0, len(c.Retry))
	}
	for _, text := range c.Retry {
		wait, _ := time.ParseDuration(text)
		read.Retry = append(read.Retry, wait)
	}
	return read
}

func sortedTags(m map[string]string) []trigger.Tag {
	if len(m) == 0 {
		return nil
	}
	tags := make([]trigger.Tag, 0, len(m))
	for k, v := range m {
		tags = append(tags, trigger.Tag{Key: k, Value: v})
	}
	sortTags(tags)
	return tags
}

func sortTags(tags []trigger.Tag) {
	slices.SortFunc(tags, func(a, b trigger.Tag) int { return strings.Compare(a.Key, b.Key) })
}
