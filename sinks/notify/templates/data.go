package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Data decodes template_data: one JSON object.
func Data(b []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil || all == nil {
		return nil, errors.New(`it is not a JSON object; write {"name":"Ada"}`)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is data after the JSON object")
	}
	return Plain(all).(map[string]any), nil
}

// Plain converts json.Numbers into numbers that templates can use, and show as they are written.
func Plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		for key, one := range v {
			v[key] = Plain(one)
		}
	case []any:
		for i, one := range v {
			v[i] = Plain(one)
		}
	}
	return v
}
