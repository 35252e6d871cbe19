package topics

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waterclock/waterclock/trigger"
)

func goldenAudit() *Audit {
	return &Audit{
		At: 1_795_183_200_250, Actor: "ada", Role: "support", Address: "192.0.2.7", Agent: "waterclock/1.0",
		Verb: "cancel", Trigger: "acme/pills", Target: "calendars/us-holidays", Tenant: "acme",
		Note: "the customer has called", Status: 200,
	}
}

// A record is read as it was written, and has the schema's fields.
func TestAudit(t *testing.T) {
	a := goldenAudit()
	for _, a := range []*Audit{a, {Verb: "reveal", Status: 401}} {
		if back, err := DecodeAudit(a.Key(), a.Value()); err != nil || !reflect.DeepEqual(back, a) {
			t.Errorf("%+v, %v; want %+v", back, err, a)
		}
		if err := validate(schema(t, "audit.schema.json"), a.Value()); err != nil {
			t.Error(err)
		}
	}
	var fields map[string]any
	if err := json.Unmarshal(a.Value(), &fields); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := tree(t, "audit.schema.json").names(); !slices.Equal(names, want) {
		t.Errorf("written %v, the schema has %v", names, want)
	}
	later := strings.Replace(string(a.Value()), "{", `{"later":[1],`, 1)
	if back, err := DecodeAudit(a.Key(), []byte(later)); err != nil || !reflect.DeepEqual(back, a) {
		t.Errorf("a field of a later version: %+v, %v", back, err)
	}
	good := string(a.Value())
	for _, bad := range []struct{ key, value string }{
		{"", good},
		{"blue", good},
		{"acme", ""},
		{"acme", "null"},
		{"acme", "{"},
		{"acme", "[]"},
		{"acme", good + "{}"},
		{"acme", strings.Replace(good, "2026-", "20-", 1)},
		{"acme", strings.Repeat(" ", maxAuditBytes) + good},
	} {
		if _, err := DecodeAudit([]byte(bad.key), []byte(bad.value)); err == nil {
			t.Errorf("%s: %.60s is read", bad.key, bad.value)
		}
	}
}

// What callers choose cannot make a record that is too large to be read back.
func TestAuditIsBounded(t *testing.T) {
	long := strings.Repeat("\x01ä", 100_000)
	a := &Audit{
		Actor: long, Role: long, Address: long, Agent: long, Verb: long, Trigger: trigger.Key(long), Target: long,
		Tenant: "acme", Note: long,
	}
	back, err := DecodeAudit(a.Key(), a.Value())
	if err != nil || len(back.Agent) > maxAuditAgent || len(back.Note) > maxNote || !utf8.ValidString(back.Note) {
		t.Errorf("%d bytes: %v", len(a.Value()), err)
	}
}

// Whatever stands on the topic, it is read or refused. What is read is written back as the same.
func FuzzAudit(f *testing.F) {
	f.Add([]byte("acme"), goldenAudit().Value())
	f.Add([]byte(""), (&Audit{}).Value())
	f.Add([]byte("a"), []byte(`{"at":"0001-01-01T00:00:00Z","tenant":"a","status":-1}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		a, err := DecodeAudit(key, value)
		if err != nil {
			return
		}
		const year0, year10000 = trigger.Instant(-62_167_219_200_000), trigger.Instant(253_402_300_800_000)
		if a.At < year0 || a.At >= year10000 {
			return // RFC 3339 has no such year
		}
		back, err := DecodeAudit(a.Key(), a.Value())
		if err != nil || string(back.Value()) != string(a.Value()) {
			t.Errorf("%s\nis read back as\n%+v, %v", a.Value(), back, err)
		}
	})
}
