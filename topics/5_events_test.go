package topics

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/trigger"
)

// event is the Event of a fact, written down independently of AppendEvent.
func event(key trigger.Key, f *trigger.Fact, env EventEnv) Event {
	at := func(i trigger.Instant) string {
		if i == 0 {
			return ""
		}
		return i.String()
	}
	e := Event{
		EventID: EventID(env.Partition, env.EventUS), Type: string(f.Type), Version: 1, Trigger: string(key),
		Tenant:   key.Tenant(),
		Revision: f.Revision, Seq: f.Seq, OccurredAt: env.At.String(), EventUS: env.EventUS, Channel: f.Channel,
		UserID:      f.UserID,
		ScheduledAt: at(f.Scheduled), LocalTime: f.Local, Timezone: f.Zone, TZData: f.TZData, Occurrence: f.Occurrence,
		State: f.State.String(), PreviousState: f.Previous.String(), Reason: f.Reason, Detail: f.Detail, Actor: f.Actor,
		Source:        env.Source,
		CorrelationID: f.Corr, Count: f.Count, First: at(f.First), Last: at(f.Last),
		PreviousScheduled: at(f.PreviousScheduled), PreviousTZData: f.PreviousTZData, FirstFired: at(f.FirstFired),
		NextAt: at(f.Next), EffectiveAt: at(env.EffectiveAt), Truncated: env.Truncated,
	}
	if f.Rule != nil {
		e.Rule = appendRule(nil, f.Rule) // TestRuleIsACommand reads it back
	}
	if f.HasStep {
		e.Step, e.Attempt = &f.Step, f.Attempt
	}
	if f.HasLate {
		e.LatenessMS = &f.Lateness
	}
	if f.HasDue {
		e.DueTopic, e.DuePartition = f.DueTopic, &f.DuePart
	}
	for _, t := range f.Tags {
		if e.Tags == nil {
			e.Tags = make(map[string]string)
		}
		e.Tags[t.Key] = t.Value
	}
	if env.WithPayload && f.Spec != nil && len(f.Spec.Payload) > 0 {
		if jsontext.Value(f.Spec.Payload).IsValid(jsontext.AllowDuplicateNames(true)) {
			e.Payload = f.Spec.Payload
		} else {
			e.PayloadBase64 = base64.StdEncoding.EncodeToString(f.Spec.Payload)
		}
	}
	return e
}

func marshal(t *testing.T, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// What is written by hand is, byte for byte, what encoding/json makes of an
// Event.
func TestAppendEventEqualsItsStruct(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := filler{rand.New(rand.NewPCG(seed, 4))}
	texts := []string{
		"", "plain", "<b>&\"\\/", "line\nbreak\ttab\x00\x1f", "\b\f\r\v", "not\xffUTF-8\xe2\x80",
		"Wünsche 🕰", "\u2028", "x\x7fy",
	}
	payloads := []string{"", "1", `{ "a" : [1, 2.50, "ü<>&"] }`, `{"a":1,"a":2}`, "\x00\xff", `"\ud83d"`, `"` +
		"\u2028" + `"`, "{"}
	for range 3000 {
		f, env := new(trigger.Fact), EventEnv{}
		r.fill(reflect.ValueOf(f).Elem())
		r.fill(reflect.ValueOf(&env).Elem())
		f.Type = trigger.Registered
		f.Reason, f.Detail, env.Source = texts[r.IntN(len(texts))], texts[r.IntN(len(texts))], texts[r.IntN(len(texts))]
		f.Tags = []trigger.Tag{{Key: "a", Value: texts[r.IntN(len(texts))]}, {Key: "b<", Value: "c"}}[:r.IntN(3)]
		f.Spec = &trigger.Spec{Payload: []byte(payloads[r.IntN(len(payloads))])}
		key := trigger.Key([]string{"k", "acme/k\"", "ü"}[r.IntN(3)])
		got, want := AppendEvent(nil, key, f, env), marshal(t, event(key, f, env))
		if !bytes.Equal(got, want) {
			t.Fatalf("by hand %s\nstruct  %s", got, want)
		}
		back, err := DecodeEvent(got)
		want = bytes.ReplaceAll(want, []byte(`\ufffd`), []byte("\ufffd")) // now it is a character like others
		if err != nil || !bytes.Equal(marshal(t, back), want) {
			t.Fatalf("%v\nread back %s\nwas       %s", err, marshal(t, back), want)
		}
	}
}

func TestAppendEventAllocates(t *testing.T) {
	f := &trigger.Fact{
		Type: trigger.Registered, Seq: 1, Scheduled: appended, State: trigger.Pending,
		Spec: &trigger.Spec{Payload: []byte(`{"a":[1,2]}`)},
	}
	buf := make([]byte, 0, 4096)
	got := testing.AllocsPerRun(100, func() {
		AppendEvent(buf, "acme/k", f,
			EventEnv{At: appended, EventUS: 1, WithPayload: true})
	})
	if got > 1 {
		t.Errorf("%.0f allocations for an event, promised at most 1", got)
	}
}

func TestPayloadStaysOut(t *testing.T) {
	f := &trigger.Fact{Type: trigger.Registered, Spec: &trigger.Spec{Payload: []byte(`"secret"`)}}
	if got := string(AppendEvent(nil, "k", f, EventEnv{})); strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// An event is one line: NDJSON readers depend on it.
func TestAnEventIsOneLine(t *testing.T) {
	f := &trigger.Fact{
		Type: trigger.Registered, Detail: "a\nb",
		Spec: &trigger.Spec{Payload: []byte("{\r\n\"a\":\n1}")},
	}
	if got := AppendEvent(nil, "k", f, EventEnv{WithPayload: true}); bytes.ContainsAny(got, "\r\n") {
		t.Errorf("%q", got)
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"empty", ""},
		{"text", "x"},
		{"null", "null"},
		{"a list", "[]"},
		{"no id", `{"type":"t","trigger":"k"}`},
		{"no type", `{"event_id":"0-1","trigger":"k"}`},
		{"no trigger", `{"event_id":"0-1","type":"t"}`},
		{"trailing", `{"event_id":"0-1","type":"t","trigger":"k"} x`},
		{"wrong type", `{"event_id":1,"type":"t","trigger":"k"}`},
	} {
		if e, err := DecodeEvent([]byte(c.value)); err == nil {
			t.Errorf("%s: got %+v", c.name, e)
		}
	}
	if _, err := DecodeEvent([]byte(`{"event_id":"0-1","type":"command.rejected","trigger":""}`)); err != nil {
		t.Errorf("of an empty key: %v", err)
	}
	if _, err := DecodeEvent([]byte(`{"event_id":"0-1","type":"t","trigger":"k","of_a_later_version":1}`)); err != nil {
		t.Error("a field of a later version:", err)
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add([]byte(`{"event_id":"3-1790000000000123","type":"trigger.registered","version":1,"trigger":"k","tenant":"default","occurred_at":"2026-09-21T14:13:20.000Z","event_us":1790000000000123,"tags":{"a":"1"},"payload":{"a":[1]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEvent(b)
		if err != nil {
			return
		}
		if back, err := DecodeEvent(marshal(t, e)); err != nil || !bytes.Equal(marshal(t, back), marshal(t, e)) {
			t.Fatalf("%v\ncame back as %+v\nwas %+v", err, back, e)
		}
	})
}

// The rule of an event, sent as a register, gives the rule that the trigger has.
func TestRuleIsACommand(t *testing.T) {
	for _, fields := range []string{
		`"delay":"7m"`, `"fire_at":"2026-11-20T09:00:00Z"`,
		`"fire_at":"2026-11-20T09:00:00","timezone":"Europe/Zurich","dst":{"gap":"skip","overlap":"second"}`,
		`"recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO","timezone":"America/New_York","start":"2026-11-20T09:00:00",` +
			`"until":"2027-11-20T09:00:00","count":9,"include":["2026-12-24"],"exclude":["2026-12-25"],` +
			`"calendars":{"names":["us-holidays"],"on":"skip"},"follow_user":true,"user_id":"u"`,
		`"recurrence":"every:1h","priority":"low","jitter":"5s","expires_after":"1h","misfire":"fire_all"`,
		`"delay":"7m","escalation":[{"channel":"push"},{"channel":"sms","after":"5m"}]`,
	} {
		spec := func(fields string) *trigger.Spec {
			t.Helper()
			c, err := DecodeCommand(command(`{"op":"register","payload":{"a":1},`+fields+`}`), Limits{}, nil)
			if err != nil {
				t.Fatalf("%s: %v", fields, err)
			}
			return c.Spec
		}
		was := spec(fields)
		rule := string(appendRule(nil, was))
		readBack := spec(`"user_id":"u",` + strings.TrimSuffix(strings.TrimPrefix(rule, "{"), "}"))
		if second := string(appendRule(nil, readBack)); second != rule {
			t.Errorf("%s\nis the rule %s\nwhich is the rule %s", fields, rule, second)
		}
		for _, field := range []string{"payload", "user_id"} {
			if strings.Contains(rule, `"`+field+`":`) {
				t.Errorf("%s: the rule %s has %s", fields, rule, field)
			}
		}
	}
}
