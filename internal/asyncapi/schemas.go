package asyncapi

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/schemas"
)

// components are the schemas of package schemas, as AsyncAPI wants them: its
// schemas are JSON Schema draft 7, ours are of 2020-12. Definitions of one
// become components beside it: command's $defs/when is command.when.
func components() (object, error) {
	out := object{
		"null": object{"type": "null"},
		keyOfTrigger: object{
			"description": "id or tenant/id, UTF-8.", "type": "string", "minLength": 1,
			"maxLength": 255,
		},
		keyOfTarget: object{
			"description": "target_key, else the trigger key.", "type": "string", "minLength": 1,
			"maxLength": 255,
		},
		keyOfSetting: object{
			"description": "tzdata, or calendar/<name>.", "type": "string",
			"pattern": "^(tzdata|calendar/[a-z0-9][a-z0-9._-]{0,63})$",
		},
	}
	out[keyOfNumber] = object{"description": "The partition's number.", "type": "string", "pattern": "^[0-9]+$"}
	out[keyOfTenant] = object{"description": "The caller's tenant; empty without a valid credential.", "type": "string"}
	out[keyOfEndpoint] = object{"description": "instance/tenant/origin.", "type": "string", "minLength": 1}
	names, err := fs.Glob(schemas.FS, "*.schema.json")
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		text, err := fs.ReadFile(schemas.FS, file)
		if err != nil {
			return nil, err
		}
		var root object
		if err := json.Unmarshal(text, &root); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		c := converter{name: strings.TrimSuffix(file, ".schema.json"), root: root}
		for name, def := range c.defs() {
			out[c.name+"."+name] = c.convert(def)
		}
		top := maps.Clone(root)
		for _, drop := range []string{"$schema", "$id", "$defs"} {
			delete(top, drop)
		}
		out[c.name] = c.convert(top)
	}
	return out, nil
}

// converter rewrites one schema of 2020-12 as draft 7.
type converter struct {
	name string
	root object
}

func (c *converter) defs() object {
	defs, _ := c.root["$defs"].(object)
	return defs
}

func (c *converter) convert(v any) any {
	switch v := v.(type) {
	case object:
		return c.object(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.convert(v[i])
		}
		return out
	}
	return v
}

func (c *converter) object(v object) object {
	out := object{}
	for k, sub := range v {
		switch k {
		case "$ref":
			out[k] = "#/components/schemas/" + c.name + "." + strings.TrimPrefix(sub.(string), "#/$defs/")
		case "unevaluatedProperties": // draft 7 has it not: what allOf brings must be named
			out["propertyNames"] = object{"enum": c.properties(v)}
		default:
			out[k] = c.convert(sub)
		}
	}
	// Draft 7 does not look at what stands beside a $ref.
	if to, ok := out["$ref"]; ok && len(out) > 1 {
		delete(out, "$ref")
		all, _ := out["allOf"].([]any)
		out["allOf"] = append([]any{object{"$ref": to}}, all...)
	}
	return out
}

// properties are all names an object of this schema may have.
func (c *converter) properties(v object) (names []any) {
	set := map[string]bool{}
	var collect func(object)
	collect = func(v object) {
		if to, ok := v["$ref"].(string); ok {
			collect(c.defs()[strings.TrimPrefix(to, "#/$defs/")].(object))
		}
		if p, ok := v["properties"].(object); ok {
			for name := range p {
				set[name] = true
			}
		}
		all, _ := v["allOf"].([]any)
		for _, part := range all {
			collect(part.(object))
		}
	}
	collect(v)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		names = append(names, name)
	}
	return names
}
