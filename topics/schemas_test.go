package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waterclock/waterclock/schemas"
	"github.com/waterclock/waterclock/schemas/statepb"
	"github.com/waterclock/waterclock/trigger"
)

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schemaText(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func schemaText(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(schemas.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func validate(s *jsonschema.Schema, value []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// The schema and the decoder agree wherever a schema can say what is wrong.
func TestCommandSchema(t *testing.T) {
	s := schema(t, "command.schema.json")
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"delay", `{"op":"register","delay":"7m","payload":{"a":1}}`, true},
		{"delay in ISO 8601", `{"op":"register","delay":"P1DT2H"}`, true},
		{"delay as a number", `{"op":"register","delay":420}`, true},
		{"instant", `{"op":"register","fire_at":"2026-11-20T09:00:00+01:00"}`, true},
		{"digits", `{"op":"register","fire_at":1800000000000}`, true},
		{
			"local",
			`{"op":"register","fire_at":"2026-11-20T09:00","timezone":"America/New_York","user_id":"u","follow_user":true}`, true,
		},
		{
			"rule",
			`{"op":"register","recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO,WE","start":"2026-11-20T09:00","timezone":"America/New_York","exclude":["2026-12-25"],"until":"2027-12-25T00:00","count":7}`, true,
		},
		{"dates", `{"op":"register","include":["2026-12-25T09:00","2026-12-26"],"timezone":"UTC"}`, true},
		{"everything else", `{"op":"register","delay":"1w","channel":"webhook","user_id":"u","target_key":"k","headers":{"a":"1"},"tags":{"a":"1"},"priority":"low","jitter":"5s",
			"expires_after":"1h","misfire":"skip","dst":{"gap":"skip","overlap":"both"},"callback":{"url":"https://a.example/x","timeout":5,"retry":["10s",30]},
			"correlation_id":"c","if_revision":3,"idempotency_key":"i","actor":"a"}`, true},
		{
			"calendars",
			`{"op":"register","recurrence":"cron:0 9 * * *","calendars":{"names":["us"],"on":"next_business_day"}}`,
			true,
		},
		{"cancel", `{"op":"cancel","if_revision":3}`, true},
		{"reschedule", `{"op":"reschedule","fire_at":1800000000}`, true},
		{"snooze for", `{"op":"snooze","for":"10m"}`, true},
		{"snooze until", `{"op":"snooze","until":"2026-11-20T09:00"}`, true},
		{"skip", `{"op":"skip"}`, true},
		{"ack", `{"op":"ack","occurrence":"snz-3-17"}`, true},
		{"pause", `{"op":"pause","note":"on leave"}`, true},
		{"rezone", `{"op":"rezone","timezone":"Asia/Tokyo"}`, true},
		{"run now", `{"op":"run_now"}`, true},
		{"erase", `{"op":"erase"}`, true},
		{
			"redrive",
			`{"op":"redrive","due_id":"k@x#0","attempt":6,"scheduled_at":"2026-11-20T14:00:00.000Z","channel":"sms"}`,
			true,
		},

		{"no op", `{"delay":"7m"}`, false},
		{"unknown op", `{"op":"regster"}`, false},
		{"unknown field", `{"op":"register","dealy":"7m","delay":"7m"}`, false},
		{"no time", `{"op":"register"}`, false},
		{"delay in months", `{"op":"register","delay":"P1M"}`, false},
		{"delay in words", `{"op":"register","delay":"soon"}`, false},
		{"negative delay", `{"op":"register","delay":-1}`, false},
		{"9 digits", `{"op":"register","fire_at":"180000000"}`, false},
		{"offset for a zone", `{"op":"register","fire_at":"2026-11-20T09:00","timezone":"+02:00"}`, false},
		{"channel in upper case", `{"op":"register","delay":"7m","channel":"Push"}`, false},
		{"priority", `{"op":"register","delay":"7m","priority":"urgent"}`, false},
		{"both payloads", `{"op":"register","delay":"7m","payload":1,"payload_base64":"AAAA"}`, false},
		{"wc- header", `{"op":"register","delay":"7m","headers":{"wc-op":"x"}}`, false},
		{"number for a tag", `{"op":"register","delay":"7m","tags":{"a":1}}`, false},
		{"tag with a colon", `{"op":"register","delay":"7m","tags":{"a:b":"1"}}`, false},
		{"callback with user info", `{"op":"register","delay":"7m","callback":{"url":"https://u@a.example"}}`, false},
		{"callback by file", `{"op":"register","delay":"7m","callback":{"url":"file:///x"}}`, false},
		{
			"unknown field of callback",
			`{"op":"register","delay":"7m","callback":{"url":"https://a.example","verb":"PUT"}}`, false,
		},
		{"cancel with a delay", `{"op":"cancel","delay":"7m"}`, false},
		{"snooze with two", `{"op":"snooze","for":"5m","until":1800000000}`, false},
		{"rezone without a zone", `{"op":"rezone"}`, false},
		{"count of 0", `{"op":"register","recurrence":"FREQ=DAILY","count":0}`, false},
		{"if_revision in words", `{"op":"cancel","if_revision":"3"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := validate(s, []byte(c.value)); (err == nil) != c.ok {
				t.Errorf("the schema says %v", err)
			}
			_, err := DecodeCommand(&Record{Key: []byte("k"), Value: []byte(c.value), Timestamp: appended}, Limits{},
				nil)
			if (err == nil) != c.ok {
				t.Errorf("the decoder says %v", err)
			}
		})
	}
}

// TestSchemaOfDocumentedCommands: every command that a document shows, and that the decoder
// takes, fits the schema. A field that the decoder does not know, the schema does not know.
func TestSchemaOfDocumentedCommands(t *testing.T) {
	s, seen := schema(t, "command.schema.json"), 0
	check := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for rest := text; err == nil; {
			at := bytes.Index(rest, []byte(`{"op":"`))
			if at < 0 {
				break
			}
			rest = rest[at:]
			var value json.RawMessage
			if json.NewDecoder(bytes.NewReader(rest)).Decode(&value) != nil {
				rest = rest[1:] // part of an object, or with dots in it
				continue
			}
			rest, seen = rest[len(value):], seen+1
			_, refused := DecodeCommand(&Record{Key: []byte("k"), Value: value, Timestamp: documented}, Limits{}, nil)
			var why *trigger.Error
			fits := validate(s, value)
			switch {
			case refused == nil && fits != nil:
				t.Errorf("%s: %s: the decoder takes it, the schema says %v", path, value, fits)
			case errors.As(refused, &why) && why.Code == trigger.CodeUnknownField && fits == nil:
				t.Errorf("%s: %s: the decoder says %v, the schema takes it", path, value, refused)
			}
		}
		return err
	}
	if err := filepath.WalkDir("../docs", check); err != nil {
		t.Fatal(err)
	}
	if seen < 40 {
		t.Errorf("%d commands found in the documents; there were more", seen)
	}
}

// documented is before the instants that the documents name.
var documented = trigger.Instant(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMilli())

// The generated code is of the .proto that lies beside it: every field and
// enum value has the same number in both, and neither has more.
func TestGeneratedCodeIsOfThisSchema(t *testing.T) {
	numbered := regexp.MustCompile(`(?m)^\s*(?:repeated )?(?:\w+ )?(\w+) = (\d+);`)
	var inText, inCode []string
	for _, m := range numbered.FindAllStringSubmatch(schemaText(t, "waterclock/v1/state.proto"), -1) {
		inText = append(inText, m[1]+" = "+m[2])
	}
	file := statepb.File_waterclock_v1_state_proto
	for i := range file.Messages().Len() {
		fields := file.Messages().Get(i).Fields()
		for j := range fields.Len() {
			inCode = append(inCode, fmt.Sprintf("%s = %d", fields.Get(j).Name(), fields.Get(j).Number()))
		}
	}
	for i := range file.Enums().Len() {
		values := file.Enums().Get(i).Values()
		for j := range values.Len() {
			inCode = append(inCode, fmt.Sprintf("%s = %d", values.Get(j).Name(), values.Get(j).Number()))
		}
	}
	slices.Sort(inText)
	slices.Sort(inCode)
	if len(inText) < 100 || !slices.Equal(inText, inCode) {
		t.Errorf("run go generate in schemas:\nschema %q\ncode   %q", inText, inCode)
	}
}

func TestReceiptSchema(t *testing.T) {
	s := schema(t, "receipt.schema.json")
	for _, c := range []struct {
		value string
		ok    bool
	}{
		{`{"due_id":"k@x#0","channel":"sms","outcome":"retry","attempt":1,"code":"c","detail":"d","retry_after":"30s","at":"2026-11-20T14:00:05Z","carrier":"x"}`, true},
		{`{"due_id":"k@x#0","outcome":"delivered"}`, true},
		{`{"due_id":"k@x#0","outcome":"sent"}`, false},
		{`{"due_id":"k","outcome":"failed"}`, false},
		{`{"outcome":"failed"}`, false},
		{`{"due_id":"k@x#0","outcome":"failed","attempt":-1}`, false},
		{`{"due_id":"k@x#0","outcome":"failed","channel":"S M S"}`, false},
	} {
		if err := validate(s, []byte(c.value)); (err == nil) != c.ok {
			t.Errorf("%s: the schema says %v", c.value, err)
		}
		if _, err := DecodeReceipt(receipt(c.value)); (err == nil) != c.ok {
			t.Errorf("%s: the decoder says %v", c.value, err)
		}
	}
	ours := AppendReceipt(nil, &Receipt{
		Key: "k", Occurrence: "x", Outcome: OutcomeRetry, Channel: "sms", Attempt: 2,
		RetryAfter: 1e9, At: appended,
	})
	if err := validate(s, ours); err != nil {
		t.Error(err)
	}
}

func TestEventSchema(t *testing.T) {
	s := schema(t, "event.schema.json")
	for _, g := range goldenEvents() {
		if err := validate(s, g.bytes); err != nil {
			t.Errorf("%s: %v", g.name, err)
		}
	}
	var doc struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(schemaText(t, "event.schema.json")), &doc); err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, ok := doc.Properties[name]; !ok {
			t.Errorf("%s is not in event.schema.json", name)
		}
		delete(doc.Properties, name)
	}
	if len(doc.Properties) > 0 {
		t.Errorf("the schema has fields of its own: %v", doc.Properties)
	}
}
