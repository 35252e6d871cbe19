package check

import (
	"encoding/json"
	"os"
	"testing"
)

// TestFieldsOfTheSchema: a field that the checker does not know makes it refuse what the engine takes.
func TestFieldsOfTheSchema(t *testing.T) {
	text, err := os.ReadFile("../../schemas/command.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	n := 0
	for def, d := range schema.Defs {
		for name := range d.Properties {
			n++
			if _, known := fields[name]; !known {
				t.Errorf("%s has %s, which the checker does not know", def, name)
			}
		}
	}
	if n < len(fields) {
		t.Errorf("%d properties: this tests nothing", n)
	}
}
