package topics

import (
	"slices"
	"strconv"

	"github.com/waterclock/waterclock/trigger"
)

// A due event is encoded here: DueRecord and AppendDue make its key, value and headers.
// docs/formats/due.md describes the format.

// DueType is the ce_type of every due event.
const DueType = "waterclock.due.v1"

// The headers of a due event, in the order in which they are written. The wcx- headers
// are for Waterclock's own workers, which need more than the payload. The user's headers come
// last.
const (
	ceSpecVersion = "ce_specversion"
	ceID          = "ce_id"
	ceSource      = "ce_source"
	ceType        = "ce_type"
	ceSubject     = "ce_subject"
	ceTime        = "ce_time"
	ceFired       = "ce_wcfired"
	ceRevision    = "ce_wcrevision"
	ceAttempt     = "ce_wcattempt"
	ceStep        = "ce_wcstep"
	ceLocalTime   = "ce_wclocaltime"
	ceUser        = "ce_wcuser"
	ceExpiry      = "ce_expirytime"
	ceReceiptBy   = "ce_wcreceiptby"
	cePostponed   = "ce_wcpostponed"
	ceBasis       = "ce_wcbasis"
	contentType   = "content-type"
	traceParent   = "traceparent"
	dueCallback   = enginePrefix + "callback" // {"url","timeout","body","recheck"}, channel webhook
	dueTags       = enginePrefix + "tags"     // {"type":"…"}
	dueSteps      = enginePrefix + "steps"    // how many steps the escalation has, if it has over one
)

// DueEnv describes the engine that emits a due event. It is the same for all events of one
// turn.
type DueEnv struct {
	Cluster string // ce_source is /waterclock/<Cluster>
	Basis   string // ce_wcbasis: what had been applied when this was decided
}

// Basis spells ce_wcbasis: term.seq.commandsOffset.receiptsOffset.controlOffset.
func Basis(term, seq, commands, receipts, control int64) string {
	b := make([]byte, 0, 48)
	for i, n := range [...]int64{term, seq, commands, receipts, control} {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// DueRecord is the due event of f: key, value and headers for the caller to
// produce to f's channel. The value is the payload as registered, zero length
// and never nil if there is none. Value and user headers alias f.Spec.
func DueRecord(f *trigger.Fire, env DueEnv) (key, value []byte, headers []trigger.Header) {
	_, key, headers = AppendDue(nil, nil, f, env)
	return key, DueValue(f), headers
}

// DueValue is the value of f's due event.
func DueValue(f *trigger.Fire) []byte { return notNull(f.Spec.Payload) }

// AppendDue is DueRecord without the value. It writes into the caller's buffers: key and
// header values are appended to b, headers to those given.
func AppendDue(b []byte, to []trigger.Header, f *trigger.Fire, env DueEnv) (all, key []byte, headers []trigger.Header) {
	w := dueWriter{b: b, headers: to}
	w.room(f, env)
	w.text(ceSpecVersion, "1.0")
	w.id(f)
	w.two(ceSource, "/waterclock/", env.Cluster)
	w.text(ceType, DueType)
	w.text(ceSubject, string(f.Key))
	w.instant(ceTime, f.Nominal)
	w.optionalInstant(ceFired, f.Fired)
	w.number(ceRevision, f.Revision)
	w.number(ceAttempt, int64(f.Attempt))
	w.number(ceStep, int64(f.Step))
	w.optional(ceLocalTime, f.Local)
	w.optional(ceUser, f.Spec.UserID)
	w.optionalInstant(ceExpiry, f.Expires)
	w.optionalInstant(ceReceiptBy, f.ReceiptBy)
	if f.Postponed > 0 {
		w.number(cePostponed, int64(f.Postponed))
	}
	w.optional(ceBasis, env.Basis)
	w.optional(contentType, f.Spec.ContentType)
	w.optional(traceParent, f.Spec.TraceParent)
	w.workerHeaders(f.Spec)
	key = w.key(f)
	w.sliceValues(w.headers[len(to):], len(b))
	w.userHeaders(f.Spec.Headers)
	return w.b, key, w.headers
}

// dueWriter packs all values of a record's headers into one buffer.
type dueWriter struct {
	b       []byte
	headers []trigger.Header
}

// room allocates enough for nearly every event.
func (w *dueWriter) room(f *trigger.Fire, env DueEnv) {
	s := f.Spec
	w.b = slices.Grow(w.b, 230+3*len(f.Key)+len(f.Occurrence)+len(env.Cluster)+len(env.Basis)+len(f.Local)+
		len(s.UserID)+len(s.ContentType)+len(s.TraceParent)+len(s.TargetKey))
	w.headers = slices.Grow(w.headers, 23+len(s.Headers))
}

// sliceValues points the headers at their values, which follow one another in the buffer from
// start. It runs last, because the buffer may be reallocated while it is written.
func (w *dueWriter) sliceValues(headers []trigger.Header, start int) {
	for i := range headers {
		end := start + len(headers[i].Value)
		headers[i].Value = w.b[start:end:end]
		start = end
	}
}

// end makes a header of what was appended since start.
func (w *dueWriter) end(key string, start int) {
	w.headers = append(w.headers, trigger.Header{Key: key, Value: w.b[start:len(w.b):len(w.b)]})
}

func (w *dueWriter) text(key, v string) { w.two(key, v, "") }

func (w *dueWriter) two(key, v1, v2 string) {
	start := len(w.b)
	w.b = append(append(w.b, v1...), v2...)
	w.end(key, start)
}

func (w *dueWriter) optional(key, v string) {
	if v != "" {
		w.text(key, v)
	}
}

func (w *dueWriter) number(key string, v int64) {
	start := len(w.b)
	w.b = strconv.AppendInt(w.b, v, 10)
	w.end(key, start)
}

func (w *dueWriter) instant(key string, v trigger.Instant) {
	start := len(w.b)
	w.b = appendInstant(w.b, v)
	w.end(key, start)
}

func (w *dueWriter) optionalInstant(key string, v trigger.Instant) {
	if v != 0 {
		w.instant(key, v)
	}
}

func (w *dueWriter) id(f *trigger.Fire) {
	start := len(w.b)
	w.b = append(append(w.b, f.Key...), '@')
	w.b = append(append(w.b, f.Occurrence...), '#')
	w.b = strconv.AppendInt(w.b, int64(f.Step), 10)
	w.end(ceID, start)
}

func (w *dueWriter) workerHeaders(s *trigger.Spec) {
	if s.Callback != nil {
		start := len(w.b)
		w.b = appendCallback(w.b, s.Callback)
		w.end(dueCallback, start)
	}
	if len(s.Tags) > 0 {
		start := len(w.b)
		w.b = appendTags(w.b, s.Tags)
		w.end(dueTags, start)
	}
	if n := len(s.Escalation); n > 1 {
		w.number(dueSteps, int64(n))
	}
}

func (w *dueWriter) key(f *trigger.Fire) []byte {
	start := len(w.b)
	if f.Spec.TargetKey != "" {
		w.b = append(w.b, f.Spec.TargetKey...)
	} else {
		w.b = append(w.b, f.Key...)
	}
	return w.b[start:len(w.b):len(w.b)]
}

// userHeaders adds the user's headers. A null value becomes an empty one: topic state does
// not tell them apart, and a restart must not change an event.
func (w *dueWriter) userHeaders(headers []trigger.Header) {
	for _, h := range headers {
		w.headers = append(w.headers, trigger.Header{Key: h.Key, Value: notNull(h.Value)})
	}
}

func notNull(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

func appendCallback(b []byte, c *trigger.Callback) []byte {
	b = appendString(append(b, `{"url":`...), c.URL)
	if c.Timeout > 0 {
		b = append(b, `,"timeout":"`...)
		b = strconv.AppendInt(b, c.Timeout.Milliseconds(), 10)
		b = append(b, `ms"`...)
	}
	if c.Raw {
		b = append(b, `,"body":"raw"`...)
	}
	if c.Recheck {
		b = append(b, `,"recheck":true`...)
	}
	return append(b, '}')
}

func appendTags(b []byte, tags []trigger.Tag) []byte {
	b = append(b, '{')
	for i := range tags {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, tags[i].Key), ':')
		b = appendString(b, tags[i].Value)
	}
	return append(b, '}')
}
