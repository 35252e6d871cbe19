package topics

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// JSON alone can say these.
func TestJSONParts(t *testing.T) {
	got, err := DecodeCommand(register(`"recurrence":"cron:0 9 * * 1-5","timezone":"Europe/Berlin","include":["2026-12-26"],"exclude":["2026-12-25","2026-12-24T09:00"],
		"dst":{"gap":"skip","overlap":"both"},"calendars":{"names":["de","us-holidays"],"on":"next_business_day"},
		"tags":{"type":"medication","a":"1"},"headers":{"x-a":"1","content-type":"text/plain","ce_id":"no","wcx-a":"no","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"callback":{"url":"https://a.example","timeout":"5s","retry":["10s",30,"500ms"]},"payload" : [1, 2 ]`), Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &trigger.Spec{
		When: trigger.When{
			Kind: trigger.WhenRecurrence, Recurrence: "cron:0 9 * * 1-5", Zone: "Europe/Berlin",
			Include: []string{"2026-12-26"},
			Exclude: []string{"2026-12-25", "2026-12-24T09:00"}, DST: trigger.DST{Gap: "skip", Overlap: "both"},
			Calendars: &trigger.Calendars{Names: []string{"de", "us-holidays"}, On: "next_business_day"},
		},
		Channel: "webhook", Payload: []byte("[1, 2 ]"), ContentType: "text/plain", Priority: trigger.Normal,
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Headers:     headers("x-a=1"), Tags: []trigger.Tag{{Key: "a", Value: "1"}, {Key: "type", Value: "medication"}},
		Callback: &trigger.Callback{
			URL: "https://a.example", Timeout: 5 * time.Second,
			Retry: []time.Duration{10 * time.Second, 30 * time.Second, 500 * time.Millisecond},
		},
	}
	if !reflect.DeepEqual(got.Spec, want) {
		t.Errorf("got  %+v\nwant %+v", got.Spec, want)
	}
}

func TestNoRetriesIsNotTheProfile(t *testing.T) {
	got, err := DecodeCommand(register(`"delay":"7m","callback":{"url":"https://a.example","retry":[]}`), Limits{}, nil)
	if err != nil || got.Spec.Callback.Retry == nil || len(got.Spec.Callback.Retry) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Null is absent: serializers write it for fields that are not set.
func TestNullIsAbsent(t *testing.T) {
	got, err := DecodeCommand(register(`"delay":"7m","fire_at":null,"payload":null,"tags":null,"callback":null,"user_id":null,"escalation":null`), Limits{}, nil)
	if err != nil || got.Spec.Payload != nil || got.Spec.Callback != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Escapes in names and texts mean what JSON says they do.
func TestEscapes(t *testing.T) {
	got, err := DecodeCommand(command(`{"\u006fp":"register","del\u0061y":"7\u006d","user_id":"\u00fc\"\\","tags":{"\u0061":"\u0062"}}`), Limits{}, nil)
	if err != nil || got.Spec.UserID != `ü"\` || got.Spec.When.Delay != 7*time.Minute ||
		got.Spec.Tags[0] != (trigger.Tag{Key: "a", Value: "b"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSuggestions(t *testing.T) {
	for _, c := range []struct{ given, suggested string }{
		{"dealy", "delay"},
		{"fire-at", "fire_at"},
		{"fireAt", "fire_at"},
		{"chanel", "channel"},
		{"rrule", "recurrence"},
		{"cron", "recurrence"},
		{"callbackUrl", "callback"},
		{"tz", "timezone"},
		{"timeZone", "timezone"},
		{"data", "payload"},
	} {
		_, err := DecodeCommand(register(`"`+c.given+`":"x"`), Limits{}, nil)
		if err == nil || !strings.Contains(err.Error(), "did you mean "+c.suggested+"?") {
			t.Errorf("%s: %v, want a suggestion of %s", c.given, err, c.suggested)
		}
	}
	_, err := DecodeCommand(register(`"`+strings.Repeat("z", 100_000)+`":1`), Limits{}, nil)
	if err == nil || strings.Contains(err.Error(), "did you mean") || len(err.Error()) > 300 {
		t.Errorf("a hostile name: %.300v", err)
	}
}

// A pooled reader must not keep or touch the record's bytes.
func TestDecodingLeavesTheRecordAlone(t *testing.T) {
	recs := []*Record{
		register(`"delay":"7m","payload":{"a":"first"}`),
		register(`"delay":"8m","payload":{"b":"second payload"}`),
	}
	before := [][]byte{bytes.Clone(recs[0].Value), bytes.Clone(recs[1].Value)}
	first, err1 := DecodeCommand(recs[0], Limits{}, nil)
	_, err2 := DecodeCommand(recs[1], Limits{}, nil)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if string(first.Spec.Payload) != `{"a":"first"}` || cap(first.Spec.Payload) != len(first.Spec.Payload) {
		t.Errorf("payload %q, cap %d", first.Spec.Payload, cap(first.Spec.Payload))
	}
	for i, rec := range recs {
		if !bytes.Equal(rec.Value, before[i]) {
			t.Errorf("value %d became %q", i, rec.Value)
		}
	}
}

// A payload may nest as deep as the limit says; the command around it is not
// counted.
func TestPayloadDepth(t *testing.T) {
	for _, c := range []struct {
		limit, deep int
		want        bool
	}{{0, 127, true}, {0, 128, true}, {0, 129, false}, {3, 3, true}, {3, 4, false}} {
		payload := strings.Repeat(`[`, c.deep) + strings.Repeat(`]`, c.deep)
		rec := &Record{Key: []byte("k"), Value: []byte(`{"op":"register","delay":"1s","payload":` + payload + `}`)}
		cmd, err := DecodeCommand(rec, Limits{Depth: c.limit}, nil)
		if (err == nil) != c.want || err == nil && string(cmd.Spec.Payload) != payload {
			t.Errorf("limit %d, payload nested %d deep: %v", c.limit, c.deep, err)
		}
	}
}

// JSON knows a number by its value: 1e3 is 1000, and the same content.
func TestNumbersWithExponents(t *testing.T) {
	for _, c := range []struct{ name, exponent, plain string }{
		{"a delay", `"delay":1e3`, `"delay":1000`},
		{"a part of a second", `"delay":2.5E-1`, `"delay":0.25`},
		{"nothing", `"delay":0e5`, `"delay":0`},
		{"an instant in ms", `"fire_at":1.8e12`, `"fire_at":1800000000000`},
		{"a count", `"recurrence":"FREQ=DAILY","count":1e1`, `"recurrence":"FREQ=DAILY","count":10`},
		{
			"a wait", `"delay":"7m","callback":{"url":"https://x.example","retry":[1e1]}`,
			`"delay":"7m","callback":{"url":"https://x.example","retry":[10]}`,
		},
	} {
		got, err := DecodeCommand(register(c.exponent), Limits{}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want, err := DecodeCommand(register(c.plain), Limits{}, nil)
		if err != nil || got.Hash != want.Hash {
			t.Errorf("%s: %+v, want %+v, %v", c.name, got.Spec, want.Spec, err)
		}
	}
}
