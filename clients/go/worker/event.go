package worker

import (
	"encoding/json"
	"strings"
	"time"
)

// DueEvent is one record of a due topic, decoded. A handler must not change
// it.
type DueEvent struct {
	// ID is ce_id. It is the same for every copy, attempt and retry of one
	// escalation step: receivers deduplicate by it.
	ID string

	Key        string // trigger key (ce_subject): the id, or tenant/id
	Tenant     string // what stands before the first / of Key, else "default"
	Source     string // ce_source: /waterclock/<cluster>
	Occurrence string // the instant, wall time, snz- or run- name within ID
	Step       int    // escalation step, from 0
	Attempt    int    // from 1
	Postponed  int    // how often this attempt was postponed; 0 before the first time
	Revision   int64  // the trigger's revision that it fired with

	Scheduled time.Time // nominal instant (ce_time)
	Fired     time.Time // when the engine emitted it
	Appended  time.Time // timestamp of the record, which the broker set
	LocalTime string    // 2026-11-20T09:00:00[America/New_York]; "" unless the trigger has a zone
	User      string    // user_id; "" if it has none
	Expires   time.Time // past it the event is of no use; zero if it never expires
	ReceiptBy time.Time // when the engine stops waiting for the receipt; zero if it does not say
	Basis     string    // ce_wcbasis, for diagnosis

	ContentType string // of Payload; "" if there was none
	Payload     []byte // as registered, byte for byte; empty if there was none
	TraceParent string // W3C traceparent, as it stood; "" if there was none
	TraceState  string // W3C tracestate

	// Headers are all others, in order: the user's own, wcx- ones, and those
	// that a newer engine writes and this version does not know.
	Headers []Header

	// Where the record stood.
	Topic     string
	Partition int32
	Offset    int64
	RecordKey []byte // target_key, else Key
	High      bool   // it came by the lane for priority high
}

// Header is one header of a record. A name may occur more than once.
type Header struct {
	Key   string
	Value []byte
}

// Header is the value of the first of Headers with this name; ok is false if
// there is none.
func (e *DueEvent) Header(name string) (value string, ok bool) {
	for i := range e.Headers {
		if e.Headers[i].Key == name {
			return string(e.Headers[i].Value), true
		}
	}
	return "", false
}

// TriggerID is Key without the tenant.
func (e *DueEvent) TriggerID() string {
	if _, id, ok := strings.Cut(e.Key, "/"); ok {
		return id
	}
	return e.Key
}

// Tags are the trigger's tags. It is nil if there are none, or if they cannot
// be read.
func (e *DueEvent) Tags() map[string]string {
	text, ok := e.Header("wcx-tags")
	var tags map[string]string
	if !ok || json.Unmarshal([]byte(text), &tags) != nil {
		return nil
	}
	return tags
}
