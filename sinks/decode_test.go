package sinks

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

var appended = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

const someEvent = `{"event_id":"3-1795251600000000","type":"trigger.registered","version":1,"trigger":"k","tenant":"default","event_us":1795251600000000}`

func TestDecodeEvent(t *testing.T) {
	with := func(field string) string { return strings.TrimSuffix(someEvent, "}") + "," + field + "}" }
	for _, c := range []struct{ name, in, err string }{
		{"an event", someEvent, ""},
		{"a field of a later release", with(`"mood":{"a":[1]}`), ""},
		{"a payload with a name twice", with(`"payload":{"a":1,"a":2}`), ""},
		{"no trigger", strings.Replace(someEvent, `"trigger":"k"`, `"trigger":""`, 1), ""},
		{"no tenant", strings.Replace(someEvent, `"default"`, `""`, 1), ""},
		{"nothing", "", "decode event"},
		{"null", "null", "no type"},
		{"not JSON", "hello", "decode event"},
		{"cut off", someEvent[:40], "decode event"},
		{"two values", someEvent + someEvent, "decode event"},
		{"another type of field", with(`"revision":"1"`), "revision"},
		{"bytes that are no text", with("\"detail\":\"\xff\""), "decode event"},
		{"bytes that are no text, in the payload", with("\"payload\":\"\xff\""), "decode event"},
		{"no type", strings.Replace(someEvent, `"type":"trigger.registered",`, "", 1), "no type"},
		{"no event_us", strings.Replace(someEvent, `,"event_us":1795251600000000`, "", 1), "event_us 0"},
		{"a day and more ahead of its append", strings.Replace(someEvent, `us":1795251600000000`,
			`us":1795338000000001`, 1), "more than a day"},
		{
			"as far ahead by the engine's word", strings.Replace(someEvent, "1795251600000000", "1795338000000001", -1),
			"",
		},
		{"ahead of all clocks", strings.Replace(someEvent, "1795251600000000", "10000000000000001", -1), "not a time"},
		{"an attempt beyond 32 bits", with(`"attempt":3000000000`), "attempt"},
		{"a step beyond 32 bits", with(`"step":-3000000000`), "step"},
		{"a count beyond 32 bits", with(`"count":3000000000`), "count"},
		{"more than a row takes", with(`"payload":"` + strings.Repeat("x", 4<<20) + `"`), "more than a row takes"},
		{"seq below zero", with(`"seq":-1`), "seq -1"},
		{"a time that is none", with(`"scheduled_at":"soon"`), "scheduled_at"},
		{"another", with(`"previous_scheduled_at":"2026-13-01T00:00:00Z"`), "previous_scheduled_at"},
	} {
		_, err := DecodeEvent([]byte(c.in), appended)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

// DecodeEvent reads what the engine writes.
func TestDecodeWhatTopicsWrites(t *testing.T) {
	f := trigger.Fact{
		Type: trigger.OccurrenceFired, Revision: 2, Seq: 9, Channel: "push", UserID: "u",
		Scheduled:  trigger.At(appended),
		Occurrence: "2026-11-21T09:00:00", Step: 1, Attempt: 2, HasStep: true, State: trigger.InFlight, Lateness: 4,
		HasLate: true,
		Tags:    []trigger.Tag{{Key: "a", Value: "b"}}, Spec: &trigger.Spec{Payload: []byte(`{"x": [1, 2]}`)},
	}
	b := topics.AppendEvent(nil, "acme/k", &f, topics.EventEnv{
		Partition: 3, EventUS: appended.UnixMicro(),
		At: trigger.At(appended), WithPayload: true,
	})
	got, err := DecodeEvent(b, appended)
	if err != nil {
		t.Fatal(err)
	}
	want, err := topics.DecodeEvent(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v (%v)", got, want, err)
	}
}

// The key of a rejected command may have any length, but the key of its row may not.
func TestDecodeLongKey(t *testing.T) {
	key := func(k string) string {
		b, _ := json.Marshal(map[string]any{
			"type": "command.rejected", "tenant": "default", "trigger": k,
			"event_us": 1,
		})
		e, err := DecodeEvent(b, appended)
		if err != nil {
			t.Fatal(err)
		}
		return e.Trigger
	}
	long := strings.Repeat("ü", 300_000)
	switch a, b := key(long), key(long+"x"); {
	case a == b:
		t.Error("two long keys have one name")
	case a != key(long):
		t.Error("a long key has two names")
	case len(a) > maxKey || !utf8.ValidString(a):
		t.Errorf("a long key is %d bytes: %q", len(a), a)
	}
	if k := strings.Repeat("k", trigger.MaxKeyBytes); key(k) != k {
		t.Error("the longest trigger key is cut")
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add([]byte(someEvent))
	f.Add([]byte(`{"type":"x","event_us":1,"payload":{"a":1,"a":[null]},"tags":{"":""},"step":0}`))
	f.Add([]byte(`{"type":"x","event_us":1,"occurred_at":"2026-11-21T09:00:00.000+14:00"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEvent(b, appended)
		if err != nil {
			return
		}
		if len(e.Trigger) > maxKey || len(e.Tenant) > maxKey || e.EventUS <= 0 {
			t.Fatalf("let pass: %+v", e)
		}
		row := StateOf(&e, time.Hour)
		second := row
		second.Eras = nil
		second.Merge(&row)
		if !reflect.DeepEqual(second, row) {
			t.Fatalf("merged with itself it is another row: %+v, %+v", second, row)
		}
		MinutesOf(&e, time.Hour, func(k MinuteKey, _ MinuteRow) {
			if k.Due == 0 {
				t.Fatal("an entry without an instant")
			}
		})
	})
}
