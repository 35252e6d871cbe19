package topics

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// appended is when every command of these tests was appended: 2026-09-21T14:13:20Z.
const appended trigger.Instant = 1_790_000_000_000

// headers spells headers as "key=value", for tables.
func headers(pairs ...string) []trigger.Header {
	var hs []trigger.Header
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		hs = append(hs, header(key, value))
	}
	return hs
}

func command(value string, hs ...string) *Record {
	return &Record{Topic: "waterclock.commands", Partition: 3, Offset: 81, Timestamp: appended,
		Key: []byte("k"), Value: []byte(value), Headers: headers(hs...)}
}

// register is a JSON register with the given fields.
func register(fields string) *Record { return command(`{"op":"register",` + fields + `}`) }

// Every way to be refused, by code and field.
func TestCommandRefused(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name  string
		rec   *Record
		code  trigger.Code
		field string
	}{
		// The record.
		{"no key", &Record{Value: []byte(`{"op":"cancel"}`)}, trigger.CodeInvalidKey, ""},
		{"key in the default tenant", &Record{Key: []byte("default/x")}, trigger.CodeInvalidKey, ""},
		{"empty value", command(""), trigger.CodeNotACommand, ""},
		{"text", command("hello"), trigger.CodeNotACommand, ""},
		{"a JSON list", command(`[{"op":"cancel"}]`), trigger.CodeNotACommand, ""},
		{"a JSON object without op", command(`{"delay":"7m"}`), trigger.CodeNotACommand, ""},
		{"a JSON object without op, with an unknown field", command(`{"orderId":7}`), trigger.CodeNotACommand, ""},
		{"op is null", command(`{"op":null}`), trigger.CodeNotACommand, ""},
		{"cut short", command(`{"op":"register","delay":"7m"`), trigger.CodeNotACommand, ""},
		{"trailing garbage", command(`{"op":"cancel"}x`), trigger.CodeNotACommand, ""},
		{"two objects", command(`{"op":"cancel"}{"op":"cancel"}`), trigger.CodeNotACommand, ""},
		{"not UTF-8", command("{\"op\":\"register\",\"user_id\":\"\xff\"}"), trigger.CodeNotACommand, ""},
		{"cut short in a list", command(`{"op":"register","exclude":["2026-12-25"`), trigger.CodeNotACommand, ""},
		{"cut short in tags", command(`{"op":"register","tags":{"a":"b"`), trigger.CodeNotACommand, ""},
		{"cut short in a tag", command(`{"op":"register","tags":{"a":`), trigger.CodeNotACommand, ""},
		{"cut short in a name", command(`{"op`), trigger.CodeNotACommand, ""},
		{"cut short in callback", command(`{"op":"register","callback":{"url"`), trigger.CodeNotACommand, ""},
		{"a name that is no string", command(`{"op":"register",7:1}`), trigger.CodeNotACommand, ""},
		{"half a surrogate", register(`"delay":"7m","user_id":"\ud83d"`), trigger.CodeNotACommand, ""},
		{"deep payload", register(`"delay":"7m","payload":` + strings.Repeat("[", 200) + strings.Repeat("]", 200)), trigger.CodeInvalid, "payload"},
		{"very deep", register(`"payload":` + strings.Repeat("[", 100_000)), trigger.CodeInvalid, "payload"},
		{"null beside wc-delay", tombstone("wc-delay=7m"), trigger.CodeAmbiguousTombstone, ""},
		{"null beside cancel and more", tombstone("wc-op=cancel", "wc-if-revision=3"), trigger.CodeAmbiguousTombstone, ""},
		{"null beside another op", tombstone("wc-op=pause"), trigger.CodeAmbiguousTombstone, ""},
		{"null beside an unknown wc- header", tombstone("wc-x=1"), trigger.CodeAmbiguousTombstone, ""},

		// Names.
		{"unknown op", command(`{"op":"regster"}`), trigger.CodeUnknownOp, "op"},
		{"unknown op beside an unknown field", command(`{"id":"x","op":"regster"}`), trigger.CodeUnknownOp, "op"},
		{"empty op", command(`{"op":""}`), trigger.CodeUnknownOp, "op"},
		{"op of the wrong type", command(`{"op":7}`), trigger.CodeInvalid, "op"},
		{"unknown op by header", command("", "wc-op=regster"), trigger.CodeUnknownOp, "op"},
		{"unknown field", register(`"dealy":"7m"`), trigger.CodeUnknownField, "dealy"},
		{"unknown field of callback", register(`"delay":"7m","callback":{"uri":"https://a.example"}`), trigger.CodeUnknownField, "callback.uri"},
		{"unknown field of dst", register(`"delay":"7m","dst":{"hole":"skip"}`), trigger.CodeUnknownField, "dst.hole"},
		{"unknown header", command("", "wc-dealy=7m"), trigger.CodeUnknownField, "dealy"},
		{"header in upper case", command("", "WC-Delay=7m"), trigger.CodeUnknownField, "WC-Delay"},
		{"header with an underscore", command("", "wc-fire_at=1800000000"), trigger.CodeUnknownField, "wc-fire_at"},
		{"payload by header", command("", "wc-delay=7m", "wc-payload=x"), trigger.CodeInvalid, "payload"},
		{"tags by header", command("", "wc-delay=7m", "wc-tags=x"), trigger.CodeInvalid, "tags"},
		{"field twice", register(`"delay":"7m","delay":"8m"`), trigger.CodeInvalid, "delay"},
		{"field twice, once null", register(`"delay":"7m","delay":null`), trigger.CodeInvalid, "delay"},
		{"header twice", command("", "wc-delay=7m", "wc-delay=7m"), trigger.CodeInvalid, "delay"},
		{"header not UTF-8", command("", "wc-delay=7m", "wc-user-id=\xff"), trigger.CodeInvalid, "user_id"},
		{"field of another op", command(`{"op":"cancel","delay":"7m"}`), trigger.CodeInvalid, "delay"},
		{"register with for", register(`"delay":"7m","for":"5m"`), trigger.CodeInvalid, "for"},
		{"reschedule with payload", command(`{"op":"reschedule","delay":"7m","payload":1}`), trigger.CodeInvalid, "payload"},

		// JSON types.
		{"number for text", register(`"delay":"7m","channel":7`), trigger.CodeInvalid, "channel"},
		{"bool for a time", register(`"delay":true`), trigger.CodeInvalid, "delay"},
		{"object for a time", register(`"delay":{"m":7}`), trigger.CodeInvalid, "delay"},
		{"text for bool", register(`"delay":"7m","if_absent":"true"`), trigger.CodeInvalid, "if_absent"},
		{"text for a number", register(`"delay":"7m","if_revision":"3"`), trigger.CodeInvalid, "if_revision"},
		{"text for a list", register(`"recurrence":"every:15m","exclude":"2026-12-25"`), trigger.CodeInvalid, "exclude"},
		{"number in a list", register(`"recurrence":"every:15m","exclude":[20261225]`), trigger.CodeInvalid, "exclude"},
		{"list for an object", register(`"delay":"7m","tags":["a"]`), trigger.CodeInvalid, "tags"},
		{"number in tags", register(`"delay":"7m","tags":{"a":1}`), trigger.CodeInvalid, "tags"},
		{"text for callback", register(`"delay":"7m","callback":"https://a.example"`), trigger.CodeInvalid, "callback"},
		{"fraction for a whole number", register(`"delay":"7m","if_revision":1.5`), trigger.CodeInvalid, "if_revision"},

		// Time fields.
		{"no time", register(`"channel":"push"`), trigger.CodeConflictingTime, "fire_at"},
		{"delay and fire_at", register(`"delay":"7m","fire_at":1800000000`), trigger.CodeConflictingTime, "fire_at"},
		{"delay and recurrence", register(`"delay":"7m","recurrence":"every:15m"`), trigger.CodeConflictingTime, "recurrence"},
		{"delay and include", register(`"delay":"7m","include":["2026-12-25"]`), trigger.CodeConflictingTime, "recurrence"},
		{"fire_at and start beside recurrence", register(`"fire_at":1800000000,"start":1800000000,"recurrence":"every:15m"`), trigger.CodeConflictingTime, "start"},
		{"empty include alone", register(`"include":[]`), trigger.CodeConflictingTime, "include"},
		{"delay and fire_at by header", command("", "wc-delay=7m", "wc-fire-at=1800000000"), trigger.CodeConflictingTime, "fire_at"},
		{"reschedule without a time", command(`{"op":"reschedule","timezone":"Europe/Berlin"}`), trigger.CodeConflictingTime, "fire_at"},
		{"empty delay", register(`"delay":""`), trigger.CodeInvalid, "delay"},
		{"delay in months", register(`"delay":"P1M"`), trigger.CodeInvalid, "delay"},
		{"delay in years", register(`"delay":"1y"`), trigger.CodeInvalid, "delay"},
		{"negative delay", register(`"delay":"-5m"`), trigger.CodeInvalid, "delay"},
		{"negative delay as a number", register(`"delay":-5`), trigger.CodeInvalid, "delay"},
		{"delay of 11 years", register(`"delay":"4018d"`), trigger.CodeBeyondHorizon, "delay"},
		{"fire_at of 9 digits", register(`"fire_at":180000000`), trigger.CodeInvalid, "fire_at"},
		{"fire_at of 12 digits", register(`"fire_at":180000000000`), trigger.CodeInvalid, "fire_at"},
		{"fire_at as a fraction", register(`"fire_at":1800000000.5`), trigger.CodeInvalid, "fire_at"},
		{"fire_at as a date", register(`"fire_at":"2026-12-25","timezone":"Europe/Berlin"`), trigger.CodeInvalid, "fire_at"},
		{"fire_at as words", register(`"fire_at":"tomorrow"`), trigger.CodeInvalid, "fire_at"},
		{"local fire_at without a zone", register(`"fire_at":"2026-11-20T09:00"`), trigger.CodeInvalid, "timezone"},
		{"fire_at two years past", register(`"fire_at":"2024-09-21T14:13:20Z"`), trigger.CodeInThePast, "fire_at"},
		{"fire_at at the epoch", register(`"fire_at":"1970-01-01T00:00:00Z"`), trigger.CodeInThePast, "fire_at"},
		{"fire_at in the year 1", register(`"fire_at":"0001-01-01T00:00:00Z"`), trigger.CodeInThePast, "fire_at"},
		{"local fire_at two years past", register(`"fire_at":"2024-09-21T14:13","timezone":"Asia/Tokyo"`), trigger.CodeInThePast, "fire_at"},
		{"fire_at in 101 years", register(`"fire_at":"2127-09-21T14:13:20Z"`), trigger.CodeBeyondHorizon, "fire_at"},
		{"fire_at in the year 9999", register(`"fire_at":"9999-12-31T23:59:59Z"`), trigger.CodeBeyondHorizon, "fire_at"},
		{"local fire_at in 101 years", register(`"fire_at":"2127-09-21T14:13","timezone":"Asia/Tokyo"`), trigger.CodeBeyondHorizon, "fire_at"},
		{"empty timezone", register(`"fire_at":"2026-11-20T09:00","timezone":""`), trigger.CodeUnknownZone, "timezone"},
		{"offset for a timezone", register(`"fire_at":"2026-11-20T09:00","timezone":"+02:00"`), trigger.CodeUnknownZone, "timezone"},
		{"empty rule", register(`"recurrence":""`), trigger.CodeInvalidRule, "recurrence"},
		{"rule of two lines", register(`"recurrence":"FREQ=DAILY\nEXDATE:20261225"`), trigger.CodeInvalidRule, "recurrence"},
		{"rule of 513 bytes", register(`"recurrence":"` + strings.Repeat("x", 513) + `"`), trigger.CodeInvalidRule, "recurrence"},
		{"until without recurrence", register(`"delay":"7m","until":"2027-01-01T00:00:00Z"`), trigger.CodeInvalid, "until"},
		{"start without recurrence", register(`"delay":"7m","start":"2027-01-01T00:00:00Z"`), trigger.CodeInvalid, "start"},
		{"count without recurrence", register(`"delay":"7m","count":3`), trigger.CodeInvalid, "count"},
		{"exclude without recurrence", register(`"delay":"7m","exclude":["2026-12-25"]`), trigger.CodeInvalid, "exclude"},
		{"until as a date", register(`"recurrence":"FREQ=DAILY","until":"2026-12-25"`), trigger.CodeInvalid, "until"},
		{"start as words", register(`"recurrence":"FREQ=DAILY","start":"now"`), trigger.CodeInvalid, "start"},
		{"count of 0", register(`"recurrence":"FREQ=DAILY","count":0`), trigger.CodeInvalid, "count"},
		{"count of 100,001", register(`"recurrence":"FREQ=DAILY","count":100001`), trigger.CodeInvalid, "count"},
		{"exclude of words", register(`"recurrence":"FREQ=DAILY","exclude":["christmas"]`), trigger.CodeInvalid, "exclude"},
		{"513 dates", register(`"recurrence":"FREQ=DAILY","exclude":["2026-12-25"` + strings.Repeat(`,"2026-12-25"`, 512) + `]`), trigger.CodeInvalidRule, "include"},
		{"dst gap", register(`"delay":"7m","dst":{"gap":"stretch"}`), trigger.CodeInvalid, "dst"},
		{"dst overlap", register(`"delay":"7m","dst":{"overlap":"third"}`), trigger.CodeInvalid, "dst"},
		{"calendars without names", register(`"recurrence":"FREQ=DAILY","calendars":{"on":"skip"}`), trigger.CodeInvalid, "calendars"},
		{"calendars with a bad name", register(`"recurrence":"FREQ=DAILY","calendars":{"names":["US Holidays"]}`), trigger.CodeInvalid, "calendars"},
		{"calendars on", register(`"recurrence":"FREQ=DAILY","calendars":{"names":["us"],"on":"cry"}`), trigger.CodeInvalid, "calendars"},
		{"calendars beside delay", register(`"delay":"7m","calendars":{"names":["us"]}`), trigger.CodeInvalid, "calendars"},
		{"calendars beside an instant", register(`"fire_at":1800000000,"calendars":{"names":["us"]}`), trigger.CodeInvalid, "calendars"},

		// Whom and what.
		{"channel in upper case", register(`"delay":"7m","channel":"Push"`), trigger.CodeInvalid, "channel"},
		{"channel of 50 bytes", register(`"delay":"7m","channel":"` + strings.Repeat("x", 50) + `"`), trigger.CodeInvalid, "channel"},
		{"empty channel", register(`"delay":"7m","channel":""`), trigger.CodeInvalid, "channel"},
		{"channel with a leading dot", register(`"delay":"7m","channel":".x"`), trigger.CodeInvalid, "channel"},
		{"empty user_id", register(`"delay":"7m","user_id":""`), trigger.CodeInvalid, "user_id"},
		{"long user_id", register(`"delay":"7m","user_id":"` + long + `"`), trigger.CodeInvalid, "user_id"},
		{"user_id with a newline", register(`"delay":"7m","user_id":"a\nb"`), trigger.CodeInvalid, "user_id"},
		{"long target_key", register(`"delay":"7m","target_key":"` + long + `"`), trigger.CodeInvalid, "target_key"},
		{"payload of 4,097 bytes", register(`"delay":"7m","payload":"` + strings.Repeat("x", 4095) + `"`), trigger.CodeTooLarge, "payload"},
		{"payload of 4,097 bytes by header", command(strings.Repeat("x", 4097), "wc-delay=7m"), trigger.CodeTooLarge, "payload"},
		{"payload_base64 of 4,098 bytes", register(`"delay":"7m","payload_base64":"` + strings.Repeat("AAAA", 1366) + `"`), trigger.CodeTooLarge, "payload"},
		{"payload twice", register(`"delay":"7m","payload":1,"payload_base64":"AAAA"`), trigger.CodeInvalid, "payload_base64"},
		{"payload_base64 garbled", register(`"delay":"7m","payload_base64":"A"`), trigger.CodeInvalid, "payload_base64"},
		{"65 headers", command("", append(manyHeaders(65, "v"), "wc-delay=7m")...), trigger.CodeTooLarge, "headers"},
		{"over 16 KiB of headers", command("", append(manyHeaders(17, strings.Repeat("v", 1024)), "wc-delay=7m")...), trigger.CodeTooLarge, "headers"},
		{"wc- in headers", register(`"delay":"7m","headers":{"wc-op":"cancel"}`), trigger.CodeInvalid, "headers"},
		{"a header twice in headers", register(`"delay":"7m","headers":{"a":"1","a":"2"}`), trigger.CodeInvalid, "headers"},
		{"a header without a name", register(`"delay":"7m","headers":{"":"1"}`), trigger.CodeInvalid, "headers"},
		{"a tag twice", register(`"delay":"7m","tags":{"a":"1","a":"2"}`), trigger.CodeInvalid, "tags"},
		{"a tag with a colon", register(`"delay":"7m","tags":{"a:b":"1"}`), trigger.CodeInvalid, "tags"},
		{"a long tag", register(`"delay":"7m","tags":{"a":"` + long + `"}`), trigger.CodeInvalid, "tags"},
		{"33 tags", register(`"delay":"7m","tags":{` + manyTags(33) + `}`), trigger.CodeTooLarge, "tags"},

		// Policy.
		{"priority", register(`"delay":"7m","priority":"urgent"`), trigger.CodeInvalid, "priority"},
		{"jitter beside high", register(`"delay":"7m","priority":"high","jitter":"5s"`), trigger.CodeInvalid, "jitter"},
		{"jitter", register(`"delay":"7m","jitter":"some"`), trigger.CodeInvalid, "jitter"},
		{"misfire", register(`"delay":"7m","misfire":"fire_some"`), trigger.CodeInvalid, "misfire"},
		{"expires_after of 0", register(`"delay":"7m","expires_after":"0s"`), trigger.CodeInvalid, "expires_after"},
		{"follow_user without a zone", register(`"recurrence":"FREQ=DAILY","user_id":"u","follow_user":true`), trigger.CodeInvalid, "timezone"},
		{"follow_user beside a delay", register(`"delay":"7m","timezone":"Europe/Berlin","user_id":"u","follow_user":true`), trigger.CodeInvalid, "follow_user"},
		{"follow_user without a user", register(`"fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin","follow_user":true`), trigger.CodeInvalid, "user_id"},
		{"escalation", register(`"delay":"7m","escalation":[{"channel":"push"}]`), trigger.CodeUnsupported, "escalation"},
		{"if_revision of 0", register(`"delay":"7m","if_revision":0`), trigger.CodeInvalid, "if_revision"},
		{"if_revision and if_absent", register(`"delay":"7m","if_revision":3,"if_absent":true`), trigger.CodeInvalid, "if_absent"},
		{"if_absent by header", command("", "wc-delay=7m", "wc-if-absent=yes"), trigger.CodeInvalid, "if_absent"},
		{"empty idempotency_key", register(`"delay":"7m","idempotency_key":""`), trigger.CodeInvalid, "idempotency_key"},
		{"long correlation_id", register(`"delay":"7m","correlation_id":"` + long + `"`), trigger.CodeInvalid, "correlation_id"},

		// Callback.
		{"webhook without callback", register(`"delay":"7m","channel":"webhook"`), trigger.CodeInvalid, "callback"},
		{"callback beside another channel", register(`"delay":"7m","channel":"push","callback":{"url":"https://a.example"}`), trigger.CodeInvalid, "callback"},
		{"callback without url", register(`"delay":"7m","callback":{"timeout":"5s"}`), trigger.CodeInvalid, "callback"},
		{"callback with user info", register(`"delay":"7m","callback":{"url":"https://u:p@a.example/x"}`), trigger.CodeForbiddenURL, "callback"},
		{"callback with user info by header", command("", "wc-delay=7m", "wc-callback-url=https://u@a.example/x"), trigger.CodeForbiddenURL, "callback"},
		{"callback by file", register(`"delay":"7m","callback":{"url":"file:///etc/passwd"}`), trigger.CodeForbiddenURL, "callback"},
		{"callback without host", register(`"delay":"7m","callback":{"url":"https:///x"}`), trigger.CodeInvalid, "callback"},
		{"callback not a URL", register(`"delay":"7m","callback":{"url":"http://[::1"}`), trigger.CodeInvalid, "callback"},
		{"callback timeout of 0", register(`"delay":"7m","callback":{"url":"https://a.example","timeout":0}`), trigger.CodeInvalid, "callback"},
		{"callback timeout of 2m", register(`"delay":"7m","callback":{"url":"https://a.example","timeout":"2m"}`), trigger.CodeInvalid, "callback"},
		{"callback retry of words", register(`"delay":"7m","callback":{"url":"https://a.example","retry":["soon"]}`), trigger.CodeInvalid, "callback"},
		{"callback retry of 31 days", register(`"delay":"7m","callback":{"url":"https://a.example","retry":["31d"]}`), trigger.CodeInvalid, "callback"},
		{"33 retries", register(`"delay":"7m","callback":{"url":"https://a.example","retry":[1` + strings.Repeat(",1", 32) + `]}`), trigger.CodeInvalid, "callback"},

		// Other ops.
		{"snooze without a time", command(`{"op":"snooze"}`), trigger.CodeConflictingTime, "for"},
		{"snooze with two", command(`{"op":"snooze","for":"5m","until":1800000000}`), trigger.CodeConflictingTime, "for"},
		{"snooze for words", command(`{"op":"snooze","for":"a bit"}`), trigger.CodeInvalid, "for"},
		{"snooze for 11 years", command(`{"op":"snooze","for":"4018d"}`), trigger.CodeBeyondHorizon, "for"},
		{"snooze until long ago", command(`{"op":"snooze","until":"2020-01-01T00:00:00Z"}`), trigger.CodeInThePast, "until"},
		{"snooze until far ahead", command(`{"op":"snooze","until":"2200-01-01T00:00:00Z"}`), trigger.CodeBeyondHorizon, "until"},
		{"rezone without a zone", command(`{"op":"rezone"}`), trigger.CodeInvalid, "timezone"},
		{"rezone to an offset", command(`{"op":"rezone","timezone":"+02:00"}`), trigger.CodeUnknownZone, "timezone"},
		{"skip of nothing", command(`{"op":"skip","occurrence":""}`), trigger.CodeInvalid, "occurrence"},
		{"long note", command(`{"op":"pause","note":"` + strings.Repeat("x", 1025) + `"}`), trigger.CodeInvalid, "note"},
		{"redrive without due_id", command(`{"op":"redrive"}`), trigger.CodeInvalid, "due_id"},
		{"redrive of another trigger", command(`{"op":"redrive","due_id":"other@2026-11-20T14:00:00.000Z#0","scheduled_at":1800000000}`), trigger.CodeInvalid, "due_id"},
		{"redrive without scheduled_at", command(`{"op":"redrive","due_id":"k@2026-11-20T14:00:00.000Z#0"}`), trigger.CodeInvalid, "scheduled_at"},
		{"redrive at a wall time", command(`{"op":"redrive","due_id":"k@2026-11-20T14:00:00.000Z#0","scheduled_at":"2026-11-20T14:00"}`), trigger.CodeInvalid, "scheduled_at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeCommand(c.rec, Limits{}, nil)
			e, ok := errors.AsType[*trigger.Error](err)
			if !ok {
				t.Fatalf("got %+v, %v; want %s", got, err, c.code)
			}
			if e.Code != c.code || e.Field != c.field {
				t.Errorf("got %s (%s): %s; want %s (%s)", e.Code, e.Field, e.Msg, c.code, c.field)
			}
			if e.Msg == "" || len(e.Msg) > maxErrorDetail {
				t.Errorf("message %q", e.Msg)
			}
		})
	}
}

func tombstone(hs ...string) *Record {
	rec := command("", hs...)
	rec.Value = nil
	return rec
}

func manyHeaders(n int, value string) []string {
	var hs []string
	for i := range n {
		hs = append(hs, fmt.Sprintf("h%d=%s", i, value))
	}
	return hs
}

func manyTags(n int) string {
	var tags []string
	for i := range n {
		tags = append(tags, fmt.Sprintf(`"t%d":"v"`, i))
	}
	return strings.Join(tags, ",")
}

// What both spellings make of a wish: the same command and the same hash.
func TestBothSpellings(t *testing.T) {
	for _, c := range []struct {
		name    string
		json    *Record
		headers *Record
		check   func(c *trigger.Command) bool
	}{
		{"delay", register(`"delay":"7m","channel":"orders","payload":{"holdId":"h_8c4"}`),
			command(`{"holdId":"h_8c4"}`, "wc-delay=7m", "wc-channel=orders"),
			func(c *trigger.Command) bool {
				w := c.Spec.When
				return w.Kind == trigger.WhenDelay && w.DelayText == "7m" && w.Delay == 7*time.Minute && c.Spec.Channel == "orders" &&
					string(c.Spec.Payload) == `{"holdId":"h_8c4"}` && c.Spec.ContentType == "application/json"
			}},
		{"delay as a number", register(`"delay":420`), command("", "wc-delay=420"),
			func(c *trigger.Command) bool {
				return c.Spec.When.Delay == 7*time.Minute && c.Spec.When.DelayText == "420" && c.Spec.Channel == "default" && c.Spec.ContentType == ""
			}},
		{"delay of 0", register(`"delay":0`), command("", "wc-delay=0"),
			func(c *trigger.Command) bool { return c.Spec.When.Kind == trigger.WhenDelay && c.Spec.When.Delay == 0 }},
		{"instant", register(`"fire_at":"2027-01-15T09:00:00+01:00"`), command("", "wc-fire-at=2027-01-15T08:00:00Z"),
			func(c *trigger.Command) bool {
				return c.Spec.When.Kind == trigger.WhenInstant && c.Spec.When.FireAt == 1_800_000_000_000
			}},
		{"seconds and milliseconds", register(`"fire_at":1800000000`), command("", "wc-fire-at=1800000000000"),
			func(c *trigger.Command) bool { return c.Spec.When.FireAt == 1_800_000_000_000 }},
		{"local", register(`"fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin"`), command("", "wc-fire-at=2026-11-20T09:00:00", "wc-timezone=Europe/Berlin"),
			func(c *trigger.Command) bool {
				w := c.Spec.When
				return w.Kind == trigger.WhenLocal && w.Local == "2026-11-20T09:00:00" && w.Zone == "Europe/Berlin"
			}},
		{"recurrence", register(`"recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO","start":"2026-11-20T09:00","timezone":"America/New_York","until":"2027-11-20T09:00","count":7`),
			command("", "wc-recurrence=RRULE:FREQ=WEEKLY;BYDAY=MO", "wc-start=2026-11-20T09:00:00", "wc-timezone=America/New_York", "wc-until=2027-11-20T09:00:00", "wc-count=7"),
			func(c *trigger.Command) bool {
				w := c.Spec.When
				return w.Kind == trigger.WhenRecurrence && w.Start == "2026-11-20T09:00:00" && w.Until == "2027-11-20T09:00:00" && w.Count == 7
			}},
		{"fire_at is the start of a recurrence", register(`"recurrence":"every:15m","fire_at":1800000000`), command("", "wc-recurrence=every:15m", "wc-start=2027-01-15T08:00:00Z"),
			func(c *trigger.Command) bool {
				return c.Spec.When.Kind == trigger.WhenRecurrence && c.Spec.When.Start == "2027-01-15T08:00:00.000Z"
			}},
		{"policy", register(`"delay":"7m","priority":"low","jitter":"5s","expires_after":"1h","misfire":"skip","target_key":"t","user_id":"u"`),
			command("", "wc-delay=7m", "wc-priority=low", "wc-jitter=5", "wc-expires-after=PT1H", "wc-misfire=skip", "wc-target-key=t", "wc-user-id=u"),
			func(c *trigger.Command) bool {
				s := c.Spec
				return s.Priority == trigger.Low && s.Jitter == 5*time.Second && s.Expires == time.Hour && s.Misfire == trigger.SkipMissed && s.TargetKey == "t" && s.UserID == "u"
			}},
		{"defaults written out", register(`"delay":"7m","channel":"default","priority":"normal","misfire":"fire_once","dst":{"gap":"shift","overlap":"first"}`),
			command("", "wc-delay=7m"),
			func(c *trigger.Command) bool {
				return c.Spec.Priority == trigger.Normal && c.Spec.When.DST == trigger.DST{}
			}},
		{"callback", register(`"delay":"7m","callback":{"url":"https://a.example/x"}`), command("", "wc-delay=7m", "wc-callback-url=https://a.example/x"),
			func(c *trigger.Command) bool {
				return c.Spec.Channel == "webhook" && c.Spec.Callback.URL == "https://a.example/x" && c.Spec.Callback.Retry == nil
			}},
		{"user headers in another order", register(`"delay":"7m","headers":{"b":"2","a":"1"}`), command("", "a=1", "b=2", "wc-delay=7m"),
			func(c *trigger.Command) bool { return len(c.Spec.Headers) == 2 }},
		{"base64", register(`"delay":"7m","payload_base64":"AP8="`), command("\x00\xff", "wc-delay=7m"),
			func(c *trigger.Command) bool {
				return c.Spec.ContentType == "application/octet-stream" && string(c.Spec.Payload) == "\x00\xff"
			}},
		{"conditions", register(`"delay":"7m","if_revision":3,"idempotency_key":"i","correlation_id":"c"`),
			command("", "wc-delay=7m", "wc-if-revision=3", "wc-idempotency-key=i", "wc-correlation-id=c"),
			func(c *trigger.Command) bool {
				return c.IfRevision == 3 && c.IdempotencyKey == "i" && c.Spec.CorrelationID == "c"
			}},
		{"if_absent", register(`"delay":"7m","if_absent":true`), command("", "wc-delay=7m", "wc-if-absent=true"),
			func(c *trigger.Command) bool { return c.IfAbsent }},
		{"follow_user", register(`"fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin","user_id":"u","follow_user":true`),
			command("", "wc-fire-at=2026-11-20T09:00", "wc-timezone=Europe/Berlin", "wc-user-id=u", "wc-follow-user=true"),
			func(c *trigger.Command) bool { return c.Spec.FollowUser }},
		{"cancel", command(`{"op":"cancel","if_revision":3}`), command("cancel", "wc-op=cancel", "wc-if-revision=3"),
			func(c *trigger.Command) bool {
				return c.Op == trigger.OpCancel && c.IfRevision == 3 && c.Spec == nil && c.Hash == trigger.Hash{}
			}},
		{"reschedule", command(`{"op":"reschedule","delay":"7m"}`), command("", "wc-op=reschedule", "wc-delay=7m"),
			func(c *trigger.Command) bool {
				return c.Op == trigger.OpReschedule && c.Spec.When.Delay == 7*time.Minute && c.Hash == trigger.Hash{}
			}},
		{"snooze for", command(`{"op":"snooze","for":"10m"}`), command("", "wc-op=snooze", "wc-for=600"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpSnooze && c.For == 10*time.Minute }},
		{"snooze until", command(`{"op":"snooze","until":"2026-11-20T09:00"}`), command("", "wc-op=snooze", "wc-until=2026-11-20T09:00"),
			func(c *trigger.Command) bool { return c.UntilLocal == "2026-11-20T09:00:00" && c.Until == 0 }},
		{"skip", command(`{"op":"skip","occurrence":"2026-12-25"}`), command("", "wc-op=skip", "wc-occurrence=2026-12-25"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpSkip && c.Occurrence == "2026-12-25" }},
		{"skip the next", command(`{"op":"skip"}`), command("", "wc-op=skip"), func(c *trigger.Command) bool { return c.Occurrence == "" }},
		{"pause", command(`{"op":"pause","note":"on leave"}`), command("", "wc-op=pause", "wc-note=on leave"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpPause && c.Note == "on leave" }},
		{"resume", command(`{"op":"resume"}`), command("", "wc-op=resume"), func(c *trigger.Command) bool { return c.Op == trigger.OpResume }},
		{"run now", command(`{"op":"run_now","actor":"ops@x"}`), command("", "wc-op=run_now", "wc-actor=ops@x"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpRunNow && c.Actor == "ops@x" }},
		{"rezone", command(`{"op":"rezone","timezone":"Asia/Tokyo"}`), command("", "wc-op=rezone", "wc-timezone=Asia/Tokyo"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpRezone && c.Zone == "Asia/Tokyo" }},
		{"ack", command(`{"op":"ack","occurrence":"snz-3-17"}`), command("", "wc-op=ack", "wc-occurrence=snz-3-17"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpAck && c.Occurrence == "snz-3-17" }},
		{"erase", command(`{"op":"erase"}`), command("", "wc-op=erase"), func(c *trigger.Command) bool { return c.Op == trigger.OpErase }},
	} {
		t.Run(c.name, func(t *testing.T) {
			byJSON, err := DecodeCommand(c.json, Limits{}, nil)
			if err != nil {
				t.Fatal("json:", err)
			}
			byHeaders, err := DecodeCommand(c.headers, Limits{}, nil)
			if err != nil {
				t.Fatal("headers:", err)
			}
			for spelling, got := range map[string]*trigger.Command{"json": byJSON, "headers": byHeaders} {
				if !c.check(got) {
					t.Errorf("%s: %+v, spec %+v", spelling, got, got.Spec)
				}
			}
			if byJSON.Hash != byHeaders.Hash {
				t.Errorf("the spellings hash apart: %x, %x", byJSON.Hash, byHeaders.Hash)
			}
		})
	}
}

func TestTombstoneIsACancel(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  *Record
	}{
		{"null", tombstone()},
		{"null beside other headers", tombstone("traceparent=x", "ce_id=1", "wcx-topic-id=z")},
		{"null beside wc-op=cancel", tombstone("wc-op=cancel")},
		{"empty value and wc-op=cancel", command("", "wc-op=cancel")},
	} {
		got, err := DecodeCommand(c.rec, Limits{}, nil)
		if err != nil || got.Op != trigger.OpCancel || got.Key != "k" {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}

// JSON alone can say these.
func TestJSONParts(t *testing.T) {
	got, err := DecodeCommand(register(`"recurrence":"cron:0 9 * * 1-5","timezone":"Europe/Berlin","include":["2026-12-26"],"exclude":["2026-12-25","2026-12-24T09:00"],
		"dst":{"gap":"skip","overlap":"both"},"calendars":{"names":["de","us-holidays"],"on":"next_business_day"},
		"tags":{"type":"medication","a":"1"},"headers":{"x-a":"1","content-type":"text/plain","ce_id":"no","wcx-a":"no","traceparent":"00-a"},
		"callback":{"url":"https://a.example","timeout":"5s","retry":["10s",30,"500ms"]},"payload" : [1, 2 ]`), Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &trigger.Spec{
		When: trigger.When{Kind: trigger.WhenRecurrence, Recurrence: "cron:0 9 * * 1-5", Zone: "Europe/Berlin", Include: []string{"2026-12-26"},
			Exclude: []string{"2026-12-25", "2026-12-24T09:00"}, DST: trigger.DST{Gap: "skip", Overlap: "both"},
			Calendars: &trigger.Calendars{Names: []string{"de", "us-holidays"}, On: "next_business_day"}},
		Channel: "webhook", Payload: []byte("[1, 2 ]"), ContentType: "text/plain", Priority: trigger.Normal, TraceParent: "00-a",
		Headers: headers("x-a=1"), Tags: []trigger.Tag{{Key: "a", Value: "1"}, {Key: "type", Value: "medication"}},
		Callback: &trigger.Callback{URL: "https://a.example", Timeout: 5 * time.Second, Retry: []time.Duration{10 * time.Second, 30 * time.Second, 500 * time.Millisecond}},
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
	if err != nil || got.Spec.UserID != `ü"\` || got.Spec.When.Delay != 7*time.Minute || got.Spec.Tags[0] != (trigger.Tag{Key: "a", Value: "b"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Record headers travel to the due event in either spelling, but for ours and
// CloudEvents'; in the JSON spelling the field wins over the record's header.
func TestUserHeadersTravel(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  *Record
		want []trigger.Header
	}{
		{"headers", command("", "wc-delay=7m", "a=1", "ce_id=x", "wcx-origin=0/1", "WCX-a=1", "a=2", "Content-Type=text/plain"), headers("a=1", "a=2")},
		{"json", command(`{"op":"register","delay":"7m"}`, "a=1", "ce_id=x", "wcx-origin=0/1", "content-type=text/plain"), headers("a=1")},
		{"json, both", command(`{"op":"register","delay":"7m","headers":{"a":"1","content-type":"text/plain"}}`, "a=2", "b=3", "content-type=text/html"), headers("a=1", "b=3")},
	} {
		got, err := DecodeCommand(c.rec, Limits{}, nil)
		if err != nil || !reflect.DeepEqual(got.Spec.Headers, c.want) || got.Spec.ContentType != "text/plain" {
			t.Errorf("%s: got %+v, %v", c.name, got.Spec, err)
		}
	}
}

func TestRangesAtTheirEdges(t *testing.T) {
	year := 366 * 24 * time.Hour
	for _, c := range []struct {
		name string
		rec  *Record
	}{
		{"a year past", register(`"fire_at":"` + appended.Add(-year).String() + `"`)},
		{"a local year past", register(`"fire_at":"2025-09-21T15:00","timezone":"Europe/London"`)},
		{"100 years ahead", register(`"fire_at":"2126-09-21T14:13:20Z"`)},
		{"10 years of delay", register(`"delay":"3652d"`)},
		{"a rule of 512 bytes", register(`"recurrence":"` + strings.Repeat("x", 512) + `"`)},
		{"512 dates", register(`"recurrence":"FREQ=DAILY","exclude":["2026-12-25"` + strings.Repeat(`,"2026-12-25"`, 511) + `]`)},
		{"channel of 49 bytes", register(`"delay":"7m","channel":"` + strings.Repeat("x", 49) + `"`)},
		{"channel of one byte", register(`"delay":"7m","channel":"9"`)},
		{"payload of 4,096 bytes", register(`"delay":"7m","payload":"` + strings.Repeat("x", 4094) + `"`)},
		{"payload_base64 of 4,096 bytes", register(`"delay":"7m","payload_base64":"` + strings.Repeat("AAAA", 1365) + `AA=="`)},
		{"64 headers", command("", append(manyHeaders(64, "v"), "wc-delay=7m")...)},
		{"32 tags", register(`"delay":"7m","tags":{` + manyTags(32) + `}`)},
		{"a payload 128 deep", register(`"delay":"7m","payload":` + strings.Repeat("[", 127) + strings.Repeat("]", 127))},
		{"brackets in a text", register(`"delay":"7m","payload":"` + strings.Repeat(`[{\"`, 500) + `"`)},
	} {
		if _, err := DecodeCommand(c.rec, Limits{}, nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	if err := (Limits{Payload: MaxPayload}).Validate(); err != nil {
		t.Error(err)
	}
	err := Limits{Payload: MaxPayload + 1, Depth: -1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "limits.payload") || !strings.Contains(err.Error(), "limits.depth") {
		t.Errorf("got %v, want both named", err)
	}
}

func TestLargerLimits(t *testing.T) {
	rec := command(strings.Repeat("x", 10<<10), "wc-delay=7m")
	if _, err := DecodeCommand(rec, Limits{Payload: 10 << 10}, nil); err != nil {
		t.Error(err)
	}
}

func TestOriginOfForwarded(t *testing.T) {
	origin := (Forward{Partition: 9, Offset: 4711, Append: appended - 5000}).Origin()
	got, err := DecodeCommand(command(`{"op":"cancel"}`), Limits{}, origin)
	if err != nil || got.From != *origin || !got.From.Forwarded {
		t.Errorf("got %+v, %v", got, err)
	}
	direct, err := DecodeCommand(command(`{"op":"cancel"}`), Limits{}, nil)
	if want := (trigger.Origin{Partition: 3, Offset: 81, Append: appended}); err != nil || direct.From != want {
		t.Errorf("got %+v, %v, want %+v", direct, err, want)
	}
}

// What is content and what is not (CONTRACT "Duplicates").
func TestContentHash(t *testing.T) {
	hash := func(rec *Record) trigger.Hash {
		c, err := DecodeCommand(rec, Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Hash
	}
	base := hash(register(`"delay":"7m","payload":1`))
	for _, c := range []struct {
		name string
		rec  *Record
		same bool
	}{
		{"white space", register(` "payload" : 1 , "delay" : "7m"`), true},
		{"tracing, correlation and conditions", command(`{"op":"register","delay":"7m","payload":1,"correlation_id":"c","idempotency_key":"i","if_revision":3,"actor":"a"}`,
			"traceparent=00-a", "tracestate=b", "baggage=c", "ce_id=d", "wcx-origin=0/0"), true},
		{"the same delay in other words", register(`"delay":"420s","payload":1`), false},
		{"payload", register(`"delay":"7m","payload":2`), false},
		{"payload, spaced", register(`"delay":"7m","payload":{"a": 1}`), false},
		{"channel", register(`"delay":"7m","payload":1,"channel":"push"`), false},
		{"user header", command(`{"op":"register","delay":"7m","payload":1}`, "a=1"), false},
		{"tag", register(`"delay":"7m","payload":1,"tags":{"a":"1"}`), false},
		{"user", register(`"delay":"7m","payload":1,"user_id":"u"`), false},
	} {
		if got := hash(c.rec); (got == base) != c.same {
			t.Errorf("%s: hash %x, base %x, want the same: %v", c.name, got, base, c.same)
		}
	}
}

// No two specs that differ may be taken for one because of where their parts
// are cut.
func TestContentHashHasNoSeams(t *testing.T) {
	specs := map[string]*trigger.Spec{
		"tags a=bc":         {Tags: []trigger.Tag{{Key: "a", Value: "bc"}}},
		"tags ab=c":         {Tags: []trigger.Tag{{Key: "ab", Value: "c"}}},
		"include, exclude":  {When: trigger.When{Include: []string{"a"}, Exclude: []string{"b"}}},
		"include both":      {When: trigger.When{Include: []string{"a", "b"}}},
		"headers a=b":       {Headers: headers("a=b")},
		"tags a=b":          {Tags: []trigger.Tag{{Key: "a", Value: "b"}}},
		"user":              {UserID: "a"},
		"channel":           {Channel: "a"},
		"retry none":        {Callback: &trigger.Callback{URL: "u", Retry: []time.Duration{}}},
		"retry by profile":  {Callback: &trigger.Callback{URL: "u"}},
		"retry 1s":          {Callback: &trigger.Callback{URL: "u", Retry: []time.Duration{time.Second}}},
		"timeout 1s":        {Callback: &trigger.Callback{URL: "u", Timeout: time.Second}},
		"headers twice a b": {Headers: headers("a=1", "a=2")},
		"headers twice b a": {Headers: headers("a=2", "a=1")},
	}
	seen := map[trigger.Hash]string{}
	for name, s := range specs {
		h := contentHash(s)
		if other, ok := seen[h]; ok {
			t.Errorf("%s hashes as %s", name, other)
		}
		seen[h] = name
	}
}

func TestSuggestions(t *testing.T) {
	for _, c := range []struct{ given, suggested string }{
		{"dealy", "delay"}, {"fire-at", "fire_at"}, {"fireAt", "fire_at"}, {"chanel", "channel"}, {"rrule", "recurrence"},
		{"cron", "recurrence"}, {"callbackUrl", "callback"}, {"tz", "timezone"}, {"timeZone", "timezone"}, {"data", "payload"},
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
	recs := []*Record{register(`"delay":"7m","payload":{"a":"first"}`), register(`"delay":"8m","payload":{"b":"second payload"}`)}
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

func TestFieldTableIsWhole(t *testing.T) {
	for f, def := range fieldTable {
		if def.name == "" {
			t.Errorf("field %d has no name", f)
		}
		if (field(f) >= scalarCount) != (def.kind == kindPart) {
			t.Errorf("%s stands on the wrong side of scalarCount", def.name)
		}
		if !slices.ContainsFunc(fieldsOf[:], func(s fieldSet) bool { return s.has(field(f)) }) {
			t.Errorf("%s means nothing beside any op", def.name)
		}
	}
}
