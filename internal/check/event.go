package check

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// location is the partition and offset of a record.
type location struct {
	partition int32
	offset    int64
}

func (p location) String() string { return fmt.Sprintf("%d/%d", p.partition, p.offset) }

// event has the fields of an event that the checker uses.
type event struct {
	at         location
	append     int64 // append time of the record
	kind       string
	trigger    string
	revision   int64
	seq        int64 // 0: none
	us         int64
	occurred   int64
	scheduled  int64 // 0: none
	previous   int64 // previous_scheduled_at
	next       int64 // next_at; 0: none
	late       int64 // lateness_ms
	effective  int64 // effective_at; 0: none
	local      string
	zone       string
	tzdata     string
	occurrence string
	step       int
	attempt    int
	state      string
	prior      string
	reason     string
	detail     string
	source     string // topic/partition/offset
	dueTopic   string
	dueAt      int32
	count      int64
	first      int64
	last       int64
	channel    string
	user       string
	payload    []byte // raw JSON, nil: none
}

// decodeEvent decodes an event. It ignores unknown fields.
func decodeEvent(b []byte, e *event) error {
	*e = event{}
	var bad string
	err := members(b, func(name, raw []byte) error {
		if !e.set(string(name), raw) && bad == "" {
			bad = string(name)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case bad != "":
		return fmt.Errorf("field %s cannot be read", bad)
	case e.kind == "":
		return errors.New("it has no type")
	}
	return nil
}

func (e *event) set(name string, raw []byte) (ok bool) {
	text := func() string { return string(unquoted(raw)) }
	ok = true
	switch name {
	case "type":
		e.kind = interned(unquoted(raw))
	case "trigger":
		e.trigger = text()
	case "revision":
		e.revision, ok = number(raw)
	case "seq":
		e.seq, ok = number(raw)
	case "event_us":
		e.us, ok = number(raw)
	case "occurred_at":
		e.occurred, ok = stamp(unquoted(raw))
	case "scheduled_at":
		e.scheduled, ok = stamp(unquoted(raw))
	case "previous_scheduled_at":
		e.previous, ok = stamp(unquoted(raw))
	case "next_at":
		e.next, ok = stamp(unquoted(raw))
	case "lateness_ms":
		e.late, ok = number(raw)
	case "effective_at":
		e.effective, ok = stamp(unquoted(raw))
	case "local_time":
		e.local = text()
	case "timezone":
		e.zone = text()
	case "tzdata":
		e.tzdata = interned(unquoted(raw))
	case "occurrence":
		e.occurrence = text()
	case "step":
		e.step, ok = small(raw)
	case "attempt":
		e.attempt, ok = small(raw)
	case "state":
		e.state = interned(unquoted(raw))
	case "previous_state":
		e.prior = interned(unquoted(raw))
	case "reason":
		e.reason = text()
	case "detail":
		e.detail = text()
	case "source":
		e.source = text()
	case "due_topic":
		e.dueTopic = interned(unquoted(raw))
	case "due_partition":
		var n int
		n, ok = small(raw)
		e.dueAt = int32(n)
	case "count":
		e.count, ok = number(raw)
	case "first":
		e.first, ok = stamp(unquoted(raw))
	case "last":
		e.last, ok = stamp(unquoted(raw))
	case "channel":
		e.channel = interned(unquoted(raw))
	case "user_id":
		e.user = text()
	case "payload":
		e.payload = raw
	}
	return ok
}

// words are strings that occur in many events. They are shared to save memory.
var words = func() map[string]string {
	m := map[string]string{}
	for _, s := range []string{
		"PENDING", "PAUSED", "IN_FLIGHT", "FIRED", "FAILED", "CANCELLED", "EXPIRED", "UNKNOWN",
		"ERASED",
		evRegistered, evReplaced, evRescheduled, evPaused, evResumed, evCancelled, evCompleted, evFailed, evErased,
		evTooLate,
		evSnoozed, evSkipped, evFired, evExpired, evMisfired, evAccepted, evDelivered, evDeliveryFailed, evRetried,
		evPostponed,
		evSuppressed, evDeadLettered, evRedriven, evAdvanced, evStopped, evDuplicate, evRejected, "default", "2025c",
	} {
		m[s] = s
	}
	return m
}()

// decidesNothing reports whether an event only tells of a receipt that came for nothing in flight.
func (e *event) decidesNothing() bool {
	return strings.HasPrefix(e.kind, "delivery.") &&
		(e.reason == "late" || e.reason == "no_receipts" || e.reason == "unknown")
}

func interned(b []byte) string {
	if s, ok := words[string(b)]; ok {
		return s
	}
	return string(b)
}

// The types of events.
const (
	evRegistered     = "trigger.registered"
	evReplaced       = "trigger.replaced"
	evRescheduled    = "trigger.rescheduled"
	evPaused         = "trigger.paused"
	evResumed        = "trigger.resumed"
	evCancelled      = "trigger.cancelled"
	evCompleted      = "trigger.completed"
	evFailed         = "trigger.failed"
	evErased         = "trigger.erased"
	evTooLate        = "cancel.too_late"
	evSnoozed        = "occurrence.snoozed"
	evSkipped        = "occurrence.skipped"
	evFired          = "occurrence.fired"
	evExpired        = "occurrence.expired"
	evMisfired       = "occurrence.misfired"
	evAccepted       = "delivery.accepted"
	evDelivered      = "delivery.delivered"
	evDeliveryFailed = "delivery.failed"
	evRetried        = "delivery.retried"
	evPostponed      = "delivery.postponed"
	evSuppressed     = "delivery.suppressed"
	evDeadLettered   = "delivery.dead_lettered"
	evRedriven       = "delivery.redriven"
	evAdvanced       = "escalation.advanced"
	evStopped        = "escalation.stopped"
	evDuplicate      = "command.duplicate"
	evRejected       = "command.rejected"
)

func number(raw []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

func small(raw []byte) (int, bool) {
	n, ok := number(raw)
	return int(n), ok && n >= 0 && n < 1<<31
}

// sourceOf splits topic/partition/offset.
func sourceOf(s string) (topic string, at location, ok bool) {
	j := strings.LastIndexByte(s, '/')
	if j < 0 {
		return "", location{}, false
	}
	i := strings.LastIndexByte(s[:j], '/')
	if i < 0 {
		return "", location{}, false
	}
	p, err := strconv.ParseInt(s[i+1:j], 10, 32)
	o, err2 := strconv.ParseInt(s[j+1:], 10, 64)
	return s[:i], location{int32(p), o}, err == nil && err2 == nil
}

// due has the fields of a due event or a dead letter that the checker uses.
type due struct {
	topic      string
	at         location
	append     int64
	id         string // ce_id
	trigger    string
	scheduled  int64
	fired      int64 // ce_wcfired; 0: none
	revision   int64
	attempt    int
	step       int
	postponed  int
	local      string
	user       string
	expiry     int64 // 0: none
	basis      basis
	content    string
	tags       string
	callback   string
	payload    []byte
	headers    []Header // the user's own headers
	code       string   // wc-error-code of a dead letter
	matched    bool     // an event reports it
	earlier    *due     // the same emission before the trigger was forgotten
	occurrence string   // the occurrence in the id
}

// basis is ce_wcbasis: the offsets that had been applied when this was decided.
type basis struct {
	term, turn, commands, receipts, control int64
}

func parseBasis(s string) (b basis, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 5 {
		return b, false
	}
	for i, to := range []*int64{&b.term, &b.turn, &b.commands, &b.receipts, &b.control} {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || n < 0 {
			return b, false
		}
		*to = n
	}
	return b, true
}

// decodeDue decodes the headers of a due event. It returns the name of a header that is missing
// or invalid.
func decodeDue(r *Record, d *due) (bad string) {
	*d = due{append: r.Timestamp, payload: r.Value, attempt: 1, headers: d.headers[:0]}
	seen := 0
	for i := range r.Headers {
		h := &r.Headers[i]
		known, ok := d.set(h.Key, h.Value)
		if known && strings.HasPrefix(h.Key, "ce_") {
			seen++
		}
		if !ok && bad == "" {
			bad = h.Key
		}
		if !known {
			d.headers = append(d.headers, *h)
		}
	}
	if bad == "" && (d.id == "" || d.trigger == "" || d.scheduled == 0) {
		bad = "ce_id, ce_subject or ce_time"
	}
	if rest, ok := strings.CutPrefix(d.id, d.trigger+"@"); ok {
		if i := strings.LastIndexByte(rest, '#'); i >= 0 {
			d.occurrence = rest[:i]
		}
	}
	if d.occurrence == "" && bad == "" {
		bad = "ce_id"
	}
	return bad
}

func (d *due) set(name string, v []byte) (known, ok bool) {
	known, ok = true, true
	switch name {
	case "ce_id":
		d.id = string(v)
	case "ce_subject":
		d.trigger = string(v)
	case "ce_time":
		d.scheduled, ok = stamp(v)
	case "ce_wcfired":
		d.fired, ok = stamp(v)
	case "ce_wcrevision":
		d.revision, ok = number(v)
	case "ce_wcattempt":
		d.attempt, ok = small(v)
	case "ce_wcstep":
		d.step, ok = small(v)
	case "ce_wcpostponed":
		d.postponed, ok = small(v)
	case "ce_wclocaltime":
		d.local = string(v)
	case "ce_wcuser":
		d.user = string(v)
	case "ce_expirytime":
		d.expiry, ok = stamp(v)
	case "ce_wcbasis":
		d.basis, ok = parseBasis(string(v))
	case "ce_specversion":
		ok = string(v) == "1.0"
	case "ce_type":
		ok = string(v) == "waterclock.due.v1"
	case "ce_source":
		ok = bytes.HasPrefix(v, []byte("/waterclock/"))
	case "content-type":
		d.content = string(v)
	case "wcx-tags":
		d.tags = string(v)
	case "wcx-callback":
		d.callback = string(v)
	case "wc-error-code":
		d.code = string(v)
	case "traceparent", "ce_wcreceiptby", "wc-error-detail", "wc-error-field", "wc-error-channel":
	default:
		known = strings.HasPrefix(name, "ce_") || strings.HasPrefix(name, "wcx-")
	}
	return known, ok
}
