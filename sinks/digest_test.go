package sinks

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
)

// The digest covers every field of a row. So rows that a rebuild calls the same are the same in
// all fields.
func TestEventDigestCoversEveryField(t *testing.T) {
	step, late, part, other := 1, int64(2), int32(3), 2
	full := topics.Event{
		EventID: "3-7", Type: "t", Version: 1, Trigger: "k", Tenant: "default", Revision: 1, Seq: 2,
		OccurredAt: "2026-11-20T14:00:00.000Z", EventUS: 7,
		Channel: "sms", UserID: "u", ScheduledAt: "2026-11-20T14:00:00.000Z", LocalTime: "l", Timezone: "z",
		TZData: "r", Occurrence: "o", Step: &step, Attempt: 1,
		State: "s", PreviousState: "p", LatenessMS: &late, Reason: "r", Detail: "d", Actor: "a", Source: "s",
		DueTopic: "d", DuePartition: &part, CorrelationID: "c",
		Tags: map[string]string{"a": "b"}, Payload: json.RawMessage(`{"a":1}`), PayloadBase64: "YQ==", Count: 2,
		First: "f", Last: "l", PreviousScheduled: "p", PreviousTZData: "q", FirstFired: "z",
		Rule: json.RawMessage(`{"delay":"1s"}`), NextAt: "n", EffectiveAt: "e",
	}
	digest := func(e topics.Event) Row { return EventDigest(&EventRecord{Event: e}, time.Hour) }
	fields := reflect.TypeFor[topics.Event]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if name == "Truncated" {
			continue // no row has it
		}
		changed := full
		f := reflect.ValueOf(&changed).Elem().Field(i)
		if f.IsZero() {
			t.Fatalf("this test says nothing of %s", name)
		}
		f.SetZero()
		if digest(changed) == digest(full) {
			t.Errorf("rows that differ in %s have the same digest", name)
		}
	}
	changed := full
	changed.Tags, changed.Step = map[string]string{"a": "c"}, &other
	if one := full; digest(changed).Digest == digest(one).Digest {
		t.Error("rows that differ in a tag and the step have the same digest")
	}
}
