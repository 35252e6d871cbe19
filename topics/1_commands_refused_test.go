package topics

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

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
		{
			"deep payload", register(`"delay":"7m","payload":` + strings.Repeat("[", 200) + strings.Repeat("]", 200)),
			trigger.CodeInvalid, "payload",
		},
		{"very deep", register(`"payload":` + strings.Repeat("[", 100_000)), trigger.CodeInvalid, "payload"},
		{"null beside wc-delay", tombstone("wc-delay=7m"), trigger.CodeAmbiguousTombstone, ""},
		{
			"null beside cancel and more", tombstone("wc-op=cancel", "wc-if-revision=3"),
			trigger.CodeAmbiguousTombstone,
			"",
		},
		{"null beside another op", tombstone("wc-op=pause"), trigger.CodeAmbiguousTombstone, ""},
		{"null beside an unknown wc- header", tombstone("wc-x=1"), trigger.CodeAmbiguousTombstone, ""},

		// Names.
		{"unknown op", command(`{"op":"regster"}`), trigger.CodeUnknownOp, "op"},
		{"unknown op beside an unknown field", command(`{"id":"x","op":"regster"}`), trigger.CodeUnknownOp, "op"},
		{
			"an object of 4 MiB and more", command(`{"op":"register"` + strings.Repeat(" ", 4<<20) + `}`),
			trigger.CodeTooLarge, "",
		},
		{"empty op", command(`{"op":""}`), trigger.CodeUnknownOp, "op"},
		{"op of the wrong type", command(`{"op":7}`), trigger.CodeInvalid, "op"},
		{"unknown op by header", command("", "wc-op=regster"), trigger.CodeUnknownOp, "op"},
		{"unknown field", register(`"dealy":"7m"`), trigger.CodeUnknownField, "dealy"},
		{
			"unknown field of callback", register(`"delay":"7m","callback":{"uri":"https://a.example"}`),
			trigger.CodeUnknownField, "callback.uri",
		},
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
		{
			"reschedule with payload", command(`{"op":"reschedule","delay":"7m","payload":1}`), trigger.CodeInvalid,
			"payload",
		},

		// JSON types.
		{"number for text", register(`"delay":"7m","channel":7`), trigger.CodeInvalid, "channel"},
		{"bool for a time", register(`"delay":true`), trigger.CodeInvalid, "delay"},
		{"object for a time", register(`"delay":{"m":7}`), trigger.CodeInvalid, "delay"},
		{"text for bool", register(`"delay":"7m","if_absent":"true"`), trigger.CodeInvalid, "if_absent"},
		{"text for a number", register(`"delay":"7m","if_revision":"3"`), trigger.CodeInvalid, "if_revision"},
		{
			"text for a list", register(`"recurrence":"every:15m","exclude":"2026-12-25"`), trigger.CodeInvalid,
			"exclude",
		},
		{"number in a list", register(`"recurrence":"every:15m","exclude":[20261225]`), trigger.CodeInvalid, "exclude"},
		{"list for an object", register(`"delay":"7m","tags":["a"]`), trigger.CodeInvalid, "tags"},
		{"number in tags", register(`"delay":"7m","tags":{"a":1}`), trigger.CodeInvalid, "tags"},
		{"text for callback", register(`"delay":"7m","callback":"https://a.example"`), trigger.CodeInvalid, "callback"},
		{"fraction for a whole number", register(`"delay":"7m","if_revision":1.5`), trigger.CodeInvalid, "if_revision"},

		// Time fields.
		{"no time", register(`"channel":"push"`), trigger.CodeConflictingTime, "fire_at"},
		{"delay and fire_at", register(`"delay":"7m","fire_at":1800000000`), trigger.CodeConflictingTime, "fire_at"},
		{
			"delay and recurrence", register(`"delay":"7m","recurrence":"every:15m"`), trigger.CodeConflictingTime,
			"recurrence",
		},
		{
			"delay and include", register(`"delay":"7m","include":["2026-12-25"]`), trigger.CodeConflictingTime,
			"recurrence",
		},
		{
			"fire_at and start beside recurrence",
			register(`"fire_at":1800000000,"start":1800000000,"recurrence":"every:15m"`), trigger.CodeConflictingTime,
			"start",
		},
		{
			"fire_at and include", register(`"fire_at":1800000000,"include":["2026-12-25"]`),
			trigger.CodeConflictingTime, "fire_at",
		},
		{
			"reschedule with fire_at and include",
			command(`{"op":"reschedule","fire_at":1800000000,"include":["2026-12-25"]}`), trigger.CodeConflictingTime,
			"fire_at",
		},
		{"empty include alone", register(`"include":[]`), trigger.CodeConflictingTime, "include"},
		{
			"delay and fire_at by header", command("", "wc-delay=7m", "wc-fire-at=1800000000"),
			trigger.CodeConflictingTime, "fire_at",
		},
		{
			"reschedule without a time", command(`{"op":"reschedule","timezone":"Europe/Berlin"}`),
			trigger.CodeConflictingTime, "fire_at",
		},
		{"empty delay", register(`"delay":""`), trigger.CodeInvalid, "delay"},
		{"delay in months", register(`"delay":"P1M"`), trigger.CodeInvalid, "delay"},
		{"delay in years", register(`"delay":"1y"`), trigger.CodeInvalid, "delay"},
		{"negative delay", register(`"delay":"-5m"`), trigger.CodeInvalid, "delay"},
		{"negative delay as a number", register(`"delay":-5`), trigger.CodeInvalid, "delay"},
		{"delay of 11 years", register(`"delay":"4018d"`), trigger.CodeBeyondHorizon, "delay"},
		{"fire_at of 9 digits", register(`"fire_at":180000000`), trigger.CodeInvalid, "fire_at"},
		{"fire_at of 12 digits", register(`"fire_at":180000000000`), trigger.CodeInvalid, "fire_at"},
		{"fire_at as a fraction", register(`"fire_at":1800000000.5`), trigger.CodeInvalid, "fire_at"},
		{
			"fire_at as a date", register(`"fire_at":"2026-12-25","timezone":"Europe/Berlin"`), trigger.CodeInvalid,
			"fire_at",
		},
		{"fire_at as words", register(`"fire_at":"tomorrow"`), trigger.CodeInvalid, "fire_at"},
		{"local fire_at without a zone", register(`"fire_at":"2026-11-20T09:00"`), trigger.CodeInvalid, "timezone"},
		{"fire_at two years past", register(`"fire_at":"2024-09-21T14:13:20Z"`), trigger.CodeInThePast, "fire_at"},
		{"fire_at at the epoch", register(`"fire_at":"1970-01-01T00:00:00Z"`), trigger.CodeInThePast, "fire_at"},
		{"fire_at in the year 1", register(`"fire_at":"0001-01-01T00:00:00Z"`), trigger.CodeInThePast, "fire_at"},
		{
			"local fire_at two years past", register(`"fire_at":"2024-09-21T14:13","timezone":"Asia/Tokyo"`),
			trigger.CodeInThePast, "fire_at",
		},
		{"fire_at in 101 years", register(`"fire_at":"2127-09-21T14:13:20Z"`), trigger.CodeBeyondHorizon, "fire_at"},
		{
			"fire_at in the year 9999", register(`"fire_at":"9999-12-31T23:59:59Z"`), trigger.CodeBeyondHorizon,
			"fire_at",
		},
		{
			"local fire_at in 101 years", register(`"fire_at":"2127-09-21T14:13","timezone":"Asia/Tokyo"`),
			trigger.CodeBeyondHorizon, "fire_at",
		},
		{"empty timezone", register(`"fire_at":"2026-11-20T09:00","timezone":""`), trigger.CodeUnknownZone, "timezone"},
		{
			"offset for a timezone", register(`"fire_at":"2026-11-20T09:00","timezone":"+02:00"`),
			trigger.CodeUnknownZone,
			"timezone",
		},
		{"empty rule", register(`"recurrence":""`), trigger.CodeInvalidRule, "recurrence"},
		{
			"rule of two lines", register(`"recurrence":"FREQ=DAILY\nEXDATE:20261225"`), trigger.CodeInvalidRule,
			"recurrence",
		},
		{
			"rule of 513 bytes", register(`"recurrence":"` + strings.Repeat("x", 513) + `"`), trigger.CodeInvalidRule,
			"recurrence",
		},
		{
			"until without recurrence", register(`"delay":"7m","until":"2027-01-01T00:00:00Z"`), trigger.CodeInvalid,
			"until",
		},
		{
			"start without recurrence", register(`"delay":"7m","start":"2027-01-01T00:00:00Z"`), trigger.CodeInvalid,
			"start",
		},
		{"count without recurrence", register(`"delay":"7m","count":3`), trigger.CodeInvalid, "count"},
		{
			"exclude without recurrence", register(`"delay":"7m","exclude":["2026-12-25"]`), trigger.CodeInvalid,
			"exclude",
		},
		{"until as a date", register(`"recurrence":"FREQ=DAILY","until":"2026-12-25"`), trigger.CodeInvalid, "until"},
		{"start as words", register(`"recurrence":"FREQ=DAILY","start":"now"`), trigger.CodeInvalid, "start"},
		{"count of 0", register(`"recurrence":"FREQ=DAILY","count":0`), trigger.CodeInvalid, "count"},
		{"count of 100,001", register(`"recurrence":"FREQ=DAILY","count":100001`), trigger.CodeInvalid, "count"},
		{
			"exclude of words", register(`"recurrence":"FREQ=DAILY","exclude":["christmas"]`), trigger.CodeInvalid,
			"exclude",
		},
		{"513 dates", register(`"recurrence":"FREQ=DAILY","exclude":["2026-12-25"` +
			strings.Repeat(`,"2026-12-25"`, 512) + `]`), trigger.CodeInvalidRule, "exclude"},
		{
			"513 dates more", register(`"include":["2026-12-25"` + strings.Repeat(`,"2026-12-25"`, 512) + `]`),
			trigger.CodeInvalidRule, "include",
		},
		{"a number beyond all", register(`"delay":1e999`), trigger.CodeInvalid, "delay"},
		{"a number of 300 zeros", register(`"delay":1e300`), trigger.CodeInvalid, "delay"},
		{"a number next to nothing", register(`"delay":1e-300`), trigger.CodeInvalid, "delay"},
		{
			"a number with a long exponent", register(`"delay":1e` + strings.Repeat("9", 10_000)), trigger.CodeInvalid,
			"delay",
		},
		{"a negative number", register(`"delay":-1e3`), trigger.CodeInvalid, "delay"},
		{"a tenth of a millisecond", register(`"delay":1e-4`), trigger.CodeInvalid, "delay"},
		{"part of a revision", register(`"delay":"7m","if_revision":15e-1`), trigger.CodeInvalid, "if_revision"},
		{"a number as a header", command("", "wc-delay=1e3"), trigger.CodeInvalid, "delay"},
		{"dst gap", register(`"delay":"7m","dst":{"gap":"stretch"}`), trigger.CodeInvalid, "dst"},
		{"dst overlap", register(`"delay":"7m","dst":{"overlap":"third"}`), trigger.CodeInvalid, "dst"},
		{
			"calendars without names", register(`"recurrence":"FREQ=DAILY","calendars":{"on":"skip"}`),
			trigger.CodeInvalid, "calendars",
		},
		{
			"calendars with a bad name", register(`"recurrence":"FREQ=DAILY","calendars":{"names":["US Holidays"]}`),
			trigger.CodeInvalid, "calendars",
		},
		{
			"calendars on", register(`"recurrence":"FREQ=DAILY","calendars":{"names":["us"],"on":"cry"}`),
			trigger.CodeInvalid, "calendars",
		},
		{
			"calendars beside delay", register(`"delay":"7m","calendars":{"names":["us"]}`), trigger.CodeInvalid,
			"calendars",
		},
		{
			"calendars beside an instant", register(`"fire_at":1800000000,"calendars":{"names":["us"]}`),
			trigger.CodeInvalid, "calendars",
		},

		// Whom and what.
		{"channel in upper case", register(`"delay":"7m","channel":"Push"`), trigger.CodeInvalid, "channel"},
		{
			"channel of 50 bytes", register(`"delay":"7m","channel":"` + strings.Repeat("x", 50) + `"`),
			trigger.CodeInvalid, "channel",
		},
		{"empty channel", register(`"delay":"7m","channel":""`), trigger.CodeInvalid, "channel"},
		{
			"channel that is another's lane", register(`"delay":"7m","channel":"sms.high"`), trigger.CodeInvalid,
			"channel",
		},
		{
			"channel that is another's lane, by header", command("", "wc-delay=7m", "wc-channel=.high"),
			trigger.CodeInvalid, "channel",
		},
		{"channel with a leading dot", register(`"delay":"7m","channel":".x"`), trigger.CodeInvalid, "channel"},
		{"empty user_id", register(`"delay":"7m","user_id":""`), trigger.CodeInvalid, "user_id"},
		{"long user_id", register(`"delay":"7m","user_id":"` + long + `"`), trigger.CodeInvalid, "user_id"},
		{"user_id with a newline", register(`"delay":"7m","user_id":"a\nb"`), trigger.CodeInvalid, "user_id"},
		{"long target_key", register(`"delay":"7m","target_key":"` + long + `"`), trigger.CodeInvalid, "target_key"},
		{
			"payload of 4,097 bytes", register(`"delay":"7m","payload":"` + strings.Repeat("x", 4095) + `"`),
			trigger.CodeTooLarge, "payload",
		},
		{
			"payload of 4,097 bytes by header", command(strings.Repeat("x", 4097), "wc-delay=7m"), trigger.CodeTooLarge,
			"payload",
		},
		{"payload_base64 of 4,098 bytes", register(`"delay":"7m","payload_base64":"` + strings.Repeat("AAAA", 1366) +
			`"`), trigger.CodeTooLarge, "payload"},
		{
			"payload twice", register(`"delay":"7m","payload":1,"payload_base64":"AAAA"`), trigger.CodeInvalid,
			"payload_base64",
		},
		{
			"payload_base64 garbled", register(`"delay":"7m","payload_base64":"A"`), trigger.CodeInvalid,
			"payload_base64",
		},
		{"65 headers", command("", append(manyHeaders(65, "v"), "wc-delay=7m")...), trigger.CodeTooLarge, "headers"},
		{
			"over 16 KiB of headers", command("", append(manyHeaders(17, strings.Repeat("v", 1024)), "wc-delay=7m")...),
			trigger.CodeTooLarge, "headers",
		},
		{"wc- in headers", register(`"delay":"7m","headers":{"wc-op":"cancel"}`), trigger.CodeInvalid, "headers"},
		{
			"a header twice in headers", register(`"delay":"7m","headers":{"a":"1","a":"2"}`), trigger.CodeInvalid,
			"headers",
		},
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
		{
			"follow_user without a zone", register(`"recurrence":"FREQ=DAILY","user_id":"u","follow_user":true`),
			trigger.CodeInvalid, "timezone",
		},
		{
			"follow_user beside a delay",
			register(`"delay":"7m","timezone":"Europe/Berlin","user_id":"u","follow_user":true`), trigger.CodeInvalid,
			"follow_user",
		},
		{
			"follow_user without a user",
			register(`"fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin","follow_user":true`), trigger.CodeInvalid,
			"user_id",
		},
		{"escalation of nothing", register(`"delay":"7m","escalation":[]`), trigger.CodeInvalid, "escalation"},
		{"escalation as an object", register(`"delay":"7m","escalation":{}`), trigger.CodeInvalid, "escalation"},
		{
			"escalation of 9 steps",
			register(`"delay":"7m","escalation":[{"channel":"a"}` + strings.Repeat(`,{"channel":"a","after":"1m"}`, 8) + `]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"escalation from another channel",
			register(`"delay":"7m","channel":"sms","escalation":[{"channel":"push"}]`), trigger.CodeInvalid, "escalation",
		},
		{
			"first step with after", register(`"delay":"7m","escalation":[{"channel":"push","after":"1m"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"second step without after", register(`"delay":"7m","escalation":[{"channel":"push"},{"channel":"sms"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"step too soon",
			register(`"delay":"7m","escalation":[{"channel":"push"},{"channel":"sms","after":"999ms"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"step too late", register(`"delay":"7m","escalation":[{"channel":"push"},{"channel":"sms","after":"8d"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"step after what is no duration",
			register(`"delay":"7m","escalation":[{"channel":"push"},{"channel":"sms","after":"soon"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"step without channel", register(`"delay":"7m","escalation":[{"channel":"push"},{"after":"1m"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"step on no channel", register(`"delay":"7m","escalation":[{"channel":"push"},{"after":"1m","channel":"a b"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{
			"step with another field",
			register(`"delay":"7m","escalation":[{"channel":"push"},{"afer":"1m","channel":"sms"}]`),
			trigger.CodeUnknownField, "escalation",
		},
		{
			"step with a channel twice", register(`"delay":"7m","escalation":[{"channel":"push","channel":"push"}]`),
			trigger.CodeInvalid, "escalation",
		},
		{"step that is text", register(`"delay":"7m","escalation":["push"]`), trigger.CodeInvalid, "escalation"},
		{
			"webhook as a step without callback",
			register(`"delay":"7m","escalation":[{"channel":"push"},{"after":"1m","channel":"webhook"}]`),
			trigger.CodeInvalid, "callback",
		},
		{"if_revision of 0", register(`"delay":"7m","if_revision":0`), trigger.CodeInvalid, "if_revision"},
		{
			"if_revision and if_absent", register(`"delay":"7m","if_revision":3,"if_absent":true`), trigger.CodeInvalid,
			"if_absent",
		},
		{"if_absent by header", command("", "wc-delay=7m", "wc-if-absent=yes"), trigger.CodeInvalid, "if_absent"},
		{
			"empty idempotency_key", register(`"delay":"7m","idempotency_key":""`), trigger.CodeInvalid,
			"idempotency_key",
		},
		{
			"a verb's correlation_id", command(`{"op":"skip","correlation_id":"a\u0018b"}`), trigger.CodeInvalid,
			"correlation_id",
		},
		{
			"long correlation_id", register(`"delay":"7m","correlation_id":"` + long + `"`), trigger.CodeInvalid,
			"correlation_id",
		},

		// Callback.
		{"webhook without callback", register(`"delay":"7m","channel":"webhook"`), trigger.CodeInvalid, "callback"},
		{
			"callback beside another channel",
			register(`"delay":"7m","channel":"push","callback":{"url":"https://a.example"}`), trigger.CodeInvalid,
			"callback",
		},
		{"callback without url", register(`"delay":"7m","callback":{"timeout":"5s"}`), trigger.CodeInvalid, "callback"},
		{
			"callback with user info", register(`"delay":"7m","callback":{"url":"https://u:p@a.example/x"}`),
			trigger.CodeForbiddenURL, "callback",
		},
		{
			"callback with user info by header", command("", "wc-delay=7m", "wc-callback-url=https://u@a.example/x"),
			trigger.CodeForbiddenURL, "callback",
		},
		{
			"callback by file", register(`"delay":"7m","callback":{"url":"file:///etc/passwd"}`),
			trigger.CodeForbiddenURL,
			"callback",
		},
		{
			"callback without host", register(`"delay":"7m","callback":{"url":"https:///x"}`), trigger.CodeInvalid,
			"callback",
		},
		{
			"callback not a URL", register(`"delay":"7m","callback":{"url":"http://[::1"}`), trigger.CodeInvalid,
			"callback",
		},
		{
			"callback timeout of 0", register(`"delay":"7m","callback":{"url":"https://a.example","timeout":0}`),
			trigger.CodeInvalid, "callback",
		},
		{
			"callback timeout of 2m", register(`"delay":"7m","callback":{"url":"https://a.example","timeout":"2m"}`),
			trigger.CodeInvalid, "callback",
		},
		{
			"callback retry of words", register(`"delay":"7m","callback":{"url":"https://a.example","retry":["soon"]}`),
			trigger.CodeInvalid, "callback",
		},
		{
			"callback retry of 31 days",
			register(`"delay":"7m","callback":{"url":"https://a.example","retry":["31d"]}`),
			trigger.CodeInvalid, "callback",
		},
		{"33 retries", register(`"delay":"7m","callback":{"url":"https://a.example","retry":[1` +
			strings.Repeat(",1", 32) + `]}`), trigger.CodeInvalid, "callback"},

		// Headers of the user's own.
		{"a line break in a header", command("", "wc-delay=7m", "a=1\r\nx: y"), trigger.CodeInvalid, "headers"},
		{"a null in a header", command("", "wc-delay=7m", "a=\x00"), trigger.CodeInvalid, "headers"},
		{"a delete in a header", command("", "wc-delay=7m", "a=\x7f"), trigger.CodeInvalid, "headers"},
		{"a line break in a header's name", command("", "wc-delay=7m", "a\nb=1"), trigger.CodeInvalid, "headers"},
		{"a C1 control in a header's name", command("", "wc-delay=7m", "a\u0085=1"), trigger.CodeInvalid, "headers"},
		{"a line break in headers{}", register(`"delay":"7m","headers":{"a":"1\r\nx: y"}`), trigger.CodeInvalid, "headers"},
		{"a line break in a name of headers{}", register(`"delay":"7m","headers":{"a\n":"1"}`), trigger.CodeInvalid, "headers"},

		// Other ops.
		{"snooze without a time", command(`{"op":"snooze"}`), trigger.CodeConflictingTime, "for"},
		{
			"snooze with two", command(`{"op":"snooze","for":"5m","until":1800000000}`), trigger.CodeConflictingTime,
			"for",
		},
		{"snooze for words", command(`{"op":"snooze","for":"a bit"}`), trigger.CodeInvalid, "for"},
		{"snooze for 11 years", command(`{"op":"snooze","for":"4018d"}`), trigger.CodeBeyondHorizon, "for"},
		{
			"snooze until long ago", command(`{"op":"snooze","until":"2020-01-01T00:00:00Z"}`), trigger.CodeInThePast,
			"until",
		},
		{
			"snooze until far ahead", command(`{"op":"snooze","until":"2200-01-01T00:00:00Z"}`),
			trigger.CodeBeyondHorizon,
			"until",
		},
		{"rezone without a zone", command(`{"op":"rezone"}`), trigger.CodeInvalid, "timezone"},
		{"rezone to an offset", command(`{"op":"rezone","timezone":"+02:00"}`), trigger.CodeUnknownZone, "timezone"},
		{"skip of nothing", command(`{"op":"skip","occurrence":""}`), trigger.CodeInvalid, "occurrence"},
		{
			"long note", command(`{"op":"pause","note":"` + strings.Repeat("x", 513) + `"}`), trigger.CodeInvalid,
			"note",
		},
		{"redrive without due_id", command(`{"op":"redrive"}`), trigger.CodeInvalid, "due_id"},
		{
			"redrive of an endless name",
			command(`{"op":"redrive","due_id":"k@` + strings.Repeat("x", 129) + `#0","attempt":2,"scheduled_at":1800000000}`),
			trigger.CodeInvalid, "due_id",
		},
		{
			"redrive of another trigger",
			command(`{"op":"redrive","due_id":"other@2026-11-20T14:00:00.000Z#0","attempt":2,"scheduled_at":1800000000}`),
			trigger.CodeInvalid, "due_id",
		},
		{
			"redrive without scheduled_at",
			command(`{"op":"redrive","due_id":"k@2026-11-20T14:00:00.000Z#0","attempt":2}`),
			trigger.CodeInvalid, "scheduled_at",
		},
		{
			"redrive without attempt",
			command(`{"op":"redrive","due_id":"k@2026-11-20T14:00:00.000Z#0","scheduled_at":1800000000}`),
			trigger.CodeInvalid, "attempt",
		},
		{
			"redrive of an attempt after which workers cannot count on",
			command(`{"op":"redrive","due_id":"k@2026-11-20T14:00:00.000Z#0","attempt":16777200,"scheduled_at":1800000000}`),
			trigger.CodeInvalid, "attempt",
		},
		{
			"redrive at a wall time",
			command(`{"op":"redrive","due_id":"k@2026-11-20T14:00:00.000Z#0","attempt":2,"scheduled_at":"2026-11-20T14:00"}`),
			trigger.CodeInvalid, "scheduled_at",
		},
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
