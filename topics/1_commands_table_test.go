package topics

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// What the table spells of a Spec, the decoder reads as the same Spec. Together the
// cases give every field that a trigger keeps.
func TestSpelledFieldsDecode(t *testing.T) {
	spelled := map[string]bool{}
	for _, c := range []struct{ name, fields string }{
		{
			"delay",
			`"delay":"7m","channel":"orders","user_id":"u","payload":{"a":"<b>"},"target_key":"k","headers":{"a":"b","c":""},` +
				`"tags":{"b":"2","a":"1"},"priority":"low","jitter":"1m","expires_after":"1500ms","correlation_id":"c"`,
		},
		{"instant", `"fire_at":"2026-11-20T09:00:00.250Z","payload_base64":"AAEC","priority":"high"`},
		{
			"local",
			`"fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin","user_id":"u","follow_user":true,"dst":{"gap":"skip","overlap":"both"}`,
		},
		{
			"rule",
			`"recurrence":"FREQ=DAILY","start":"2026-11-20T09:00","timezone":"Asia/Tokyo","count":3,"include":["2026-12-24"],` +
				`"exclude":["2026-12-25","2026-12-26"],"calendars":{"names":["jp","de"],"on":"next_business_day"},"misfire":"skip"`,
		},
		{"until", `"recurrence":"cron:0 9 * * 1","until":"2027-11-20T09:00:00Z"`},
		{"callback", `"delay":60,"callback":{"url":"https://a.example/x","timeout":"5s","retry":["10s",30]}`},
		{"escalation", `"delay":60,"escalation":[{"channel":"push"},{"after":"5m","channel":"sms"},{"channel":"a","after":90}]`},
		{
			"callback without retries",
			`"delay":60,"callback":{"url":"https://a.example/x","timeout":"250ms","retry":[]}`,
		},
	} {
		want := decodeRegister(t, c.name, c.fields)
		var members []string
		for _, f := range RegisterFields() {
			if value := f.Append(nil, want); value != nil {
				members = append(members, `"`+f.Name+`":`+string(value))
				spelled[f.Name] = true
			}
		}
		if got := decodeRegister(t, c.name, strings.Join(members, ",")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: spelled %s\ngot  %+v\nwant %+v", c.name, members, got, want)
		}
	}
	for _, f := range RegisterFields() {
		if f.Kept && !spelled[f.Name] {
			t.Errorf("no case has %s", f.Name)
		}
	}
}

func decodeRegister(t *testing.T, name, fields string) *trigger.Spec {
	t.Helper()
	c, err := DecodeCommand(register(fields), Limits{}, nil)
	if err != nil {
		t.Fatalf("%s: %s: %v", name, fields, err)
	}
	return c.Spec
}

// Whatever a trigger keeps is hashed, but for what names it to people.
func TestKeptFieldsAreHashed(t *testing.T) {
	for f, def := range fieldTable {
		if kept := def.spell != nil && field(f) != fCorrelationID &&
			field(f) != fPayloadBase64; kept != (def.hash != nil) {
			t.Errorf("%s: kept %v, hashed %v", def.name, kept, def.hash != nil)
		}
	}
	if !slices.IsSortedFunc(hashed,
		func(a, b fieldHasher) int { return int(fieldTable[a.f].hashAt) - int(fieldTable[b.f].hashAt) }) {
		t.Error("fields are hashed in another order than their numbers")
	}
	for i, h := range hashed[1:] {
		if fieldTable[h.f].hashAt == fieldTable[hashed[i].f].hashAt {
			t.Errorf("%s is hashed under a number that another field has", fieldTable[h.f].name)
		}
	}
}

// Commands as the gateway, the command line and apply write them.
func TestWrittenCommandsDecode(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          func(c *trigger.Command) bool
	}{
		{
			"register", `{"op":"register","delay":"7m","payload":{"a":"<b>"},"tags":{"a":"1"},"if_absent":true}`,
			func(c *trigger.Command) bool {
				return string(c.Spec.Payload) == `{"a":"<b>"}` && c.IfAbsent && len(c.Spec.Tags) == 1
			},
		},
		{
			"recurrence",
			`{"op":"register","timezone":"Asia/Tokyo","recurrence":"FREQ=DAILY","start":"2026-11-20T09:00","count":3,` +
				`"exclude":["2026-12-25"],"dst":{"gap":"skip"},"calendars":{"names":["jp"]}}`,
			func(c *trigger.Command) bool {
				return c.Spec.When.Count == 3 && c.Spec.When.DST.Gap == "skip" && c.Spec.When.Calendars.On == "skip"
			},
		},
		{
			"callback",
			`{"op":"register","delay":"420","callback":{"url":"https://a.example","timeout":"5s","retry":[]}}`,
			func(c *trigger.Command) bool {
				return c.Spec.Callback.Timeout == 5*time.Second && c.Spec.Callback.Retry != nil
			},
		},
		{
			"snooze", `{"op":"snooze","actor":"u_81","for":"10m"}`,
			func(c *trigger.Command) bool { return c.For == 10*time.Minute && c.Actor == "u_81" },
		},
		{"cancel", `{"op":"cancel","if_revision":3}`, func(c *trigger.Command) bool { return c.IfRevision == 3 }},
		{"pause", `{"op":"pause","note":"n"}`, func(c *trigger.Command) bool { return c.Note == "n" }},
		{
			"skip", `{"op":"skip","occurrence":"2026-12-25"}`,
			func(c *trigger.Command) bool { return c.Occurrence == "2026-12-25" },
		},
	} {
		got, err := DecodeCommand(&Record{Key: []byte("k"), Value: []byte(c.value), Timestamp: appended}, Limits{}, nil)
		if err != nil || !c.ok(got) {
			t.Errorf("%s: %s became %+v, %v", c.name, c.value, got, err)
		}
	}
}
