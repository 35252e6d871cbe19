package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/schemas"
)

// What a field of a command may look like stands in command.schema.json, which
// tests hold against the decoder. /openapi.json takes it from there: a second
// spelling would drift.

// commandBodies are the components whose fields are a command's.
var commandBodies = []string{
	"Register", "Patch", "ReminderBody", "ReminderPatch", "SnoozeBody", "SkipBody", "NoteBody",
	"EmptyBody", "RezoneBody", "AckBody", "ReminderSnooze",
}

// oneNeeded are the fields of which a body has at least one.
var oneNeeded = map[string][]string{
	"Register":     {"delay", "fire_at", "recurrence", "include"},
	"ReminderBody": {"delay", "fire_at", "recurrence", "include"},
	"SnoozeBody":   {"for", "until"}, "ReminderSnooze": {"minutes", "for", "until"},
}

// withFields puts the fields' schemas into a description.
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
	previewNulls(components)
	return json.Marshal(doc)
}

// previewNulls lets every field of a preview be null, as its parser does. What
// it refers to is put in place: elsewhere that is never null.
func previewNulls(components map[string]any) {
	properties := components["PreviewBody"].(map[string]any)["properties"].(map[string]any)
	for field, was := range properties {
		schema := was.(map[string]any)
		if ref, ok := schema["$ref"].(string); ok {
			schema = components[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		}
		properties[field] = nullable(schema, false)
	}
}

// fieldSchemas are the schemas of a command's fields by name, without
// references.
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

// resolved is a schema with what it refers to in place.
func resolved(v any, defs map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		if ref, ok := v["$ref"].(string); ok {
			maps.Copy(out, resolved(defs[strings.TrimPrefix(ref, "#/$defs/")], defs).(map[string]any))
		}
		for name, member := range v {
			if name != "$ref" {
				out[name] = resolved(member, defs)
			}
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

// nullable lets a value be null: it counts as absent, as do its members that may
// be left out. In a merge patch null also removes what stands deeper.
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
		delete(out, "required") // of what the patch is merged into
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
