package gateway

import (
	"net/http"
	"reflect"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/trigger"
)

// allRoutes is every route. Both the server and /openapi.json use this table.
func allRoutes(p *parts) []route {
	var all []route
	all = append(all, triggerRoutes(p)...)
	all = append(all, verbRoutes(p)...)
	all = append(all, viewRoutes(p)...)
	all = append(all, letterRoutes(p)...)
	all = append(all, rejectedRoutes(p)...)
	all = append(all, auditRoutes(p)...)
	all = append(all, watermarkRoutes(p)...)
	all = append(all, latenessRoutes(p)...)
	all = append(all, settingRoutes(p)...)
	all = append(all, forecastRoutes(p)...)
	all = append(all, liveRoutes(p)...)
	all = append(all, notificationRoutes(p)...)
	all = append(all, preferenceRoutes(p)...)
	all = append(all, erasureRoutes(p)...)
	all = append(all, reminderRoutes(p)...)
	all = append(all, providerRoutes(p)...)
	all = append(all, ackRoutes(p)...)
	all = append(all, unsubscribeRoutes(p)...)
	return append(all, ownRoutes(p)...)
}

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

func triggerRoutes(p *parts) []route {
	return []route{
		{
			method: http.MethodPost, pattern: "/v1/triggers", right: auth.Write, handle: p.writes.createTrigger,
			doc: operation{
				id: "createTrigger", summary: "Register a trigger", body: of[RegisterOrShort](),
				headers: []string{idempotencyKey, ifMatch, ifNoneMatch, prefer},
				answers: answers{
					200: of[RegisteredEither](), 201: of[RegisteredEither](),
					202: of[RegisteredEither](),
				},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/triggers", right: auth.Read, handle: p.views.listTriggers,
			costly: true,
			doc: operation{
				id:      "listTriggers",
				summary: "List triggers: by next due time where user_id is given, else by id or by next fire",
				query: append(listQuery("state"), parameter{
					name: "key_prefix", doc: "Whose id begins so", kind: of[string](),
				}, parameter{
					name: "sort", kind: of[string](), oneOf: []string{sortNextFire},
					doc: "By next fire; what does not fire again stands last. Without it by id",
				}, freshOr("without partitions that do not answer (silent_partitions)"), payloadParameter),
				answers: answers{200: of[Triggers]()},
			},
		},
		{
			method: http.MethodPost, pattern: "/v1/triggers:batch", right: auth.Write, handle: p.batches.postBatch,
			doc: operation{
				id: "batch",
				summary: "Apply up to 10,000 commands, one per line; answers one line each, in order; a refused line " +
					"is a problem",
				body: of[string](), bodyType: "application/x-ndjson", bodyOptional: true, headers: []string{prefer},
				answers: answers{200: of[string]()}, answerType: "application/x-ndjson",
			},
		},
		{
			method: http.MethodPut, pattern: "/v1/triggers/{id}", right: auth.Write, handle: p.writes.putTrigger,
			doc: operation{
				id: "putTrigger", summary: "Create or replace a trigger", body: of[Register](),
				headers: []string{idempotencyKey, ifMatch, ifNoneMatch, prefer},
				answers: answers{200: of[Registered](), 201: of[Registered](), 202: of[Registered]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/triggers/{id}", right: auth.Read, handle: p.views.getTrigger,
			doc: operation{
				id: "getTrigger", summary: "Read a trigger, as it is or as it was", headers: []string{ifNoneMatch},
				query: []parameter{{
					name: asOfParameter, kind: of[string](),
					doc: "An instant that is over (RFC 3339): what the trigger was then, from the history; without " +
						"payload, live and skipped. 410 before_history if the history does not reach that far",
				}, freshOr("with a 503 if its owner does not answer within a second"), payloadParameter},
				answers: answers{200: of[Trigger](), 304: nil},
			},
		},
		{
			method: http.MethodPatch, pattern: "/v1/triggers/{id}", right: auth.Act, handle: p.writes.patchTrigger,
			doc: operation{
				id: "patchTrigger", summary: "Change some fields (RFC 7396); without time fields the instant stays",
				body:     of[Patch](),
				bodyType: "application/merge-patch+json", headers: []string{ifMatch, prefer},
				answers: answers{200: of[Changed](), 202: of[Accepted]()},
			},
		},
		{
			method: http.MethodDelete, pattern: "/v1/triggers/{id}", right: auth.Act, handle: p.writes.deleteTrigger,
			doc: operation{
				id: "deleteTrigger", summary: "Cancel a trigger", query: []parameter{noteParameter},
				headers: []string{ifMatch, prefer},
				answers: answers{200: of[Changed](), 202: of[Accepted]()},
			},
		},
	}
}

func verbRoutes(p *parts) []route {
	verbs := []struct {
		name, summary string
		op            trigger.Op
		body          reflect.Type
	}{
		{"snooze", "Fire later: moves a one-shot, adds an occurrence to a series", trigger.OpSnooze, of[SnoozeBody]()},
		{"skip", "Leave out one occurrence of a series", trigger.OpSkip, of[SkipBody]()},
		{"pause", "Stop occurrences until :resume", trigger.OpPause, of[NoteBody]()},
		{"resume", "Go on; the misfire policy decides on what was missed", trigger.OpResume, of[NoteBody]()},
		{"run", "Fire once now, off schedule", trigger.OpRunNow, of[NoteBody]()},
		{"rezone", "Move a local-time trigger to another zone, wall times kept", trigger.OpRezone, of[RezoneBody]()},
		{
			"ack", "The user has reacted: what is in flight is neither retried nor escalated",
			trigger.OpAck, of[AckBody](),
		},
		{
			"erase",
			"Cancel it and forget its content; also of a finished trigger, or one that only the history has",
			trigger.OpErase, of[NoteBody](),
		},
	}
	var all []route
	for _, v := range verbs {
		right := auth.Act
		if v.op == trigger.OpErase { // what it takes away nobody can give back
			right = auth.Write
		}
		all = append(all, route{
			method: http.MethodPost, pattern: "/v1/triggers/{id}:" + v.name, right: right,
			handle: p.writes.verb(v.op), doc: operation{
				id: v.name + "Trigger", summary: v.summary, body: v.body, bodyOptional: v.name != "snooze" &&
					v.name != "rezone",
				headers: []string{ifMatch, prefer}, answers: answers{200: of[Changed](), 202: of[Accepted]()},
			},
		})
	}
	return all
}

func viewRoutes(p *parts) []route {
	return []route{
		{
			method: http.MethodPost, pattern: "/v1/triggers/{id}:reveal", right: auth.ReadPayloads,
			handle: p.reveals.postReveal, doc: operation{
				id: "revealTrigger", summary: "Read the payload of a trigger; topic audit has it first",
				body: of[NoteBody](), bodyOptional: true, answers: answers{200: of[Revealed]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/whoami", right: auth.Read, handle: p.identity.getWhoami,
			doc: operation{
				id: "whoami", summary: "Read who the caller is, and what its roles allow",
				answers: answers{200: of[Whoami]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/triggers/{id}/events", right: auth.Read, handle: p.streams.getEvents,
			costly: true,
			doc: operation{
				id: "getEvents",
				summary: "What happened to a trigger; with follow=1 as server-sent events, what happens from now " +
					"on too",
				query: []parameter{{
					name: "cursor", doc: "next_cursor of the page before; a stream begins after it",
					kind: of[string](),
				}, limitParameter, {
					name: "follow", doc: "1 streams", kind: of[string](),
					oneOf: flags,
				}, {
					name: "tail", doc: "So many of the newest events, the oldest of them first, without their " +
						"payloads; without cursor, limit and follow",
					kind: of[int](), least: 1, most: maxTail,
				}, payloadParameter},
				answers: answers{200: of[Events]()}, streams: true,
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/triggers/{id}/occurrences", right: auth.Read,
			handle: p.views.getOccurrences, costly: true, doc: operation{
				id: "getOccurrences", summary: "When it will fire",
				query: []parameter{
					{name: "n", doc: "How many", kind: of[int](), least: 1, most: maxOccurrences},
					freshOr("with a 503 if its owner does not answer within a second"),
				},
				answers: answers{200: of[Occurrences]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/triggers/{id}/explain", right: auth.Read,
			handle: p.explanations.getExplanation, costly: true, doc: operation{
				id:      "explainTrigger",
				summary: "Explain what became of a trigger, and why it did or did not fire",
				query: []parameter{{
					name: "occurrence", doc: "What became of this one, as events and ce_id name it", kind: of[string](),
				}, freshOr("without its newest events")},
				answers: answers{200: of[Explanation]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/search", right: auth.Read, handle: p.searches.search,
			costly: true, doc: operation{
				id: "search", summary: "Find a trigger, a user, an occurrence or a record by its name",
				query: []parameter{{
					name: "q", doc: "A trigger's key, a user_id, a ce_id, or topic/partition/offset of a command or " +
						"due event", kind: of[string](), required: true,
				}, freshOr("without partitions that do not answer (silent_partitions)")},
				answers: answers{200: of[FoundItems]()},
			},
		},
		{
			method: http.MethodPost, pattern: "/v1/preview", right: auth.Read, handle: p.previews.postPreview,
			costly: true,
			doc: operation{
				id: "preview", summary: "When a register would fire; nothing is registered", body: of[PreviewBody](),
				answers: answers{200: of[calendar.PreviewResponse]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/upcoming", right: auth.Read, handle: p.views.getUpcoming,
			costly: true,
			doc: operation{
				id: "getUpcoming", summary: "A forecast of load, recurrences included: getForecast in the shape of " +
					"before. Whole minutes within two hours are at most 60 s old, whole hours within 90 days 15 min",
				query: []parameter{
					{name: "bucket", doc: "A duration such as 1m", kind: of[string]()},
					{name: "n", doc: "How many buckets", kind: of[int](), least: 1, most: peer.MaxBuckets},
				},
				answers: answers{200: of[Upcoming]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/partitions", right: auth.Operate, handle: p.cluster.getPartitions,
			shared: true, doc: operation{
				id: "getPartitions", summary: "Who owns which partition, and its status",
				query:   []parameter{mayBeShared},
				answers: answers{200: of[Partitions]()},
			},
		},
		{
			method: http.MethodPost, pattern: "/v1/reconcile", right: auth.Operate, handle: p.cluster.postReconcile,
			doc: operation{
				id: "reconcile",
				summary: "Compare timers, states and rows of the history in every partition, and repair what " +
					"differs; answers a line for each partition",
				body: of[ReconcileBody](), bodyOptional: true,
				answers: answers{200: of[string]()}, answerType: "application/x-ndjson",
			},
		},
		{
			method: http.MethodGet, pattern: channelsPath, right: auth.Read, handle: p.channels.listChannels,
			costly: true, shared: true, doc: operation{
				id: "listChannels", summary: "List the channels", answers: answers{200: of[Channels]()},
			},
		},
		{
			method: http.MethodDelete, pattern: "/v1/channels/{name}", right: auth.Operate,
			handle: p.channels.deleteChannel, costly: true, doc: operation{
				id: "deleteChannel", summary: "Remove a channel that a command created and no trigger names, with " +
					"its topic; answers what it was",
				answers: answers{200: of[Channel]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/endpoints", right: auth.Operate, handle: p.endpoints.listEndpoints,
			costly: true, shared: true, doc: operation{
				id:      "listEndpoints",
				summary: "List the origins that webhooks call, with their breakers: the worst first",
				query:   []parameter{mayBeShared},
				answers: answers{200: of[Endpoints]()},
			},
		},
		{
			method: http.MethodPost, pattern: "/v1/endpoints:test", right: auth.Operate,
			handle: p.endpoints.testEndpoint, doc: operation{
				id: "testEndpoint", summary: "Test a callback: is it allowed, to which addresses does it resolve, " +
					"which certificate does it show, and with send what does it answer",
				body: of[EndpointTest](), answers: answers{200: of[egress.Report]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/tzdata", right: auth.Read, handle: p.tzdata.getTZData,
			costly: true, doc: operation{
				id:      "getTZData",
				summary: "Read which tz release plans triggers, which one comes next, and what it changes",
				answers: answers{200: of[TZData]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/calendars", right: auth.Read, handle: p.calendars.listCalendars,
			costly: true,
			doc: operation{
				id: "listCalendars", summary: "List the named calendars", answers: answers{200: of[Calendars]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/calendars/{name}", right: auth.Read, handle: p.calendars.getCalendar,
			costly: true,
			doc: operation{
				id: "getCalendar", summary: "Read a named calendar", answers: answers{200: of[NamedCalendar]()},
			},
		},
		{
			method: http.MethodPut, pattern: "/v1/calendars/{name}", right: auth.Write, handle: p.calendars.putCalendar,
			doc: operation{
				id: "putCalendar", summary: "Create or replace a named calendar", body: of[Calendar](),
				query:   []parameter{scopeParameter},
				answers: answers{200: of[NamedCalendar]()},
			},
		},
		{
			method: http.MethodDelete, pattern: "/v1/calendars/{name}", right: auth.Write,
			handle: p.calendars.deleteCalendar, costly: true, doc: operation{
				id: "deleteCalendar", summary: "Delete a named calendar that no trigger names; answers what it deletes",
				query:   []parameter{scopeParameter},
				answers: answers{200: of[NamedCalendar]()},
			},
		},
	}
}

func reminderRoutes(p *parts) []route {
	return []route{
		{
			method: http.MethodPost, pattern: "/api/reminders", right: auth.Write, handle: p.reminders.createReminder,
			doc: operation{
				id: "createReminder", summary: "Register a reminder", body: of[ReminderBody](),
				headers: []string{idempotencyKey, ifMatch, ifNoneMatch, prefer},
				answers: answers{200: of[ReminderAnswer](), 201: of[ReminderAnswer](), 202: of[ReminderAccepted]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/api/reminders", right: auth.Read, handle: p.reminders.listReminders,
			costly: true,
			doc: operation{
				id: "listReminders", summary: "List reminders", query: listQuery("status", "state"),
				answers: answers{200: of[Reminders]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/api/reminders/{id}", right: auth.Read, handle: p.reminders.getReminder,
			doc: operation{
				id: "getReminder", summary: "Read a reminder", answers: answers{200: of[Reminder]()},
			},
		},
		{
			method: http.MethodPatch, pattern: "/api/reminders/{id}", right: auth.Act,
			handle: p.reminders.patchReminder,
			doc: operation{
				id: "patchReminder", summary: "Change a reminder, or leave out one instance", body: of[ReminderPatch](),
				headers: []string{ifMatch, prefer},
				answers: answers{200: of[ReminderAnswer](), 202: of[ReminderAccepted]()},
			},
		},
		{
			method: http.MethodDelete, pattern: "/api/reminders/{id}", right: auth.Act,
			handle: p.reminders.deleteReminder,
			doc: operation{
				id: "deleteReminder", summary: "Cancel a reminder", query: []parameter{noteParameter},
				headers: []string{ifMatch, prefer},
				answers: answers{200: of[ReminderAnswer](), 202: of[ReminderAccepted]()},
			},
		},
		{
			method: http.MethodPost, pattern: "/api/reminders/{id}/snooze", right: auth.Act,
			handle: p.reminders.snoozeReminder, doc: operation{
				id: "snoozeReminder", summary: "Snooze a reminder", body: of[ReminderSnooze](),
				headers: []string{ifMatch, prefer},
				answers: answers{200: of[ReminderAnswer](), 202: of[ReminderAccepted]()},
			},
		},
	}
}

func ownRoutes(p *parts) []route {
	plain := func(id, summary, kind string) operation {
		return operation{id: id, summary: summary, answers: answers{200: of[string]()}, answerType: kind}
	}
	ready := plain("readyz", "Whether every partition of this process is restored and firing", "text/plain")
	ready.answers[503] = of[string]()
	return []route{
		{
			method: http.MethodGet, pattern: "/schemas/{name}", handle: p.documents.getSchema,
			doc: plain("getSchema", "A JSON Schema of the topics", "application/schema+json"),
		},
		{
			method: http.MethodGet, pattern: "/asyncapi.json", handle: p.documents.getAsyncAPI,
			doc: plain("asyncapi", "The topics and their records, as AsyncAPI 3", "application/json"),
		},
		{
			method: http.MethodGet, pattern: "/openapi.json", handle: p.documents.getOpenAPI,
			doc: plain("openapi", "This description", "application/json"),
		},
		{
			method: http.MethodGet, pattern: "/docs", handle: p.documents.getDocs,
			doc: plain("docs", "This description for people", "text/html"),
		},
		{
			method: http.MethodGet, pattern: "/healthz", handle: p.probes.getHealth,
			doc: plain("healthz", "Whether the process answers", "text/plain"),
		},
		{method: http.MethodGet, pattern: "/readyz", handle: p.probes.getReady, doc: ready},
		{
			method: http.MethodGet, pattern: "/metrics", handle: p.probes.getMetrics,
			doc: plain("metrics", "Metrics for Prometheus", "text/plain"),
		},
	}
}

var noteParameter = parameter{name: "note", doc: "Why, in at most 512 bytes: the event's detail", kind: of[string]()}

var limitParameter = parameter{name: "limit", doc: "Items of a page", kind: of[int](), least: 1, most: maxPage}

// freshOr is the parameter fresh of a read that may do without the read barrier. loss is what else is then
// missing.
func freshOr(loss string) parameter {
	return parameter{
		name: "fresh", kind: of[string](), oneOf: flags,
		doc: "false: without the read barrier, so sooner, but perhaps without what was acknowledged shortly before, " +
			"and " + loss,
	}
}

// payloadParameter is for pages that people look at: a payload is shown to them by :reveal, which is on record.
var payloadParameter = parameter{
	name: "payload", kind: of[string](), oneOf: flags,
	doc: "false: without payloads; payload_hidden says where there is one",
}

// mayBeShared is for pages that many people keep open.
var mayBeShared = parameter{
	name: "fresh", kind: of[string](), oneOf: flags,
	doc: "false: an answer that others of the tenant with the same roles have got may do, up to a second old",
}

func listQuery(states ...string) (list []parameter) {
	for _, name := range states {
		list = append(list, parameter{
			name: name,
			doc: "PENDING, PAUSED, IN_FLIGHT, FIRED, FAILED, CANCELLED or EXPIRED, in either case; several with " +
				"commas",
			kind: of[string](),
		})
	}
	for _, p := range [][2]string{
		{"user_id", "Of this user"},
		{"channel", "On this channel"},
		{"from", "Fires at or after this instant"},
		{"to", "Fires before this instant"},
		{"cursor", "next_cursor of the page before, with the same filters"},
	} {
		list = append(list, parameter{name: p[0], doc: p[1], kind: of[string]()})
	}
	return append(list, parameter{name: "tag", doc: "name:value; may be repeated", kind: of[[]string]()},
		limitParameter)
}
