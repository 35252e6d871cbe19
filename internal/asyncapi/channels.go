package asyncapi

import "github.com/waterclock/waterclock/topics"

// channel is a topic as the document has it.
type channel struct {
	id, address, title string
	action, summary    string // what Waterclock does with it
	messages           []message
}

// message is one kind of record. payload and headers name schemas; a message
// without a payload has one of any bytes.
type message struct {
	name, title, summary string
	contentType          string // "" means any, or JSON where there is a schema
	payload              string
	headers              []string
	key                  string
	binary               bool // bytes that no JSON example can show
}

// Keys of the schemas of record keys.
const (
	keyOfTrigger  = "triggerKey"
	keyOfTarget   = "targetKey"
	keyOfSetting  = "settingKey"
	keyOfEndpoint = "endpointKey"
	keyOfNumber   = "partitionKey"
	keyOfTenant   = "tenantKey"
)

func channels(n topics.Names) []channel {
	dead := []string{"due-headers", "dead-letter-headers"}
	due := []message{{
		name: "dueEvent", title: "Due event",
		summary: "A CloudEvent 1.0 in Kafka binary mode; the value is the payload as registered. Deduplicate by ce_id",
		headers: []string{"due-headers"}, key: keyOfTarget,
	}}
	return []channel{
		{"commands", n.Commands(), "Commands", "receive", "Applies commands, or rejects them", []message{
			{
				name: "command", title: "Command, JSON form", summary: "An object with op, and no wc- header",
				payload: "command", key: keyOfTrigger,
			},
			{
				name: "commandInHeaders", title: "Command, header form",
				summary: "Fields are wc- headers; the value is the payload, any bytes, passed through",
				headers: []string{"command-headers"}, key: keyOfTrigger,
			},
			{
				name: "cancel", title: "Cancel", summary: "A null value without wc- headers", payload: "null",
				key: keyOfTrigger,
			},
		}},
		{"receipts", n.Receipts(), "Receipts", "receive", "Records the outcome of a due event", []message{
			{
				name: "receipt", title: "Receipt", summary: "The outcome of a due event, reported by the channel's " +
					"team",
				payload: "receipt", key: keyOfTrigger,
			},
		}},
		{"due", n.Due("{channel}"), "Due events", "send", "Emits one due event for each occurrence and attempt", due},
		{
			"dueHigh", topics.HighLane(n.Due("{channel}")), "Due events of priority high", "send",
			"The same for priority high, where the channel has the lane", due,
		},
		{"events", n.Events(), "Events", "send", "Emits every event, in order", []message{
			{name: "event", title: "Event", summary: "One event of one trigger", payload: "event", key: keyOfTrigger},
		}},
		{
			"rejected", n.Rejected(), "Rejected commands", "send", "Emits each refused command with the reason",
			[]message{
				{
					name: "rejectedCommand", title: "Rejected command",
					summary: "The command as it was, with wc-error- headers", headers: []string{"rejected-headers"},
					key: keyOfTrigger,
				},
			},
		},
		{"deadLetter", n.DeadLetter(), "Dead letters", "send", "Keeps due events that failed", []message{
			{
				name: "deadLetter", title: "Dead letter", summary: "The due event, with wc-error- headers",
				headers: dead,
				key:     keyOfTrigger,
			},
		}},
		{"control", n.Control(), "Settings", "receive", "Applies settings, each at a definite offset", []message{
			{
				name: "calendar", title: "Calendar", summary: "Under calendar/<name>; null deletes it",
				payload: "calendar", key: keyOfSetting,
			},
			{
				name: "tzdata", title: "tz database", summary: "Under tzdata: a zoneinfo zip",
				contentType: "application/zip", headers: []string{"tzdata-headers"}, key: keyOfSetting, binary: true,
			},
		}},
		{"endpoints", n.Endpoints(), "Endpoints", "send", "Emits the state of webhook origins", []message{
			{
				name: "endpoint", title: "Endpoint", summary: "One webhook worker's state of one origin; null: removed",
				payload: "endpoint", key: keyOfEndpoint,
			},
		}},
		{"watermarks", n.Watermarks(), "Watermarks", "send", "Emits how far each partition has fired", []message{
			{
				name: "watermark", title: "Watermark",
				summary: "Everything due up to fired_through is below these offsets; null withdraws it",
				payload: "watermark", key: keyOfNumber,
			},
		}},
		{"audit", n.Audit(), "Audit", "send", "Records who did what over HTTP", []message{
			{
				name: "audit", title: "Act", summary: "An act over HTTP, or a refused attempt", payload: "audit",
				key: keyOfTenant,
			},
		}},
		{"state", n.State(), "State", "send", "Stores triggers; a restore reads it", []message{
			{
				name: "state", title: "State",
				summary:     "Protobuf, schemas/waterclock/v1/state.proto of the source: the engine's own",
				contentType: "application/protobuf", key: keyOfTrigger, binary: true,
			},
		}},
	}
}

func (m *message) object(examples []object) object {
	out := object{
		"name": m.name, "title": m.title, "summary": m.summary,
		"bindings": object{"kafka": object{"key": ref("components/schemas/" + m.key), "bindingVersion": kafkaBinding}},
	}
	if m.payload != "" {
		out["payload"] = ref("components/schemas/" + m.payload)
	}
	switch {
	case m.contentType != "":
		out["contentType"] = m.contentType
	case m.payload == "":
		out["contentType"] = "*/*"
	}
	switch len(m.headers) {
	case 0:
	case 1:
		out["headers"] = ref("components/schemas/" + m.headers[0])
	default:
		all := []any{}
		for _, name := range m.headers {
			all = append(all, ref("components/schemas/"+name))
		}
		out["headers"] = object{"type": "object", "allOf": all}
	}
	if len(examples) > 0 {
		out["examples"] = examples
	}
	return out
}
