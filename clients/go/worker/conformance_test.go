package worker

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/internal/conformance"
)

// dueRecord is a record of a due topic, as the cases write it.
type dueRecord struct {
	Key, Value string
	Headers    [][2]string
}

func (d dueRecord) record() *kgo.Record {
	r := &kgo.Record{Topic: "waterclock.due.print", Key: []byte(d.Key), Value: []byte(d.Value)}
	for _, h := range d.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return r
}

// TestConformanceDue checks the due event that a handler gets.
func TestConformanceDue(t *testing.T) {
	for _, cs := range conformance.Cases(t, "due") {
		t.Run(cs.Name, func(t *testing.T) {
			var body struct {
				Name, Kind string
				Due        dueRecord
				Event      json.RawMessage
				Garbled    string
			}
			cs.Decode(t, &body)
			e, err := Decode(body.Due.record())
			if body.Garbled != "" {
				if garbledHeader(err) != body.Garbled {
					t.Errorf("it said %v, want %s at fault", err, body.Garbled)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := conformance.Match(conformance.Plain(t, body.Event), conformance.Plain(t, eventFields(e))); d != "" {
				t.Error(d)
			}
		})
	}
}

// eventFields returns an event with the language-neutral field names.
func eventFields(e *DueEvent) map[string]any {
	instant := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	headers := [][2]string{}
	for _, h := range e.Headers {
		headers = append(headers, [2]string{h.Key, string(h.Value)})
	}
	return map[string]any{
		"id": e.ID, "key": e.Key, "tenant": e.Tenant, "trigger_id": e.TriggerID(), "occurrence": e.Occurrence,
		"step": e.Step, "attempt": e.Attempt, "postponed": e.Postponed, "revision": e.Revision, "user": e.User,
		"scheduled": instant(e.Scheduled), "fired": instant(e.Fired), "expires": instant(e.Expires),
		"receipt_by": instant(e.ReceiptBy), "local_time": e.LocalTime, "content_type": e.ContentType,
		"payload": string(e.Payload), "traceparent": e.TraceParent, "record_key": string(e.RecordKey),
		"tags": e.Tags(), "headers": headers,
	}
}

// handlerResult is what the handler of a case does.
type handlerResult struct {
	Outcome, Code, Detail string
	AfterMS               float64 `json:"after_ms"`
	Throws, Panics        string
	None                  bool
}

func (r handlerResult) handle(context.Context, *DueEvent) (Result, error) {
	if r.Throws != "" {
		return Result{}, errors.New(r.Throws)
	}
	if r.Panics != "" {
		panic(r.Panics)
	}
	after := time.Duration(r.AfterMS * float64(time.Millisecond))
	switch Outcome(r.Outcome) {
	case OutcomeDelivered:
		return Delivered().WithCode(r.Code).WithDetail(r.Detail), nil
	case OutcomeAccepted:
		return Accepted().WithCode(r.Code).WithDetail(r.Detail), nil
	case OutcomeRetry:
		return Retry(after).WithCode(r.Code).WithDetail(r.Detail), nil
	case OutcomeFailed:
		return Fail(r.Code, r.Detail), nil
	case OutcomePostponed:
		return Postpone(after, r.Code).WithDetail(r.Detail), nil
	case OutcomeSuppressed:
		return Suppress(r.Code).WithDetail(r.Detail), nil
	}
	return Result{}, nil
}

// TestConformanceReceipt checks the receipt for a handler's result.
func TestConformanceReceipt(t *testing.T) {
	for _, cs := range conformance.Cases(t, "receipt") {
		t.Run(cs.Name, func(t *testing.T) {
			var body struct {
				Name, Kind, Channel string
				Now                 time.Time
				Due                 dueRecord
				Result              handlerResult
				Record              struct {
					Topic, Key string
					Headers    [][2]string
					Value      map[string]any
				}
			}
			cs.Decode(t, &body)
			e, err := Decode(body.Due.record())
			if err != nil {
				t.Fatal(err)
			}
			receipt := e.Receipt(body.Channel, Call(t.Context(), body.Result.handle, e), body.Now)
			got := conformance.Plain(t, json.RawMessage(receipt.Append(nil))).(map[string]any)
			if d := conformance.Match(body.Record.Value, got); d != "" {
				t.Error(d)
			}
			for name := range got {
				if _, ok := body.Record.Value[name]; !ok {
					t.Errorf("it has a field %s", name)
				}
			}
			if e.Key != body.Record.Key {
				t.Errorf("the key is %q, want %q", e.Key, body.Record.Key)
			}
		})
	}
}

// TestConformanceMemory checks what a worker that has read these receipts does with an event.
func TestConformanceMemory(t *testing.T) {
	for _, cs := range conformance.Cases(t, "memory") {
		t.Run(cs.Name, func(t *testing.T) {
			var body struct {
				Name, Kind, Channel string
				Now                 time.Time
				Receipts            []struct {
					Key   string
					Value json.RawMessage
				}
				Due        dueRecord
				Do, Reason string
			}
			cs.Decode(t, &body)
			var records []*kgo.Record
			for i, r := range body.Receipts {
				records = append(records, &kgo.Record{
					Key: []byte(r.Key), Value: r.Value, Offset: int64(i),
				})
			}
			now := body.Now.Add(time.Nanosecond) // slightly later, because a real clock advances
			o, err := newOptions(body.Channel, nil)
			if err != nil {
				t.Fatal(err)
			}
			o.now = func() time.Time { return now }
			w := &worker{
				options: o, reader: newReceiptReader(body.Channel), queue: newQueue(),
				memories: map[int32]*memory{0: newMemory(100)}, wake: make(chan struct{}, 1),
				room: make(chan struct{}, 1),
			}
			w.learn(0, records)
			w.handle = func(context.Context, *DueEvent) (Result, error) { return Delivered(), nil }
			it := w.decode(body.Due.record())
			it.part = newPartition("waterclock.due.print", 0, laneNormal)
			w.queue.add(it)
			do, reason := "skip", string(w.known(it, now))
			batch, expired := w.pick(t.Context())
			switch {
			case len(batch) == 1:
				do = "handle"
			case len(expired) == 1:
				do = "expire"
			}
			if got, want := [2]string{do, reason}, [2]string{body.Do, body.Reason}; !reflect.DeepEqual(got, want) {
				t.Errorf("it does %q, want %q", got, want)
			}
		})
	}
}
