package e2e

// contractViews are the routes that show, and the reminders.
func contractViews(w *world) []contractRow {
	letters := map[string]int{"dev": 200, "serve": 503}[w.name]
	kept := letters // preferences: serve has no PostgreSQL here
	erased, none := map[string]int{"dev": 202, "serve": 503}[w.name], map[string]int{"dev": 404, "serve": 503}[w.name]
	events := contractCall{name: "events", path: "/v1/triggers/p1/events", status: 200}
	if w.name == "serve" { // without Cassandra nobody keeps a history
		events = contractCall{
			name: "no history", path: "/v1/triggers/p1/events", status: 503,
			wants: []string{"code=unavailable"},
		}
	}
	get := func(path string, more ...contractCall) contractRow {
		return contractRow{"GET " + path, append([]contractCall{{name: "read", path: path, status: 200}}, more...)}
	}
	return []contractRow{
		get("/v1/triggers", contractCall{
			name: "a user's", path: "/v1/triggers?user_id=u1&state=PENDING&limit=1",
			status: 200,
		},
			contractCall{name: "limit", path: "/v1/triggers?limit=0", status: 400, wants: []string{"field=limit"}},
			contractCall{name: "cursor", path: "/v1/triggers?cursor=abc", status: 400, wants: []string{"field=cursor"}},
			contractCall{name: "state", path: "/v1/triggers?state=ASLEEP", status: 400, wants: []string{"field=state"}},
			contractCall{name: "tag", path: "/v1/triggers?tag=x", status: 400, wants: []string{"field=tag"}},
			contractCall{name: "from", path: "/v1/triggers?from=soon", status: 400, wants: []string{"field=from"}},
			contractCall{name: "unknown", path: "/v1/triggers?usr_id=a", status: 400, wants: []string{"field=usr_id"}}),
		{"GET /v1/triggers/{id}/events", []contractCall{
			events,
			{
				name: "another tenant's", path: "/v1/triggers/p1/events", headers: as("blue"),
				status: map[string]int{"dev": 404, "serve": 503}[w.name],
			},
			{
				name: "follow what nobody spoke of", path: "/v1/triggers/unheard-of/events?follow=1", status: 404,
				wants: []string{"code=not_found"},
			},
			{
				name: "follow another tenant's", path: "/v1/triggers/p1/events?follow=1", headers: as("blue"),
				status: 404,
			},
			{
				name: "a tail with a limit", path: "/v1/triggers/p1/events?tail=1&limit=1", status: 400,
				wants: []string{"code=invalid", "field=limit"},
			},
			{
				name: "neither followed nor not", path: "/v1/triggers/p1/events?follow=2", status: 400,
				wants: []string{"code=invalid", "field=follow"},
			},
		}},
		{"GET /v1/triggers/{id}/occurrences", []contractCall{
			{name: "read", path: "/v1/triggers/p1/occurrences?n=3", status: 200},
			{name: "n", path: "/v1/triggers/p1/occurrences?n=1001", status: 400, wants: []string{"field=n"}},
			{name: "nobody", path: "/v1/triggers/nobody/occurrences", status: 404},
		}},
		{"GET /v1/triggers/{id}/explain", []contractCall{
			{name: "read", path: "/v1/triggers/p1/explain", status: 200},
			{name: "nobody", path: "/v1/triggers/nobody-ever/explain", status: 200, wants: []string{"code=unknown"}},
			{
				name: "another tenant's", path: "/v1/triggers/p1/explain", headers: as("blue"), status: 200,
				wants: []string{"code=unknown"},
			},
			{
				name: "a parameter", path: "/v1/triggers/p1/explain?deep=1", status: 400,
				wants: []string{"code=unknown_field", "field=deep"},
			},
			{name: "without the read barrier", path: "/v1/triggers/p1/explain?fresh=false", status: 200},
		}},
		{"GET /v1/search", []contractCall{
			{name: "a key", path: "/v1/search?q=p1", status: 200},
			{name: "a key without the read barrier", path: "/v1/search?q=p1&fresh=false", status: 200},
			{name: "nothing", path: "/v1/search", status: 400, wants: []string{"code=invalid", "field=q"}},
		}},
		{"POST /v1/preview", []contractCall{
			{
				name: "a gap", path: "/v1/preview",
				body:   `{"fire_at":"2026-03-08T02:30","timezone":"America/New_York"}`,
				status: 200,
			},
			{
				name: "disputed", path: "/v1/preview", body: `{"recurrence":"FREQ=YEARLY;BYMONTHDAY=1"}`, status: 422,
				wants: []string{"code=disputed_rule"},
			},
			{name: "no JSON", path: "/v1/preview", body: `{`, status: 400},
		}},
		get("/v1/upcoming", contractCall{
			name: "bucket", path: "/v1/upcoming?bucket=1y", status: 400,
			wants: []string{"field=bucket"},
		}),
		get("/v1/partitions", contractCall{
			name: "a writer's key", path: "/v1/partitions", headers: as("blue"),
			status: 403,
		}),
		{"POST /v1/reconcile", []contractCall{
			{name: "a dry run", path: "/v1/reconcile", body: `{"dry_run":true}`, status: 200},
			{
				name: "no such field", path: "/v1/reconcile", body: `{"dry":true}`, status: 422,
				wants: []string{"code=unknown_field", "field=dry"},
			},
			{name: "a writer's key", path: "/v1/reconcile", headers: as("blue"), status: 403},
		}},
		{"PUT /v1/calendars/{name}", []contractCall{
			{
				name: "put", path: "/v1/calendars/holidays", body: `{"dates":["2026-12-25"]}`, status: 200,
				wants: []string{"name=holidays"},
			},
			{
				name: "a date that is none", path: "/v1/calendars/holidays", body: `{"dates":["2026-13-25"]}`,
				status: 422,
				wants:  []string{"code=invalid", "field=dates"},
			},
			{
				name: "a writer's key", path: "/v1/calendars/holidays?scope=cluster", body: `{"dates":[]}`, headers: as("blue"),
				status: 403,
			},
		}},
		get("/v1/calendars", contractCall{name: "all of them", path: "/v1/calendars", status: 200}),
		{"GET /v1/calendars/{name}", []contractCall{
			{name: "read", path: "/v1/calendars/holidays", status: 200, wants: []string{"name=holidays"}},
			{name: "none", path: "/v1/calendars/none", status: 404, wants: []string{"code=not_found"}},
		}},
		{"DELETE /v1/calendars/{name}", []contractCall{
			{name: "none", path: "/v1/calendars/none", status: 404, wants: []string{"code=not_found"}},
			{name: "a writer's key", path: "/v1/calendars/holidays?scope=cluster", headers: as("blue"), status: 403},
			{
				name: "deleted", path: "/v1/calendars/holidays", status: 200, wants: []string{"name=holidays"},
			},
			{
				name: "no longer there", path: "/v1/calendars/holidays", status: 404,
				wants: []string{"code=not_found"},
			},
		}},
		{"GET /v1/preferences/{user}", []contractCall{
			{name: "unknown", path: "/v1/preferences/u1", status: kept},
			{name: "a reader's", path: "/v1/preferences/u1", headers: as("reader"), status: kept},
			{name: "no user", path: "/v1/preferences/%00", status: 422, wants: []string{"field=user_id"}},
		}},
		{"PUT /v1/preferences/{user}", []contractCall{
			{
				name: "put", path: "/v1/preferences/u1", body: `{"timezone":"Asia/Tokyo","opted_out_channels":["SMS"]}`,
				status: kept,
			},
			{name: "replace", path: "/v1/preferences/u1", body: `{}`, headers: as("blue"), status: kept},
			{
				name: "no zone", path: "/v1/preferences/u1", body: `{"timezone":"Mars/Phobos"}`, status: 422,
				wants: []string{"code=unknown_zone", "field=timezone"},
			},
			{
				name: "unknown field", path: "/v1/preferences/u1", body: `{"quiet":1}`, status: 422,
				wants: []string{"code=unknown_field", "field=quiet"},
			},
			{name: "no JSON", path: "/v1/preferences/u1", body: `{`, status: 400},
			{
				name: "a reader's", path: "/v1/preferences/u1", body: `{}`, headers: as("reader"), status: 403,
				wants: []string{"code=forbidden"},
			},
		}},
		{"GET /v1/users/{user}/notifications", []contractCall{
			{name: "none", path: "/v1/users/u1/notifications?content=1&limit=2", status: letters},
			{name: "a reader's", path: "/v1/users/u1/notifications", headers: as("reader"), status: letters},
			{
				name: "no limit", path: "/v1/users/u1/notifications?limit=0", status: 400,
				wants: []string{"field=limit"},
			},
			{name: "no user", path: "/v1/users/%00/notifications", status: 422, wants: []string{"field=user_id"}},
			{
				name: "another list's cursor", path: "/v1/users/u1/notifications?cursor=x", status: 400,
				wants: []string{"field=cursor"},
			},
		}},
		{"GET /v1/notifications/{notification}", []contractCall{
			{
				name: "unknown", path: "/v1/notifications/p1@2026-01-01T09:00:00",
				status: none,
			},
		}},
		{"DELETE /v1/users/{user}", []contractCall{
			{name: "erased", path: "/v1/users/leaver", status: erased},
			{name: "repeated", path: "/v1/users/leaver", headers: as("blue"), status: erased},
			{name: "no user", path: "/v1/users/%00", status: 422, wants: []string{"field=user_id"}},
			{
				name: "a reader's", path: "/v1/users/leaver", headers: as("reader"), status: 403,
				wants: []string{"code=forbidden"},
			},
		}},
		{"GET /v1/users/{user}/erasure", []contractCall{
			{name: "how far it is", path: "/v1/users/leaver/erasure", status: kept},
			{name: "nobody's", path: "/v1/users/nobody/erasure", status: none},
			{name: "no user", path: "/v1/users/%00/erasure", status: 422, wants: []string{"field=user_id"}},
		}},
		{"GET /v1/endpoints", []contractCall{
			{name: "list", path: "/v1/endpoints", status: 200},
			{name: "a writer's key", path: "/v1/endpoints", headers: as("blue"), status: 403},
		}},
		{"GET /v1/dead-letters", []contractCall{
			{name: "list", path: "/v1/dead-letters?limit=10", status: letters},
			{name: "count", path: "/v1/dead-letters?group_by=code&status=all", status: letters},
			{name: "a reader's", path: "/v1/dead-letters", headers: as("reader"), status: letters},
			{
				name: "another tenant's", path: "/v1/dead-letters?tenant=acme", headers: as("blue"), status: 403,
				wants: []string{"code=forbidden", "field=tenant"},
			},
			{name: "from", path: "/v1/dead-letters?from=soon", status: 400, wants: []string{"field=from"}},
			{
				name: "endpoint", path: "/v1/dead-letters?endpoint=example.com", status: 400,
				wants: []string{"field=endpoint"},
			},
			{name: "group_by", path: "/v1/dead-letters?group_by=x", status: 400, wants: []string{"field=group_by"}},
			{name: "unknown", path: "/v1/dead-letters?cod=x", status: 400, wants: []string{"field=cod"}},
		}},
		{"POST /v1/dead-letters:redrive", []contractCall{
			{
				name: "dry run", path: "/v1/dead-letters:redrive", body: `{"code":"x","dry_run":true}`, status: letters,
				wants: map[int][]string{200: {"done=true", "redriven=0", "dry_run=true"}}[letters],
			},
			{
				name: "nothing dead", path: "/v1/dead-letters:redrive", body: `{"trigger_id":"p1"}`, status: 404,
				wants: []string{"code=not_found", "trigger_id=p1"},
			},
			{
				name: "which", path: "/v1/dead-letters:redrive", body: `{}`, status: 422,
				wants: []string{"code=invalid", "field=all"},
			},
			{
				name: "no origin", path: "/v1/dead-letters:redrive", body: `{"endpoint":"example.com"}`, status: 422,
				wants: []string{"code=invalid", "field=endpoint"},
			},
			{
				name: "unknown field", path: "/v1/dead-letters:redrive", body: `{"al":true}`, status: 422,
				wants: []string{"code=unknown_field", "field=al"},
			},
			{
				name: "another tenant's", path: "/v1/dead-letters:redrive", body: `{"tenant":"acme"}`,
				headers: as("blue"), status: 403, wants: []string{"code=forbidden"},
			},
			{
				name: "a reader's key", path: "/v1/dead-letters:redrive", body: `{"all":true}`, headers: as("reader"),
				status: 403,
			},
		}},
		{"GET /v1/channels", []contractCall{
			{name: "list", path: "/v1/channels", status: 200},
			{name: "a reader's key", path: "/v1/channels", headers: as("reader"), status: 200},
		}},
		{"GET /v1/watermark", []contractCall{
			{name: "of all", path: "/v1/watermark", status: 200},
			{name: "a reader's key", path: "/v1/watermark?channel=webhook", headers: as("reader"), status: 200},
			{
				name: "an unknown channel", path: "/v1/watermark?channel=nowhere", status: 404,
				wants: []string{"code=not_found", "field=channel"},
			},
			{name: "a parameter", path: "/v1/watermark?x=1", status: 400, wants: []string{"code=unknown_field"}},
		}},
		{"GET /v1/lateness", []contractCall{
			{
				name: "a reader's key", path: "/v1/lateness?window=1m", headers: as("reader"), status: 200,
				wants: []string{"window=1m"},
			},
			{name: "no such window", path: "/v1/lateness?window=1d", status: 400, wants: []string{"field=window"}},
		}},
		{"GET /v1/live", []contractCall{
			{name: "a reader's key", path: "/v1/live?n=1", headers: as("reader"), status: 200},
			{name: "too many states", path: "/v1/live?n=86401", status: 400, wants: []string{"field=n"}},
			{
				name: "an id of nothing", path: "/v1/live?n=1", headers: []string{"Last-Event-ID", "x"}, status: 400,
				wants: []string{"field=Last-Event-ID"},
			},
		}},
		{"GET /v1/forecast", []contractCall{
			{name: "a reader's key", path: "/v1/forecast?bucket=1h&n=3&by=channel", headers: as("reader"), status: 200},
			{name: "too many minutes", path: "/v1/forecast?bucket=1m&n=121", status: 400, wants: []string{"field=n"}},
			{name: "by user", path: "/v1/forecast?by=user", status: 400, wants: []string{"field=by"}},
		}},
		{"GET /v1/rejected", []contractCall{
			{name: "a reader's key", path: "/v1/rejected?code=not_found", headers: as("reader"), status: 200},
			{name: "another tenant's", path: "/v1/rejected?tenant=blue", headers: as("reader"), status: 403},
			{name: "an empty code", path: "/v1/rejected?code=", status: 400, wants: []string{"field=code"}},
		}},
		{"GET /v1/audit", []contractCall{
			{name: "registers", path: "/v1/audit?verb=register&limit=1", status: 200},
			{
				name: "a reader's key", path: "/v1/audit", headers: as("reader"), status: 403,
				wants: []string{"code=forbidden"},
			},
			{name: "an empty actor", path: "/v1/audit?actor=", status: 400, wants: []string{"field=actor"}},
		}},
		{"GET /v1/tzdata", []contractCall{
			{
				name: "a reader's key", path: "/v1/tzdata", headers: as("reader"), status: 200,
				wants: []string{"same=true"},
			},
			{name: "a parameter", path: "/v1/tzdata?x=1", status: 400, wants: []string{"code=unknown_field"}},
		}},
		{"GET /v1/whoami", []contractCall{
			{
				name: "a reader's key", path: "/v1/whoami", headers: as("reader"), status: 200,
				wants: []string{"tenant=acme"},
			},
			{name: "a parameter", path: "/v1/whoami?x=1", status: 400, wants: []string{"code=unknown_field"}},
		}},
		{"POST /v1/endpoints:test", []contractCall{
			{
				name: "forbidden", path: "/v1/endpoints:test", body: `{"url":"https://169.254.169.254/"}`, status: 200,
				wants: []string{"allowed=false", "code=forbidden_url"},
			},
			{
				name: "nobody is there", path: "/v1/endpoints:test", body: `{"url":"http://127.0.0.1:1/","send":true}`,
				status: 200, wants: []string{"allowed=true", "listed=true", "origin=http://127.0.0.1:1", "code="},
			},
			{
				name: "without a URL", path: "/v1/endpoints:test", body: `{}`, status: 422,
				wants: []string{"code=invalid", "field=url"},
			},
			{
				name: "a writer's key", path: "/v1/endpoints:test", body: `{"url":"https://a.example"}`,
				headers: as("blue"), status: 403,
			},
		}},
		{"GET /v1/settings", []contractCall{
			{name: "list", path: "/v1/settings", status: 200},
			{name: "a writer's key", path: "/v1/settings", headers: as("blue"), status: 403},
		}},
		{"DELETE /v1/channels/{name}", []contractCall{
			{name: "none", path: "/v1/channels/none", status: 404, wants: []string{"code=not_found"}},
			{name: "built in", path: "/v1/channels/sms", status: 409, wants: []string{"code=conflict"}},
			{name: "a writer's key", path: "/v1/channels/sms", headers: as("blue"), status: 403},
		}},
		{"POST /api/reminders", []contractCall{
			{
				name: "new", path: "/api/reminders",
				body: `{"id":"r1","title":"Pills","fire_at":"2060-01-01T09:00","timezone":"Europe/Berlin","user_id":"ru"}`, status: 201, wants: []string{"reminder_id=r1", "trigger_id=r1", "fire_at_utc=2060-01-01T08:00:00.000Z", "state=PENDING", "revision=1"},
			},
			{
				name: "async", path: "/api/reminders", body: `{"id":"r-async","title":"Later",` + later + `}`,
				headers: []string{"Prefer", "respond-async"}, status: 202,
				wants: []string{"reminder_id=r-async", "state=", "revision="},
			},
			{
				name: "a title beside a payload that is a text", path: "/api/reminders",
				body: `{"title":"a","payload":"b",` + later + `}`, status: 422, wants: []string{"field=payload"},
			},
			{
				name: "a series", path: "/api/reminders",
				body: `{"id":"r2","title":"Daily","recurrence":"FREQ=DAILY","start":"2060-12-24T09:00"}`, status: 201,
			},
		}},
		{"GET /api/reminders/{id}", []contractCall{
			{name: "read", path: "/api/reminders/r1", status: 200, wants: []string{"title=Pills", "reminder_id=r1"}},
			{name: "nobody", path: "/api/reminders/nobody", status: 404},
		}},
		get("/api/reminders", contractCall{
			name: "pending", path: "/api/reminders?status=pending&user_id=ru",
			status: 200,
		},
			contractCall{
				name: "status", path: "/api/reminders?status=asleep", status: 400,
				wants: []string{"field=status"},
			}),
		{"POST /api/reminders/{id}/snooze", []contractCall{
			{
				name: "minutes", path: "/api/reminders/r1/snooze", body: `{"minutes":10}`, status: 200,
				wants: []string{"reminder_id=r1", "state=PENDING"},
			},
			{
				name: "minutes that are none", path: "/api/reminders/r1/snooze", body: `{"minutes":"x"}`, status: 422,
				wants: []string{"field=minutes"},
			},
			{name: "nobody", path: "/api/reminders/nobody/snooze", body: `{"for":"1m"}`, status: 404},
		}},
		{"PATCH /api/reminders/{id}", []contractCall{
			{name: "skip", path: "/api/reminders/r2", body: `{"skip":"2060-12-25"}`, status: 200},
			{
				name: "skip nothing", path: "/api/reminders/r2", body: `{"skip":null}`, status: 200,
				wants: []string{"revision=2"},
			},
			{
				name: "skip beside others", path: "/api/reminders/r2", body: `{"skip":"2060-12-25","title":"x"}`,
				status: 422,
			},
			{name: "title", path: "/api/reminders/r2", body: `{"title":"Every day"}`, status: 200},
		}},
		{"DELETE /api/reminders/{id}", []contractCall{
			{name: "cancel", path: "/api/reminders/r1", status: 200, wants: []string{"state=CANCELLED"}},
			{name: "nobody", path: "/api/reminders/nobody", status: 404},
		}},
		{"GET /a/{token}", []contractCall{{name: "no secret", path: "/a/x", status: 404}}},
		{"GET /u/{token}", []contractCall{{name: "no secret", path: "/u/x", status: 404}}},
		{"POST /u/{token}", []contractCall{{name: "no secret", path: "/u/x", status: 404}}},
		{"POST /a/{token}", []contractCall{{name: "no secret", path: "/a/x", status: 404}}},
		{"POST /v1/providers/twilio/status", []contractCall{
			{name: "no account", path: "/v1/providers/twilio/status", body: "MessageStatus=sent", status: 404},
		}},
		{"GET /schemas/{name}", []contractCall{
			{name: "read", path: "/schemas/command.schema.json", status: 200},
			{name: "by its short name", path: "/schemas/command", status: 200},
			{name: "none", path: "/schemas/none", status: 404},
		}},
		get("/openapi.json"), get("/asyncapi.json"), get("/docs"),
		adminOnly("/healthz"), adminOnly("/readyz"), adminOnly("/metrics"),
	}
}

// adminOnly is what beside auth is on admin.listen.
func adminOnly(path string) contractRow {
	return contractRow{"GET " + path, []contractCall{{name: "beside auth on admin.listen", path: path, status: 404}}}
}
