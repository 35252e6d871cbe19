package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// These limits bound how far the aliases of a file may expand. A value that contains itself
// exceeds every depth.
const (
	maxYAMLNodes = 1_000_000
	maxYAMLDepth = 200
)

// yamlReader converts YAML into JSON values as the author meant them. Dates and times stay text,
// although YAML would read 2026-12-25 as a timestamp. Numbers keep their digits.
type yamlReader struct{ budget, depth int }

func (r *yamlReader) value(n *yaml.Node) (any, error) {
	if r.budget--; r.budget < 0 {
		return nil, fmt.Errorf("line %d: the file expands to over %d values", n.Line, maxYAMLNodes)
	}
	if r.depth++; r.depth > maxYAMLDepth {
		return nil, fmt.Errorf("line %d: values are nested over %d deep; does one contain itself?", n.Line,
			maxYAMLDepth)
	}
	defer func() { r.depth-- }()
	switch n.Kind {
	case yaml.AliasNode:
		return r.value(n.Alias)
	case yaml.MappingNode:
		out := map[string]any{}
		return out, r.mapping(n, out)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := r.value(item)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
	return scalar(n)
}

// mapping reads names and values. A name in the mapping itself overrides one that << merges in.
func (r *yamlReader) mapping(n *yaml.Node, into map[string]any) error {
	own := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, node := n.Content[i], n.Content[i+1]
		if name.ShortTag() == "!!merge" {
			if err := r.merge(node, into, own); err != nil {
				return err
			}
			continue
		}
		if name.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a name must be a string", name.Line)
		}
		if own[name.Value] {
			return fmt.Errorf("line %d: %s is given twice", name.Line, name.Value)
		}
		v, err := r.value(node)
		if err != nil {
			return err
		}
		into[name.Value], own[name.Value] = v, true
	}
	return nil
}

func (r *yamlReader) merge(n *yaml.Node, into map[string]any, own map[string]bool) error {
	v, err := r.value(n)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	merged := map[string]bool{}
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("line %d: << can only merge mappings", n.Line)
		}
		for name, value := range fields {
			if !own[name] && !merged[name] { // the first of several mappings wins
				into[name], merged[name] = value, true
			}
		}
	}
	return nil
}

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		return b, n.Decode(&b)
	case "!!int", "!!float":
		return number(n)
	case "!!binary":
		return nil, fmt.Errorf("line %d: write bytes as payload_base64", n.Line)
	}
	return n.Value, nil // strings, and timestamps as they were written
}

// number keeps the digits if JSON allows the spelling. It converts other spellings, such as 0x1F
// and 1_000. A value in quotes is not a number.
func number(n *yaml.Node) (any, error) {
	if json.Valid([]byte(n.Value)) && !strings.HasPrefix(n.Value, "\"") {
		return json.Number(n.Value), nil
	}
	var whole int64
	if n.ShortTag() == "!!int" && n.Decode(&whole) == nil { // Decode would cut off a fraction
		return json.Number(fmt.Sprint(whole)), nil
	}
	var f float64
	if err := n.Decode(&f); err != nil {
		return nil, fmt.Errorf("line %d: %w", n.Line, err)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("line %d: %s is not a JSON number", n.Line, n.Value)
	}
	return json.Number(b), nil
}
