package topics

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// A record is read as it was written, and has the schema's fields.
func TestEndpoint(t *testing.T) {
	s := EndpointState{
		Instance: "host/1", Tenant: "acme", Origin: "https://a.example:8443", State: "open", InFlight: 3, OK: 812,
		Failed: 31, LastCode: "timeout", Until: time.Date(2026, 11, 20, 14, 1, 0, 0, time.UTC),
		CalledAt: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC),
	}
	if s.Key() != "host_1/acme/https://a.example:8443" {
		t.Error(s.Key())
	}
	back, err := DecodeEndpoint([]byte(s.Key()), s.Value())
	if err != nil || *back != s {
		t.Errorf("%+v, %v", back, err)
	}
	if gone, err := DecodeEndpoint([]byte(s.Key()), nil); gone != nil || err != nil {
		t.Errorf("%+v, %v", gone, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(s.Value(), &fields); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := tree(t, "endpoint.schema.json").names(); !slices.Equal(names, want) {
		t.Errorf("written %v, the schema has %v", names, want)
	}
	for _, bad := range []struct{ key, value string }{
		{"host_1/acme/https://a.example", string(s.Value())},
		{s.Key(), "{"},
		{s.Key(), "[]"},
		{"//", `{}`},
		{s.Key(), strings.Repeat(" ", 10<<10)},
	} {
		if _, err := DecodeEndpoint([]byte(bad.key), []byte(bad.value)); err == nil {
			t.Errorf("%s: %.40s is read", bad.key, bad.value)
		}
	}
}
