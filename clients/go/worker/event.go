package worker

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// DueEvent is a decoded record of a due topic. A handler must not modify it.
type DueEvent struct {
	// ID is ce_id. It is the same for every copy, attempt and retry of one escalation step:
	// receivers deduplicate by it.
	ID string

	Key        string // trigger key (ce_subject): the id, or tenant/id
	Tenant     string // the part of Key before the first /, else "default"
	Source     string // ce_source: /waterclock/<cluster>
	Occurrence string // the part of ID that names the occurrence: an instant, a wall time, or a snz- or run- name
	Step       int    // escalation step, from 0
	Attempt    int    // from 1
	Postponed  int    // how often this attempt was postponed
	Revision   int64  // revision of the trigger when it fired

	Scheduled time.Time // nominal instant (ce_time)
	Fired     time.Time // when the engine fired it
	Appended  time.Time // timestamp of the record, set by the broker
	LocalTime string    // 2026-11-20T09:00:00[America/New_York]; "" if the trigger has no zone
	User      string    // user_id; "" if the trigger has none
	Expires   time.Time // after this time the event is useless; zero if it never expires
	ReceiptBy time.Time // when the engine stops waiting for the receipt; zero if it gives no time
	Basis     string    // ce_wcbasis, what the engine had read when it decided this

	ContentType string // of Payload; "" if there is none
	Payload     []byte // as registered, byte for byte; empty if there is none
	TraceParent string // W3C traceparent, unchanged; "" if there is none
	TraceState  string // W3C tracestate

	// Headers are all other headers, in order: the user's own, wcx- headers, and headers of a
	// newer engine that this version does not know.
	Headers []Header

	// The position of the record.
	Topic     string
	Partition int32
	Offset    int64
	RecordKey []byte // target_key, or else Key
	High      bool   // read from the high lane
}

// Header is one header of a record. A name may occur more than once.
type Header struct {
	Key   string
	Value []byte
}

// Header returns the value of the first header with this name. ok is false if there is none.
func (e *DueEvent) Header(name string) (value string, ok bool) {
	for i := range e.Headers {
		if e.Headers[i].Key == name {
			return string(e.Headers[i].Value), true
		}
	}
	return "", false
}

// receiptsRead returns the offset before which the engine had read all receipts of this trigger's
// partition when it decided e: the fourth number of ce_wcbasis. It is 0 if that does not say.
func (e *DueEvent) receiptsRead() int64 {
	numbers := strings.Split(e.Basis, ".")
	if len(numbers) != 5 {
		return 0
	}
	n, err := strconv.ParseInt(numbers[3], 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// TriggerID returns Key without the tenant.
func (e *DueEvent) TriggerID() string {
	if _, id, ok := strings.Cut(e.Key, "/"); ok {
		return id
	}
	return e.Key
}

// Tags returns the trigger's tags. It is nil if there are none, or if they cannot be decoded.
func (e *DueEvent) Tags() map[string]string {
	text, ok := e.Header("wcx-tags")
	var tags map[string]string
	if !ok || json.Unmarshal([]byte(text), &tags) != nil {
		return nil
	}
	return tags
}
