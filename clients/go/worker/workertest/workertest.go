// Package workertest helps to test handlers without a broker.
//
//	e := workertest.Event(workertest.Key("acme/pills"), workertest.User("u_81"))
//	workertest.Require(t, handle, e, worker.OutcomeDelivered, "")
package workertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// Channel is the channel of the receipts that Handle returns.
const Channel = "test"

// spec holds the parts of an event as the engine would write it.
type spec struct {
	key, target              string
	step, attempt, postponed int
	scheduled                time.Time
	payload                  []byte
	headers                  []kgo.RecordHeader
	high                     bool
}

// EventOption configures an event.
type EventOption func(*spec)

// Key sets the trigger key: id, or tenant/id. The default is "trigger".
func Key(key string) EventOption { return func(s *spec) { s.key = key } }

// TargetKey sets the record key. The default is the trigger key.
func TargetKey(key string) EventOption { return func(s *spec) { s.target = key } }

// Attempt sets ce_wcattempt. The default is 1.
func Attempt(n int) EventOption { return func(s *spec) { s.attempt = n } }

// Postponed sets ce_wcpostponed. The default is 0: not postponed.
func Postponed(n int) EventOption { return func(s *spec) { s.postponed = n } }

// Step sets the escalation step. The default is 0.
func Step(n int) EventOption { return func(s *spec) { s.step = n } }

// Scheduled sets the nominal instant, which also names the occurrence. The default is
// 2026-11-20T14:00:00Z. The event was fired 3 ms later.
func Scheduled(t time.Time) EventOption { return func(s *spec) { s.scheduled = t } }

// Payload sets the record value. The default is empty.
func Payload(text string) EventOption { return func(s *spec) { s.payload = []byte(text) } }

// User sets user_id.
func User(id string) EventOption { return Header("ce_wcuser", id) }

// LocalTime sets the wall time with its zone.
func LocalTime(text string) EventOption { return Header("ce_wclocaltime", text) }

// Expires sets the time after which the event is useless.
func Expires(t time.Time) EventOption { return Header("ce_expirytime", instant(t)) }

// ReceiptBy sets when the engine stops waiting for a receipt.
func ReceiptBy(t time.Time) EventOption { return Header("ce_wcreceiptby", instant(t)) }

// ContentType sets the content type of the payload.
func ContentType(text string) EventOption { return Header("content-type", text) }

// TraceParent sets the W3C traceparent.
func TraceParent(text string) EventOption { return Header("traceparent", text) }

// High makes it an event of the high lane.
func High() EventOption { return func(s *spec) { s.high = true } }

// Header adds a header: one of the user's own, or one of the engine's.
func Header(name, value string) EventOption {
	return func(s *spec) { s.headers = append(s.headers, kgo.RecordHeader{Key: name, Value: []byte(value)}) }
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Event returns a due event as Run would decode it. It panics if the engine could not have
// written it.
func Event(opts ...EventOption) *worker.DueEvent {
	s := spec{key: "trigger", attempt: 1, scheduled: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), payload: []byte{}}
	for _, opt := range opts {
		opt(&s)
	}
	r := s.record()
	e, err := worker.Decode(r)
	if err != nil {
		panic("workertest: " + err.Error())
	}
	e.High = s.high
	return e
}

func (s *spec) record() *kgo.Record {
	r := &kgo.Record{Topic: "waterclock.due." + Channel, Key: []byte(s.key), Value: s.payload}
	if s.target != "" {
		r.Key = []byte(s.target)
	}
	fired := s.scheduled.Add(3 * time.Millisecond)
	r.Timestamp = fired
	add := func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	add("ce_specversion", "1.0")
	add("ce_id", fmt.Sprintf("%s@%s#%d", s.key, instant(s.scheduled), s.step))
	add("ce_source", "/waterclock/test")
	add("ce_type", worker.DueType)
	add("ce_subject", s.key)
	add("ce_time", instant(s.scheduled))
	add("ce_wcfired", instant(fired))
	add("ce_wcrevision", "1")
	add("ce_wcattempt", fmt.Sprint(s.attempt))
	add("ce_wcstep", fmt.Sprint(s.step))
	if s.postponed > 0 {
		add("ce_wcpostponed", fmt.Sprint(s.postponed))
	}
	r.Headers = append(r.Headers, s.headers...)
	return r
}

// Handle calls a handler like worker.Run, and returns the receipt that would be written. An error
// or a panic becomes a retry. The context has a BatchValue if it was set with
// worker.WithBatchValue.
func Handle(ctx context.Context, handle worker.Handler, e *worker.DueEvent) worker.Receipt {
	return e.Receipt(Channel, worker.Call(ctx, handle, e), time.Now())
}

// Require fails the test unless the handler's receipt has this outcome and code. It returns the
// receipt.
func Require(
	t testing.TB, handle worker.Handler, e *worker.DueEvent, outcome worker.Outcome, code string,
) worker.Receipt {
	t.Helper()
	r := Handle(t.Context(), handle, e)
	if r.Outcome != outcome || r.Code != code {
		t.Errorf("%s attempt %d: the receipt says %s %q (%s), want %s %q",
			e.ID, e.Attempt, r.Outcome, r.Code, r.Detail, outcome, code)
	}
	return r
}
