package check

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// command is a decoded record of topic commands. Both encodings of a command decode to the same
// value.
type command struct {
	at       location // its topic partition and offset
	first    location // location of its first append; it differs if the command was forwarded
	append   int64    // append time of the record
	appended int64    // time of the first append; delays count from it
	inTxn    bool
	claims   bool // its headers say that it was forwarded
	copy     bool // it was forwarded, and the original is in the dump

	op       string
	fault    string // code of a definite fault; "": none was found
	hint     string // describes the fault
	refusal  bool   // a refusal that a gateway recorded
	patch    bool
	ifRev    int64
	ifAbsent bool
	idem     string

	when    when
	what    what
	wait    int64  // snooze: for, ms
	until   string // snooze
	which   string // skip, ack: occurrence
	zone    string // rezone
	dueID   string // redrive
	attempt int    // redrive: of the dead letter
	content uint64 // hash of the content, by which registers are compared; 0: not computed
}

// when is the time part of a register.
type when struct {
	kind      whenKind
	delay     int64 // ms
	delayText string
	fireAt    string // as it was written
	at        int64  // instant, ms
	wall      wall
	frac      int64
	recurrence
	calendarText string
}

type whenKind uint8

const (
	whenNone whenKind = iota
	whenDelay
	whenInstant
	whenLocal
	whenSeries
)

// what is the content part of a register.
type what struct {
	channel  string
	user     string
	payload  []byte
	ctype    string
	target   string
	headers  []Header
	tags     []tag
	priority string
	jitter   int64 // ms
	expires  int64 // ms; 0: never
	misfire  string
	callback string // raw JSON
	steps    []step // of an escalation
}

type tag struct{ name, value string }

// fields are the fields that commands may have. true means a scalar, which may also be a header.
var fields = map[string]bool{
	"op": true, "delay": true, "fire_at": true, "recurrence": true, "start": true,
	"timezone": true, "until": true,
	"count": true, "include": false, "exclude": false, "dst": false, "calendars": false, "channel": true,
	"user_id": true, "payload": false,
	"payload_base64": true, "target_key": true, "headers": false, "tags": false, "priority": true, "jitter": true,
	"expires_after": true,
	"misfire":       true, "follow_user": true, "callback": false, "escalation": false, "correlation_id": true,
	"if_revision": true,
	"if_absent":   true, "idempotency_key": true, "for": true, "occurrence": true, "note": true, "actor": true,
	"due_id":  true,
	"attempt": true, "scheduled_at": true, "revision": true, "local_time": true, "step": true,
	"expires_at": true, "first_fired_at": true,
}

var ops = map[string]bool{
	"register": true, "cancel": true, "reschedule": true, "snooze": true, "skip": true,
	"pause": true, "resume": true,
	"run_now": true, "rezone": true, "ack": true, "redrive": true, "erase": true,
}

// decodeCommand decodes a record. It never fails: an invalid command gets a fault.
func decodeCommand(r *Record, partition int32) *command {
	c := &command{at: location{partition, r.Offset}, append: r.Timestamp, appended: r.Timestamp, inTxn: r.Kind == InTxn}
	c.first = c.at
	c.claim(r)
	if _, ok := r.header("wcx-refused"); ok {
		c.refusal = true
		return c
	}
	_, c.patch = r.header("wcx-patch")
	headers := 0
	for i := range r.Headers {
		if isCommandHeader(r.Headers[i].Key) {
			headers++
		}
	}
	op, _ := r.header("wc-op")
	switch {
	case r.Value == nil && headers == 0, r.Value == nil && headers == 1 && op == "cancel":
		c.op = "cancel"
	case r.Value == nil:
		c.blame("ambiguous_tombstone", "a null value beside wc- headers")
	case headers > 0:
		c.fromHeaders(r)
	default:
		c.fromJSON(r)
	}
	c.complete(r, headers > 0)
	return c
}

func (c *command) blame(code, hint string) {
	if c.fault == "" {
		c.fault, c.hint = code, hint
	}
}

// keyFault reports whether a key is invalid. A key is 1 to 255 bytes of UTF-8 without control
// characters. It does not begin with default/, and has no leading or trailing slash.
func keyFault(key []byte) bool {
	if len(key) == 0 || len(key) > 255 || !utf8.Valid(key) || key[0] == '/' || key[len(key)-1] == '/' ||
		bytes.HasPrefix(key, []byte("default/")) {
		return true
	}
	for _, r := range string(key) {
		if r < 0x20 || r >= 0x7f && r <= 0x9f {
			return true
		}
	}
	return false
}

func isCommandHeader(name string) bool { return len(name) >= 3 && strings.EqualFold(name[:3], "wc-") }

// claim reads the headers of a forwarded record.
func (c *command) claim(r *Record) {
	if at, ms, ok := forwardedFrom(r); ok {
		c.claims, c.first, c.appended = true, at, ms
	}
}

// forwardedFrom returns where and when a record was first appended, according to its headers.
func forwardedFrom(r *Record) (at location, ms int64, ok bool) {
	if id, found := r.header("wcx-topic-id"); !found || id == "" {
		return at, 0, false
	}
	origin, _ := r.header("wcx-origin")
	_, at, ok = sourceOf("x/" + origin)
	text, _ := r.header("wcx-append")
	ms, ok2 := number([]byte(text))
	return at, ms, ok && ok2 && ms > 0
}

func (c *command) fromHeaders(r *Record) {
	c.op = "register"
	seen := map[string]bool{}
	var values []Header
	for _, h := range r.Headers {
		if !isCommandHeader(h.Key) {
			continue
		}
		name := strings.ReplaceAll(h.Key[3:], "-", "_")
		if h.Key == "wc-callback-url" {
			c.what.callback = string(h.Value)
			continue
		}
		if scalar, known := fields[name]; !known || !scalar || h.Key != strings.ToLower(h.Key) ||
			strings.Contains(h.Key[3:], "_") {
			c.blame("unknown_field", h.Key)
			continue
		}
		if seen[name] {
			c.blame("invalid", h.Key+" stands there twice")
		}
		seen[name] = true
		values = append(values, Header{name, h.Value})
	}
	for _, h := range values {
		if h.Key == "op" {
			c.op = string(h.Value)
		}
	}
	c.what.payload = r.Value
	for _, h := range values {
		c.set(h.Key, h.Value, true)
	}
}

func (c *command) fromJSON(r *Record) {
	value := space(r.Value)
	if len(value) == 0 || value[0] != '{' || !json.Valid(value) {
		c.blame("not_a_command", "neither spelling")
		return
	}
	op, seen := false, map[string]bool{}
	_ = members(value, func(name, raw []byte) error {
		if string(name) == "op" && isString(raw) {
			op, c.op = true, string(unquoted(raw))
		}
		return nil
	})
	if !op {
		c.blame("not_a_command", "an object without op")
		return
	}
	_ = members(value, func(name, raw []byte) error {
		field := string(name)
		if _, known := fields[field]; !known {
			c.blame("unknown_field", field)
		} else if seen[field] {
			c.blame("invalid", field+" stands there twice")
		}
		seen[field] = true
		if !isNull(raw) {
			c.set(field, raw, false)
		}
		return nil
	})
}

// set stores a field. A header is text; a JSON value is raw.
func (c *command) set(field string, raw []byte, header bool) {
	text := raw
	if !header {
		text = unquoted(raw)
	}
	s := string(text)
	switch field {
	case "delay":
		c.when.delayText = s
		c.when.kind = c.timeKind(whenDelay)
		c.when.delay = c.millis(field, s)
	case "fire_at":
		c.when.at, c.when.wall, c.when.frac = c.instant(field, s)
		c.when.kind, c.when.fireAt = c.timeKind(whenInstant), s
	case "recurrence":
		c.when.recurrence.text = s
	case "start":
		c.when.start = s
	case "timezone":
		c.when.zone, c.zone = s, s
		if s == "" {
			c.blame("invalid", "an empty timezone")
		}
	case "until":
		c.when.until, c.until = s, s
	case "count":
		n, ok := number(text)
		if !ok || n < 1 {
			c.blame("invalid", field)
		}
		c.when.count = int(n)
	case "include", "exclude":
		list, ok := dateList(raw)
		if !ok {
			c.blame("invalid", field)
		}
		if field == "include" {
			c.when.include = list
		} else {
			c.when.exclude = list
		}
	case "dst":
		_ = members(raw, func(name, v []byte) error {
			switch string(name) {
			case "gap":
				c.when.gap = string(unquoted(v))
			case "overlap":
				c.when.overlap = string(unquoted(v))
			}
			return nil
		})
	case "calendars":
		c.when.calendarText = string(raw)
		_ = members(raw, func(name, v []byte) error {
			switch string(name) {
			case "names":
				c.when.calendars, _ = dateList(v)
			case "on":
				c.when.on = string(unquoted(v))
			}
			return nil
		})
	case "for":
		c.wait = c.millis(field, s)
	case "if_revision":
		c.ifRev, _ = number(text)
	case "if_absent":
		c.ifAbsent = s == "true"
	case "idempotency_key":
		c.idem = s
	case "occurrence":
		c.which = s
	case "due_id":
		c.dueID = s
	case "attempt":
		c.attempt, _ = small(text)
	default:
		c.what.set(c, field, raw, s)
	}
}

func (w *what) set(c *command, field string, raw []byte, s string) {
	switch field {
	case "channel":
		w.channel = s
	case "user_id":
		w.user = s
	case "payload":
		w.payload = raw
	case "payload_base64":
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			b, err = base64.RawStdEncoding.DecodeString(s)
		}
		if err != nil {
			c.blame("invalid", field)
		}
		w.payload = b
	case "target_key":
		w.target = s
	case "headers":
		_ = members(raw, func(name, v []byte) error {
			w.headers = append(w.headers, Header{string(name), unquoted(v)})
			return nil
		})
	case "tags":
		_ = members(raw, func(name, v []byte) error {
			w.tags = append(w.tags, tag{string(name), string(unquoted(v))})
			return nil
		})
	case "priority":
		w.priority = s
	case "jitter":
		w.jitter = c.millis(field, s)
	case "expires_after":
		w.expires = c.millis(field, s)
	case "misfire":
		w.misfire = s
	case "callback":
		w.callback = string(raw)
	case "escalation":
		w.steps = c.steps(raw)
	}
}

// timeKind notes a time field. Two different ones exclude each other.
func (c *command) timeKind(k whenKind) whenKind {
	if c.when.kind != whenNone && c.when.kind != k {
		c.blame("conflicting_time", "two time fields")
	}
	return k
}

func (c *command) millis(field, s string) int64 {
	if strings.ContainsAny(s, "eE") && !strings.ContainsAny(s, "PpTt") { // a JSON number with an exponent
		var f float64
		if json.Unmarshal([]byte(s), &f) == nil {
			return int64(f * 1000)
		}
	}
	if whole, frac, ok := strings.Cut(s, "."); ok && !strings.ContainsAny(s, "wdhmsPp") {
		a, ok1 := number([]byte(whole))
		b, ok2 := number([]byte((frac + "000")[:3]))
		if ok1 && ok2 {
			return a*1000 + b
		}
	}
	d, ok := duration(s)
	if !ok {
		c.blame("invalid", field)
	}
	return d.Milliseconds()
}

// instant parses fire_at: an instant, or a local time.
func (c *command) instant(field, s string) (at int64, w wall, frac int64) {
	if w, frac, ok := localTime(strings.Replace(s, "t", "T", 1)); ok {
		return 0, w, frac
	}
	at, ok := instantText(s)
	if !ok {
		c.blame("invalid", field)
	}
	return at, 0, 0
}

func dateList(raw []byte) (out []string, ok bool) {
	items, ok := elements(raw)
	for _, it := range items {
		out = append(out, string(unquoted(it)))
	}
	return out, ok
}
