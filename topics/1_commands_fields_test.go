package topics

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRangesAtTheirEdges(t *testing.T) {
	year := 366 * 24 * time.Hour
	for _, c := range []struct {
		name string
		rec  *Record
	}{
		{"a year past", register(`"fire_at":"` + appended.Add(-year).String() + `"`)},
		{"a local year past", register(`"fire_at":"2025-09-21T15:00","timezone":"Europe/London"`)},
		{"100 years ahead", register(`"fire_at":"2126-09-21T14:13:20Z"`)},
		{"10 years of delay", register(`"delay":"3652d"`)},
		{"a rule of 512 bytes", register(`"recurrence":"` + strings.Repeat("x", 512) + `"`)},
		{"512 dates", register(`"recurrence":"FREQ=DAILY","exclude":["2026-12-25"` +
			strings.Repeat(`,"2026-12-25"`, 511) + `]`)},
		{"channel of 49 bytes", register(`"delay":"7m","channel":"` + strings.Repeat("x", 49) + `"`)},
		{"channel of one byte", register(`"delay":"7m","channel":"9"`)},
		{"payload of 4,096 bytes", register(`"delay":"7m","payload":"` + strings.Repeat("x", 4094) + `"`)},
		{"payload_base64 of 4,096 bytes", register(`"delay":"7m","payload_base64":"` + strings.Repeat("AAAA", 1365) +
			`AA=="`)},
		{"64 headers", command("", append(manyHeaders(64, "v"), "wc-delay=7m")...)},
		{"32 tags", register(`"delay":"7m","tags":{` + manyTags(32) + `}`)},
		{"a payload 128 deep", register(`"delay":"7m","payload":` + strings.Repeat("[", 128) +
			strings.Repeat("]", 128))},
		{"brackets in a text", register(`"delay":"7m","payload":"` + strings.Repeat(`[{\"`, 500) + `"`)},
	} {
		if _, err := DecodeCommand(c.rec, Limits{}, nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	if err := (Limits{Payload: MaxPayload}).Validate(); err != nil {
		t.Error(err)
	}
	err := Limits{Payload: MaxPayload + 1, Depth: -1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "limits.payload") ||
		!strings.Contains(err.Error(), "limits.depth") {
		t.Errorf("got %v, want both named", err)
	}
}

func TestLargerLimits(t *testing.T) {
	rec := command(strings.Repeat("x", 10<<10), "wc-delay=7m")
	if _, err := DecodeCommand(rec, Limits{Payload: 10 << 10}, nil); err != nil {
		t.Error(err)
	}
}

func TestFieldTableIsWhole(t *testing.T) {
	for f, def := range fieldTable {
		if def.name == "" {
			t.Errorf("field %d has no name", f)
		}
		if (field(f) >= scalarCount) != (def.kind == kindPart) {
			t.Errorf("%s stands on the wrong side of scalarCount", def.name)
		}
		if !slices.ContainsFunc(fieldsOf[:], func(s fieldSet) bool { return s.has(field(f)) }) {
			t.Errorf("%s means nothing beside any op", def.name)
		}
	}
}
