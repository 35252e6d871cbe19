package analytics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waterclock/waterclock/schemas"
)

//go:generate go run ./gen ../docs/analytics/dictionary.md

// columnMeans says in a line what stands in a column.
var columnMeans = map[string]string{
	"log_partition":         "Partition of the events topic. Never null",
	"log_offset":            "Offset in it. With the partition it names a row. Never null",
	"appended_at":           "When the broker or the engine stamped the record",
	"event_id":              "`<partition>-<event_us>`, unique for the life of the topic",
	"type":                  "What happened (below). Null if the record is no event",
	"version":               "Version of the event's fields",
	"trigger":               "Key of the trigger, as it is",
	"tenant":                "Tenant of the trigger",
	"revision":              "Counts the commands that changed a trigger, its register among them",
	"seq":                   "Counts the events of a trigger, from 1, without gaps; anew once the key was forgotten",
	"occurred_at":           "When it happened",
	"event_us":              "The same in microseconds, or a little later. Grows within a partition",
	"scheduled_at":          "Nominal instant of the occurrence, or when a retry goes out",
	"next_at":               "The next planned instant, in events that change the plan",
	"effective_at":          "When it could first go out, if that is later than it was due",
	"first_fired_at":        "When the occurrence first went out",
	"previous_scheduled_at": "Where the plan, or a snooze, stood before",
	"first":                 "First of several occurrences that one event is about (`count`)",
	"last":                  "Last of them",
	"occurrence":            "Names the occurrence within its trigger. Join with it",
	"local_time":            "The wall clock that was asked for",
	"timezone":              "IANA name of its zone",
	"tzdata":                "Release of the tz database that was used",
	"previous_tzdata":       "Release that was used before",
	"channel":               "Channel that the event is about",
	"user_id":               "User of the trigger: a keyed hash, plain, or null",
	"step":                  "Step of the escalation, from 0",
	"attempt":               "Attempt of the delivery, from 1",
	"state":                 "State of the trigger or occurrence after the event",
	"previous_state":        "State before it",
	"lateness_ms":           "How long after it was due it went out; a retry is due at the end of its wait",
	"reason":                "Why: a code of the engine or of the channel",
	"detail":                "More of it, in words; a note of who did it",
	"actor":                 "Who did it, where that is known",
	"source":                "`topic/partition/offset` of the command or receipt behind it",
	"due_topic":             "Topic that the due event is on",
	"due_partition":         "Its partition",
	"correlation_id":        "What the caller gave to find it by",
	"count":                 "How many occurrences the event is about, if it is about several",
	"truncated":             "Fields that were cut to fit the topic, with commas between them",
	"rule":                  "JSON of the plan: time fields, and policies that are not defaults",
	"tags":                  "Tags of the trigger. Names are plain; values as `user_id`",
	"extra":                 "JSON of fields without a column, or why the record is no event",
}

// standingMeans says what stands in a column of snapshots, where that is not what events have.
var standingMeans = map[string]string{
	"log_offset":     "Offset of its newest event. Never null",
	"type":           "Type of its newest event",
	"event_us":       "When that happened",
	"state":          "State of the trigger",
	"revision":       "Revision of the trigger",
	"seq":            "Events of the trigger until then",
	"scheduled_at":   "The newest that an event has said",
	"next_at":        "The next planned instant. Null: nothing is planned",
	"created_at":     "When its present life was registered",
	"channel":        "Channel of its plan, not of an occurrence in flight",
	"user_id":        "User of its plan",
	"correlation_id": "That of its plan",
	"rule":           "JSON of its plan. Null if it was erased, or if no exported event has it",
	"tags":           "Tags of its plan",
}

// typeMeans says in a line what a type of event reports.
var typeMeans = map[string]string{
	"trigger.registered":     "A new trigger has a plan",
	"trigger.replaced":       "A register replaced a trigger that was there",
	"trigger.rescheduled":    "Its plan moved",
	"trigger.paused":         "It does not fire until it is resumed",
	"trigger.resumed":        "It fires as planned from here on",
	"trigger.cancelled":      "It will not fire any more",
	"trigger.completed":      "All its occurrences are over",
	"trigger.failed":         "It ended because it could not go on",
	"trigger.erased":         "Its content was erased",
	"cancel.too_late":        "A cancel came after the occurrence had gone out",
	"occurrence.snoozed":     "An occurrence goes out later",
	"occurrence.skipped":     "An occurrence was left out",
	"occurrence.fired":       "A due event went out: a first emission, a further attempt or step",
	"occurrence.expired":     "An occurrence was too old to go out",
	"occurrence.misfired":    "Occurrences that an outage had passed over were handled by the misfire policy",
	"delivery.accepted":      "The channel has taken it",
	"delivery.delivered":     "It has arrived",
	"delivery.failed":        "It will not arrive",
	"delivery.retried":       "An attempt failed, and another one is planned",
	"delivery.postponed":     "The channel asked for it later; the attempt does not count",
	"delivery.suppressed":    "It was not sent, on purpose: preferences, duplicates, limits, expiry",
	"delivery.dead_lettered": "All attempts failed; it is on the dead-letter topic",
	"delivery.redriven":      "A dead letter goes out once more",
	"escalation.advanced":    "A further step goes out",
	"escalation.stopped":     "No further step goes out",
	"command.duplicate":      "A command had been applied before",
	"command.rejected":       "A command was refused; `reason` is the code",
}

// EventTypes are those of the events' schema, in its order.
func EventTypes() ([]string, error) {
	text, err := schemas.FS.ReadFile("event.schema.json")
	if err != nil {
		return nil, err
	}
	var s struct {
		Properties struct {
			Type struct{ Enum []string }
		}
	}
	err = json.Unmarshal(text, &s)
	return s.Properties.Type.Enum, err
}

// Dictionary is the page docs/analytics/dictionary.md.
func Dictionary() (string, error) {
	var b strings.Builder
	b.WriteString("# Data dictionary of the export\n\n" +
		"`go generate ./analytics` writes this page from the code. [export](export.md) says how to use the files,\n" +
		"[events](../formats/events.md) has the exact meaning of each field.\n\n" +
		"## Columns\n\n" +
		"The number is the Parquet field id. It is frozen: no other column will ever have it. Absent is null. All\n" +
		"instants are in UTC: `event_us` in microseconds, the others in milliseconds.\n\n" +
		"| id | column | type | |\n|---|---|---|---|\n")
	for _, c := range Columns() {
		means, ok := columnMeans[c.Name]
		if !ok {
			return "", fmt.Errorf("nobody says what %s means", c.Name)
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", c.ID, c.Name, c.Type, means)
	}
	b.WriteString("\nKeys and values of `tags` have the ids 43 and 44.\n\n" +
		"## Columns of snapshots\n\n" +
		"A row is a trigger at the end of a day. A column that events have, too, has the same id.\n\n" +
		"| id | column | type | |\n|---|---|---|---|\n")
	for _, c := range SnapshotColumns() {
		means := cmp.Or(standingMeans[c.Name], columnMeans[c.Name])
		if means == "" {
			return "", fmt.Errorf("nobody says what %s means", c.Name)
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", c.ID, c.Name, c.Type, means)
	}
	b.WriteString("\n## Types of events\n\n| type | |\n|---|---|\n")
	types, err := EventTypes()
	if err != nil {
		return "", err
	}
	for _, name := range types {
		means, ok := typeMeans[name]
		if !ok {
			return "", fmt.Errorf("nobody says what %s means", name)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, means)
	}
	b.WriteString("\n## Complete up to when\n\n" +
		"`manifest/<n>.json` has a `watermark` by partition. Everything first due at or before its `fired_through`\n" +
		"is in the files of that manifest and of those before, unless `held` names what kept it back. First due\n" +
		"means: `type` is `occurrence.fired`, `attempt` 1, `step` 0; its time is `effective_at`, else `occurred_at`\n" +
		"less `lateness_ms`. [The whole promise](../formats/export.md#the-watermark-of-a-manifest).\n")
	return b.String(), nil
}
