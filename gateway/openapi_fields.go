package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/schemas"
)

// The fields of a command are described in command.schema.json, which tests compare with
// the decoder. /openapi.json takes them from there, so that the two cannot differ.

// commandBodies are the components with the fields of a command.
var commandBodies = []string{
	"Register", "Patch", "ReminderBody", "ReminderPatch", "SnoozeBody", "SkipBody", "NoteBody",
	"RezoneBody", "AckBody", "ReminderSnooze",
}

// oneNeeded lists fields of which a body needs at least one.
var oneNeeded = map[string][]string{
	"Register":     {"delay", "fire_at", "recurrence", "include"},
	"ReminderBody": {"delay", "fire_at", "recurrence", "include"},
	"SnoozeBody":   {"for", "until"}, "ReminderSnooze": {"minutes", "for", "until"},
}

// withFields adds the fields' schemas to a document.
func withFields(api []byte) ([]byte, error) {
	known, err := fieldSchemas()
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(api, &doc); err != nil {
		return nil, err
	}
	components := doc["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range commandBodies {
		body, ok := components[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("no component %s", name)
		}
		patch := strings.HasSuffix(name, "Patch")
		properties := body["properties"].(map[string]any)
		for field, was := range properties {
			schema, ok := known[field]
			if !ok {
				schema = was.(map[string]any)
			}
			schema = nullable(schema, patch)
			if text := was.(map[string]any)["description"]; text != nil && schema["description"] == nil {
				schema["description"] = text
			}
			properties[field] = schema
		}
		if ways := oneNeeded[name]; ways != nil {
			var needed []any
			for _, field := range ways {
				needed = append(needed, map[string]any{"required": []string{field}})
			}
			body["anyOf"] = needed
		}
	}
	for _, name := range []string{"PreviewBody", "EndpointTest", "RedriveBody", "ReconcileBody"} {
		if err := allowNulls(components, name); err != nil {
			return nil, err
		}
	}
	return json.Marshal(doc)
}

// allowNulls allows null for every optional field of a body, like its parser. It inlines
// what those fields refer to, because elsewhere that is never null.
func allowNulls(components map[string]any, name string) error {
	body, ok := components[name].(map[string]any)
	if !ok {
		return fmt.Errorf("no component %s", name)
	}
	required, _ := body["required"].([]any)
	properties := body["properties"].(map[string]any)
	for field, was := range properties {
		if slices.Contains(required, any(field)) {
			continue
		}
		schema := was.(map[string]any)
		if ref, ok := schema["$ref"].(string); ok {
			schema = components[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		}
		properties[field] = nullable(schema, false)
	}
	return nil
}

// fieldSchemas returns the schemas of a command's fields by name, without references.
func fieldSchemas() (map[string]map[string]any, error) {
	text, err := schemas.FS.ReadFile("command.schema.json")
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("command.schema.json: %w", err)
	}
	defs := doc["$defs"].(map[string]any)
	known := map[string]map[string]any{}
	for _, group := range slices.Sorted(maps.Keys(defs)) {
		properties, _ := defs[group].(map[string]any)["properties"].(map[string]any)
		for name, schema := range properties {
			if known[name] == nil {
				known[name], _ = resolved(schema, defs).(map[string]any)
			}
		}
	}
	return known, nil
}

// resolved inlines the references of a schema. A field's own description stands before that
// of its type.
func resolved(v any, defs map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		if ref, ok := v["$ref"].(string); ok {
			maps.Copy(out, resolved(defs[strings.TrimPrefix(ref, "#/$defs/")], defs).(map[string]any))
		}
		typeText, _ := out["description"].(string)
		for name, member := range v {
			if name != "$ref" {
				out[name] = resolved(member, defs)
			}
		}
		if own, _ := v["description"].(string); own != "" && typeText != "" {
			out["description"] = own + ". " + typeText
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = resolved(v[i], defs)
		}
		return out
	}
	return v
}

// nullable allows null for a value and for its optional members: null counts as absent. In
// a merge patch null also removes deeper members.
func nullable(schema map[string]any, patch bool) map[string]any {
	out := maps.Clone(schema)
	switch kind := out["type"].(type) {
	case string:
		out["type"] = []any{kind, "null"}
	case []any:
		out["type"] = withNull(kind, "null")
	}
	if values, ok := out["enum"].([]any); ok {
		out["enum"] = withNull(values, nil)
	}
	if ways, ok := out["oneOf"].([]any); ok && !slices.ContainsFunc(ways, isNull) {
		out["oneOf"] = append(slices.Clone(ways), map[string]any{"type": "null"})
	}
	required, _ := out["required"].([]any)
	if patch {
		required = nil
		delete(out, "required") // a patch may name some members only
	}
	if members, ok := out["properties"].(map[string]any); ok {
		all := map[string]any{}
		for name, member := range members {
			if all[name] = member; !slices.Contains(required, any(name)) {
				all[name] = nullable(member.(map[string]any), patch)
			}
		}
		out["properties"] = all
	}
	if member, ok := out["additionalProperties"].(map[string]any); ok && patch {
		out["additionalProperties"] = nullable(member, true)
	}
	return out
}

func withNull(list []any, null any) []any {
	if slices.Contains(list, null) {
		return list
	}
	return append(slices.Clone(list), null)
}

func isNull(schema any) bool {
	s, _ := schema.(map[string]any)
	return s["type"] == "null"
}
