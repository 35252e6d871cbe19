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

// Plain converts json.Numbers that are whole into integers. So 1234567 prints as it is, and not
// as 1.234567e+06.
func Plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
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
