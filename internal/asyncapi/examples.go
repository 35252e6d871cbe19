package asyncapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// begin is when the example's life begins.
var begin = trigger.At(time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))

// story is the life of one trigger as the machine decides it, written by the
// codecs: a seat is held, released after seven minutes, and the release fails.
type story struct {
	names    topics.Names
	machine  trigger.Machine
	key      trigger.Key
	state    *trigger.State
	now      trigger.Instant
	offset   int64
	us       int64
	err      error
	examples map[string][]object
}

// life makes the examples of every message, by its name.
func life(o Options) (map[string][]object, error) {
	s := &story{
		names: o.Names, key: "hold-8c4", now: begin, offset: 4711, us: int64(begin) * 1000,
		examples: map[string][]object{},
		machine: trigger.Machine{
			Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
			Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
			Channel: func(name string) trigger.Channel {
				return trigger.Channel{Topic: o.Names.Due(name), Receipts: true, ReceiptTimeout: time.Hour}
			},
		},
	}
	s.command("register", "command", `{"op":"register","delay":"7m","channel":"orders","payload":{"holdId":"h_8c4"}}`)
	s.inHeaders()
	fire := s.fire()
	s.receipt(fire)
	s.refuse(`{"op":"register","dealy":"7m"}`)
	s.command("every Monday at 09:00", "command",
		`{"op":"register","channel":"push","user_id":"u_81","start":"2026-11-23T09:00","timezone":"America/New_York","recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO","payload":{"title":"Take pills"}}`)
	s.command("cancel", "command", `{"op":"cancel"}`)
	s.command("snooze", "command", `{"op":"snooze","for":"10m"}`)
	s.add("cancel", "a tombstone", nil, nil)
	s.calendar()
	s.endpoint()
	s.watermark()
	s.audit()
	return s.examples, s.err
}

func (s *story) endpoint() {
	e := topics.EndpointState{
		Instance: "host-1", Tenant: "acme", Origin: "https://hooks.example.com", State: "open", InFlight: 3, OK: 812,
		Failed: 31, LastCode: "timeout", Until: s.now.Time().Add(time.Minute), CalledAt: s.now.Time(),
	}
	s.add("endpoint", "an open breaker", nil, e.Value())
}

func (s *story) watermark() {
	w := topics.Watermark{
		Partition: 3, Term: 7, At: s.now, FiredThrough: s.now - 150, CommandsOffset: 4812, EventsOffset: 91_234,
		Due: map[string]map[int32]int64{s.names.Due("orders"): {3: 811}},
	}
	s.add("watermark", "everything due has been emitted", nil, w.Value())
}

func (s *story) audit() {
	a := topics.Audit{
		At: s.now, Actor: "ada@example.com", Role: "support", Address: "192.0.2.7", Agent: "waterclock/1.0",
		Verb: "cancel", Trigger: "acme/hold-8c4", Tenant: "acme", Note: "the guest has called", Status: 200,
	}
	s.add("audit", "a cancel", nil, a.Value())
}

// add notes an example. A nil value is null.
func (s *story) add(message, name string, headers []trigger.Header, value []byte) {
	e := object{"name": name, "payload": json.RawMessage("null")}
	if value != nil {
		e["payload"] = json.RawMessage(value)
	}
	if headers != nil {
		h := object{}
		for _, one := range headers {
			h[one.Key] = string(one.Value)
		}
		e["headers"] = h
	}
	s.examples[message] = append(s.examples[message], e)
}

func (s *story) fail(err error) {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("an example: %w", err)
	}
}

func (s *story) record(headers []trigger.Header, value string) *topics.Record {
	s.offset++
	return &topics.Record{
		Topic: s.names.Commands(), Partition: 3, Offset: s.offset, Timestamp: s.now,
		Key: []byte(s.key), Headers: headers, Value: []byte(value),
	}
}

// command adds one that decodes; the first is the one that lives on.
func (s *story) command(name, message, value string) {
	rec := s.record(nil, value)
	c, err := topics.DecodeCommand(rec, topics.Limits{}, nil)
	s.fail(err)
	s.add(message, name, nil, []byte(value))
	if s.state == nil && err == nil {
		s.take(s.machine.Apply(nil, c, s.now), rec)
	}
}

func (s *story) inHeaders() {
	for _, e := range []struct {
		name    string
		headers []trigger.Header
		value   string
	}{
		{"in 7 minutes", []trigger.Header{
			{Key: "wc-delay", Value: []byte("7m")},
			{Key: "wc-channel", Value: []byte("orders")},
		}, `{"holdId":"h_8c4"}`},
		{"cancel", []trigger.Header{{Key: "wc-op", Value: []byte("cancel")}}, `"cancel"`},
	} {
		_, err := topics.DecodeCommand(s.record(e.headers, e.value), topics.Limits{}, nil)
		s.fail(err)
		s.add("commandInHeaders", e.name, e.headers, []byte(e.value))
	}
}

// take writes what was decided as events.
func (s *story) take(out trigger.Outcome, cause *topics.Record) {
	if out.State != nil {
		s.state = out.State
	}
	for i := range out.Facts {
		f := &out.Facts[i]
		s.us++
		env := topics.EventEnv{Partition: 3, EventUS: s.us, At: s.now, WithPayload: true}
		if cause != nil {
			env.Source = topics.Source(cause.Topic, cause.Partition, cause.Offset)
		}
		s.add("event", string(f.Type), nil, topics.AppendEvent(nil, s.key, f, env))
	}
}

func (s *story) env() topics.DueEnv {
	return topics.DueEnv{Cluster: "eu1", Basis: topics.Basis(7, 812, s.offset+1, 911, 3)}
}

// fire lets the timer go, 2 ms late.
func (s *story) fire() *trigger.Fire {
	if s.err != nil {
		return nil
	}
	timers := s.state.Timers(nil)
	s.now = timers[0].Due + 2
	out := s.machine.Due(s.state, timers[0], s.now)
	s.take(out, nil)
	_, value, headers := topics.DueRecord(&out.Fires[0], s.env())
	s.add("dueEvent", "a seat hold ends", headers, value)
	return &out.Fires[0]
}

// receipt says that nobody can deliver it, which makes a dead letter.
func (s *story) receipt(fire *trigger.Fire) {
	if s.err != nil {
		return
	}
	value := topics.AppendReceipt(nil, &topics.Receipt{
		Key: s.key, Occurrence: fire.Occurrence, Channel: "orders", Outcome: topics.OutcomeFailed,
		Attempt: 1, Code: "no_such_hold", Detail: "h_8c4 is not there", At: s.now + 40,
	})
	rec := &topics.Record{
		Topic: s.names.Receipts(), Partition: 3, Offset: 911, Timestamp: s.now + 50,
		Key: []byte(s.key), Value: value,
	}
	r, err := topics.DecodeReceipt(rec)
	s.fail(err)
	if err != nil {
		return
	}
	s.add("receipt", "failed", nil, value)
	s.now += 60
	out := s.machine.Receive(s.state, r.Input(), s.now)
	s.take(out, rec)
	_, value, headers := topics.DeadLetterRecord(&out.Dead[0], s.env())
	s.add("deadLetter", "nobody could deliver it", headers, value)
}

func (s *story) refuse(value string) {
	rec := s.record(nil, value)
	_, err := topics.DecodeCommand(rec, topics.Limits{}, nil)
	refusal, ok := errors.AsType[*trigger.Error](err)
	if !ok {
		s.fail(fmt.Errorf("%s was not refused: %w", value, err))
		return
	}
	_, kept, headers := topics.RejectedRecord(rec, refusal)
	s.add("rejectedCommand", "an unknown field", headers, kept)
	s.take(s.machine.Reject(s.state, refusal, ""), rec)
}

func (s *story) calendar() {
	_, value, err := topics.EncodeCalendar(topics.Calendar{
		Name:  "us-holidays",
		Dates: []string{"2026-11-26", "2026-12-25"},
	})
	s.fail(err)
	s.add("calendar", "us-holidays", nil, value)
}
