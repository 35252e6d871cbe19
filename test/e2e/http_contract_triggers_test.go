package e2e

import (
	"strings"
)

// as is the header of a tenant's key.
func as(tenant string) []string {
	return []string{"Authorization", "Bearer " + contractTenants[tenant]}
}

const later = `"fire_at":"2060-01-01T09:00:00Z"`

// contractTriggers are the routes that register, change and cancel.
func contractTriggers(w *world) []contractRow {
	asOf := contractCall{
		name: "as of before it was", path: "/v1/triggers/p1?as_of=2020-01-01T00:00:00Z", status: 404,
		wants: []string{"code=not_found", "trigger_id=p1"},
	}
	if w.name == "serve" { // without Cassandra nobody keeps a history
		asOf.status, asOf.wants = 503, []string{"code=unavailable"}
	}
	refused := func(name, body, code, field string) contractCall {
		return contractCall{
			name: name, path: "/v1/triggers", body: body, status: 422,
			wants: []string{"code=" + code, "field=" + field},
		}
	}
	return []contractRow{
		{"POST /v1/triggers", []contractCall{
			{
				name: "new", path: "/v1/triggers", body: `{"id":"c1",` + later + `}`, status: 201,
				wants: []string{"trigger_id=c1", "revision=1", "fire_at=2060-01-01T09:00:00.000Z"},
			},
			{
				name: "again", path: "/v1/triggers", body: `{"id":"c1",` + later + `}`, status: 200,
				wants: []string{"trigger_id=c1", "revision=1", "fire_at=2060-01-01T09:00:00.000Z"},
			},
			{
				name: "other content", path: "/v1/triggers", body: `{"id":"c1",` + later + `,"payload":1}`, status: 200,
				wants: []string{"revision=2"},
			},
			{
				name: "what must not be there", path: "/v1/triggers", body: `{"id":"c1",` + later +
					`,"if_absent":true}`,
				status: 409, wants: []string{"code=conflict"},
			},
			{
				name: "at another revision", path: "/v1/triggers", body: `{"id":"c1",` + later + `,"if_revision":9}`,
				status: 409, wants: []string{"code=conflict"},
			},
			{
				name: "at another entity tag", path: "/v1/triggers", body: `{"id":"c1",` + later + `}`,
				headers: []string{"If-Match", `"9"`}, status: 412, wants: []string{"code=conflict"},
			},
			{
				name: "key", path: "/v1/triggers", body: `{` + later + `}`, headers: []string{"Idempotency-Key", "k"},
				status: 201,
			},
			{
				name: "key again", path: "/v1/triggers", body: `{` + later + `}`,
				headers: []string{"Idempotency-Key", "k"}, status: 200, wants: []string{"revision=1"},
			},
			{
				name: "key with other content", path: "/v1/triggers", body: `{"delay":"1h"}`,
				headers: []string{"Idempotency-Key", "k"}, status: 422, wants: []string{"code=idempotency_conflict"},
			},
			{
				name: "short form", path: "/v1/triggers",
				body: `{"callbackUrl":"http://127.0.0.1:1/hook","payload":{"a":1},"delaySeconds":3600}`, status: 201,
				wants: []string{"revision=1"},
			},
			{
				name: "short form and more", path: "/v1/triggers",
				body: `{"callbackUrl":"http://127.0.0.1:1/hook","delaySeconds":3600,"foo":1}`, status: 422,
				wants: []string{"code=unknown_field", "field=foo", "type=urn:waterclock:problem:unknown_field"},
			},
			{
				name: "forbidden callback", path: "/v1/triggers",
				body: `{"callbackUrl":"http://10.0.0.1:1/hook","delaySeconds":3600}`, status: 422,
				wants: []string{"code=forbidden_url", "field=callbackUrl"},
			},
			{
				name: "async", path: "/v1/triggers", body: `{"id":"c-async",` + later + `}`,
				headers: []string{"Prefer", "respond-async"}, status: 202,
				wants: []string{"trigger_id=c-async", "revision="},
			},
			{
				name: "no key", path: "/v1/triggers", body: `{` + later + `}`, headers: []string{"Authorization", ""},
				status: 401, wants: []string{"code=unauthenticated"},
			},
			{
				name: "a reader's key", path: "/v1/triggers", body: `{` + later + `}`, headers: as("reader"),
				status: 403,
				wants:  []string{"code=forbidden"},
			},
			{name: "within the rate", path: "/v1/triggers", body: `{` + later + `}`, headers: as("slow"), status: 201},
			{
				name: "over the rate", path: "/v1/triggers", body: `{` + later + `}`, headers: as("slow"), status: 429,
				wants: []string{"code=quota_exceeded"}, alone: true,
			},
			{name: "no JSON", path: "/v1/triggers", body: `{"delay":`, status: 400, wants: []string{"code=malformed"}},
			{name: "an array", path: "/v1/triggers", body: `[]`, status: 400, wants: []string{"code=malformed"}},
			{
				name: "a parameter of nobody", path: "/v1/triggers?x=1", body: `{` + later + `}`, status: 400,
				wants: []string{"code=unknown_field", "field=x"},
			},
			{name: "payload too large", path: "/v1/triggers", body: `{"delay":"1h","payload":"` +
				strings.Repeat("x", 5000) + `"}`, status: 413, wants: []string{"code=too_large", "field=payload"}},
			{
				name: "body too large", path: "/v1/triggers", body: `{"delay":"1h"` + strings.Repeat(" ", 300<<10) +
					`}`,
				status: 413, wants: []string{"code=too_large"},
			},
			refused("unknown field", `{"dealy":"1h"}`, "unknown_field", "dealy"),
			refused("a tag that is no string", `{"delay":"1h","tags":{"k":1}}`, "invalid", "tags"),
			refused("no time", `{}`, "conflicting_time", "fire_at"),
			refused("two times", `{"delay":"1h",`+later+`}`, "conflicting_time", "fire_at"),
			refused("zone", `{"fire_at":"2060-01-01T09:00","timezone":"Mars/Base"}`, "unknown_zone", "timezone"),
			refused("years", `{"delay":"1y"}`, "invalid", "delay"),
			refused("microseconds", `{"fire_at":1900000000000000}`, "invalid", "fire_at"),
			refused("past", `{"fire_at":"2001-01-01T00:00:00Z"}`, "in_the_past", "fire_at"),
			refused("far", `{"delay":"4000d"}`, "beyond_horizon", "delay"),
			refused("rule", `{"recurrence":"FREQ=FORTNIGHTLY"}`, "invalid_rule", "recurrence"),
			refused("disputed rule", `{"recurrence":"FREQ=YEARLY;BYMONTHDAY=1"}`, "disputed_rule", "recurrence"),
			refused("period", `{"recurrence":"every:10s"}`, "period_too_short", "recurrence"),
			refused("never", `{"recurrence":"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}`, "no_occurrences", "recurrence"),
			refused("escalation", `{"delay":"1h","escalation":[{"channel":"push","after":"1m"}]}`, "invalid", "escalation"),
			refused("channel", `{"delay":"1h","channel":"nowhere"}`, "unknown_channel", "channel"),
			{
				name: "another's channel", path: "/v1/triggers", body: `{"delay":"1h","channel":"orders"}`,
				headers: as("blue"), status: 422, wants: []string{"code=forbidden_channel", "field=channel"},
			},
		}},
		{"PUT /v1/triggers/{id}", []contractCall{
			{
				name: "new", path: "/v1/triggers/p1", body: `{` + later + `}`, headers: []string{"If-None-Match", "*"},
				status: 201, wants: []string{"trigger_id=p1", "revision=1"},
			},
			{
				name: "is there, the same", path: "/v1/triggers/p1", body: `{` + later + `}`,
				headers: []string{"If-None-Match", "*"}, status: 412,
				wants: []string{"code=conflict", "field=if_absent"},
			},
			{
				name: "once, by its key", path: "/v1/triggers/p-key", body: `{` + later + `}`,
				headers: []string{"If-None-Match", "*", "Idempotency-Key", "p"}, status: 201,
				wants: []string{"revision=1"},
			},
			{
				name: "the same request", path: "/v1/triggers/p-key", body: `{` + later + `}`,
				headers: []string{"If-None-Match", "*", "Idempotency-Key", "p"}, status: 200,
				wants: []string{"revision=1"},
			},
			{
				name: "is there", path: "/v1/triggers/p1", body: `{"delay":"8h"}`,
				headers: []string{"If-None-Match", "*"},
				status:  412, wants: []string{"code=conflict"},
			},
			{
				name: "replace", path: "/v1/triggers/p1", body: `{"delay":"9h","user_id":"u1"}`,
				headers: []string{"If-Match", `"1"`}, status: 200, wants: []string{"revision=2"},
			},
			{
				name: "old tag", path: "/v1/triggers/p1", body: `{"delay":"9h"}`, headers: []string{"If-Match", `"1"`},
				status: 412, wants: []string{"code=conflict"},
			},
			{
				name: "another id in the body", path: "/v1/triggers/p1", body: `{"id":"p2","delay":"9h"}`, status: 422,
				wants: []string{"code=invalid", "field=id"},
			},
			{
				name: "a control character", path: "/v1/triggers/p%01", body: `{"delay":"9h"}`, status: 422,
				wants: []string{"code=invalid_key"},
			},
			{name: "no key", path: "/v1/triggers/p1", body: `{}`, headers: []string{"Authorization", ""}, status: 401},
			{
				name: "a series", path: "/v1/triggers/s1",
				body: `{"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00","timezone":"Europe/Berlin"}`, status: 201,
				wants: []string{"fire_at=2060-01-01T08:00:00.000Z"},
			},
			{name: "fires at once", path: "/v1/triggers/f1", body: `{"delay":0}`, status: 201},
		}},
		{"GET /v1/triggers/{id}", []contractCall{
			{
				name: "read", path: "/v1/triggers/p1", status: 200,
				wants: []string{"trigger_id=p1", "tenant=acme", "state=PENDING", "revision=2", "user_id=u1"},
			},
			{name: "known", path: "/v1/triggers/p1", headers: []string{"If-None-Match", `"2"`}, status: 304},
			{name: "a reader's", path: "/v1/triggers/p1", headers: as("reader"), status: 200},
			{
				name: "another tenant's", path: "/v1/triggers/p1", headers: as("blue"), status: 404,
				wants: []string{"code=not_found"},
			},
			{
				name: "nobody", path: "/v1/triggers/nobody", status: 404,
				wants: []string{"code=not_found", "trigger_id=nobody"},
			},
			{
				name: "registered without waiting", path: "/v1/triggers/c-async", status: 200,
				wants: []string{"state=PENDING"},
			},
			{name: "a verb", path: "/v1/triggers/p1:pause", status: 405, wants: []string{"code=method_not_allowed"}},
			{
				name: "as of garbage", path: "/v1/triggers/p1?as_of=yesterday", status: 400,
				wants: []string{"code=invalid", "field=as_of"},
			},
			{
				name: "as of the future", path: "/v1/triggers/p1?as_of=2100-01-01T00:00:00Z", status: 400,
				wants: []string{"code=invalid", "field=as_of"},
			},
			asOf,
		}},
		{"PATCH /v1/triggers/{id}", []contractCall{
			{
				name: "payload", path: "/v1/triggers/p1", body: `{"payload":{"a":1}}`,
				headers: []string{"If-Match", `"2"`}, status: 200, wants: []string{"revision=3", "state=PENDING"},
			},
			{
				name: "old tag", path: "/v1/triggers/p1", body: `{"payload":{"a":2}}`,
				headers: []string{"If-Match", `"2"`}, status: 412, wants: []string{"code=conflict"},
			},
			{
				name: "time", path: "/v1/triggers/p1", body: `{"fire_at":"2060-02-01T00:00:00Z"}`, status: 200,
				wants: []string{"fire_at=2060-02-01T00:00:00.000Z"},
			},
			{
				name: "unknown field", path: "/v1/triggers/p1", body: `{"dealy":1}`, status: 422,
				wants: []string{"code=unknown_field", "field=dealy"},
			},
			{
				name: "id", path: "/v1/triggers/p1", body: `{"id":"x"}`, status: 422,
				wants: []string{"code=invalid", "field=id"},
			},
			{name: "nobody", path: "/v1/triggers/nobody", body: `{"payload":1}`, status: 404},
			{name: "no JSON", path: "/v1/triggers/p1", body: `{`, status: 400},
		}},
		{"POST /v1/triggers/{id}:snooze", []contractCall{
			{
				name: "for", path: "/v1/triggers/p1:snooze", body: `{"for":"2h"}`, status: 200,
				wants: []string{"state=PENDING"},
			},
			{
				name: "until", path: "/v1/triggers/p1:snooze", body: `{"until":"2061-01-01T00:00:00Z"}`, status: 200,
				wants: []string{"next_fire_at=2061-01-01T00:00:00.000Z"},
			},
			{
				name: "neither", path: "/v1/triggers/p1:snooze", body: `{}`, status: 422,
				wants: []string{"code=conflicting_time"},
			},
			{
				name: "nobody", path: "/v1/triggers/nobody:snooze", body: `{"for":"1m"}`, status: 404,
				wants: []string{"code=not_found"},
			},
			{
				name: "a verb that is none", path: "/v1/triggers/p1:fly", body: `{}`, status: 404,
				wants: []string{"code=not_found"},
			},
		}},
		{"POST /v1/triggers/{id}:skip", []contractCall{
			{
				name: "a date", path: "/v1/triggers/s1:skip", body: `{"occurrence":"2060-01-01"}`, status: 200,
				wants: []string{"fire_at=2060-01-02T08:00:00.000Z"},
			},
			{
				name: "no date", path: "/v1/triggers/s1:skip", body: `{"occurrence":"x"}`, status: 422,
				wants: []string{"code=invalid", "field=occurrence"},
			},
			{
				name: "a date without one", path: "/v1/triggers/s1:skip", body: `{"occurrence":"2059-01-01"}`,
				status: 404,
				wants:  []string{"code=not_found", "field=occurrence"},
			},
			{name: "a one-shot", path: "/v1/triggers/p1:skip", status: 422, wants: []string{"code=invalid"}},
			{name: "nobody", path: "/v1/triggers/nobody:skip", status: 404},
		}},
		{"POST /v1/triggers/{id}:pause", []contractCall{
			{
				name: "pause", path: "/v1/triggers/s1:pause", body: `{"note":"closed"}`, status: 200,
				wants: []string{"state=PAUSED"},
			},
			{name: "old tag", path: "/v1/triggers/s1:pause", headers: []string{"If-Match", `"1"`}, status: 412},
			{name: "nobody", path: "/v1/triggers/nobody:pause", status: 404},
			{name: "a reader's key", path: "/v1/triggers/s1:pause", headers: as("reader"), status: 403},
		}},
		{"POST /v1/triggers/{id}:run", []contractCall{
			{name: "run", path: "/v1/triggers/s1:run", status: 200, wants: []string{"state=PAUSED"}},
			{name: "nobody", path: "/v1/triggers/nobody:run", status: 404},
		}},
		{"POST /v1/triggers/{id}:resume", []contractCall{
			{name: "resume", path: "/v1/triggers/s1:resume", status: 200, wants: []string{"state=PENDING"}},
			{name: "nobody", path: "/v1/triggers/nobody:resume", status: 404},
		}},
		{"POST /v1/triggers/{id}:rezone", []contractCall{
			{
				name: "rezone", path: "/v1/triggers/s1:rezone", body: `{"timezone":"America/New_York"}`, status: 200,
				wants: []string{"fire_at=2060-01-02T14:00:00.000Z"},
			},
			{
				name: "zone", path: "/v1/triggers/s1:rezone", body: `{"timezone":"Mars/Base"}`, status: 422,
				wants: []string{"code=unknown_zone", "field=timezone"},
			},
			{
				name: "no zone", path: "/v1/triggers/s1:rezone", body: `{}`, status: 422,
				wants: []string{"field=timezone"},
			},
			{name: "nobody", path: "/v1/triggers/nobody:rezone", body: `{"timezone":"Asia/Tokyo"}`, status: 404},
		}},
		{"POST /v1/triggers/{id}:ack", []contractCall{
			{name: "ack", path: "/v1/triggers/s1:ack", status: 200, wants: []string{"state=PENDING"}},
			{name: "nobody", path: "/v1/triggers/nobody:ack", status: 404},
			{name: "a reader's key", path: "/v1/triggers/s1:ack", headers: as("reader"), status: 403},
		}},
		{"POST /v1/triggers/{id}:reveal", []contractCall{
			{
				name: "reveal", path: "/v1/triggers/s1:reveal", body: `{"note":"to see"}`, status: 200,
				wants: []string{"trigger_id=s1"},
			},
			{name: "nobody", path: "/v1/triggers/nobody:reveal", status: 404},
			{name: "a field that it has not", path: "/v1/triggers/s1:reveal", body: `{"for":"1m"}`, status: 422},
		}},
		{"POST /v1/triggers/{id}:erase", []contractCall{
			{
				name: "what nobody knows", path: "/v1/triggers/erased-1:erase", status: 200,
				wants: []string{"state=ERASED"},
			},
			{name: "a reader's key", path: "/v1/triggers/s1:erase", headers: as("reader"), status: 403},
		}},
		{"POST /v1/triggers:batch", []contractCall{
			{
				name: "lines", path: "/v1/triggers:batch", status: 200,
				body: `{"id":"b1","delay":"1h"}` + "\n" + `{"op":"fly","id":"b1"}` + "\n" +
					`{"op":"cancel","id":"b1"}` + "\n" + `{"op":"cancel","id":"nobody"}` + "\nno JSON",
			},
			{name: "a tenant at its limit", path: "/v1/triggers:batch", body: `{"delay":"1h"}` + "\n" +
				strings.Repeat(`{"delay":"1h"}`+"\n", 20), headers: as("slow"), status: 200},
			{name: "a reader's key", path: "/v1/triggers:batch", headers: as("reader"), status: 403},
		}},
		{"DELETE /v1/triggers/{id}", []contractCall{
			{name: "old tag", path: "/v1/triggers/s1", headers: []string{"If-Match", `"1"`}, status: 412},
			{name: "cancel", path: "/v1/triggers/s1", status: 200, wants: []string{"state=CANCELLED"}},
			{name: "again", path: "/v1/triggers/s1", status: 200, wants: []string{"state=CANCELLED"}},
			{
				name: "too late", path: "/v1/triggers/f1", status: 409,
				wants: []string{"code=already_fired", "state=FIRED"},
			},
			{name: "nobody", path: "/v1/triggers/nobody", status: 404, wants: []string{"code=not_found"}},
		}},
	}
}
