package topics

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

func goldenWatermark() *Watermark {
	return &Watermark{
		Partition: 3, Term: 7, At: 1_795_183_200_250, FiredThrough: 1_795_183_200_100, CommandsOffset: 4812,
		EventsOffset: 91_234, Due: map[string]map[int32]int64{
			"waterclock.due.push":  {3: 811},
			"waterclock.due.by-me": {0: 17, 11: 4, 2: 9},
		}, Held: []string{"lag", "waterclock.due.sms"},
	}
}

// A watermark is read as it was written, and has the schema's fields.
func TestWatermark(t *testing.T) {
	for _, w := range []*Watermark{
		goldenWatermark(), {Due: map[string]map[int32]int64{}, Held: []string{}},
	} {
		back, err := DecodeWatermark(WatermarkKey(w.Partition), w.Value())
		if err != nil || !reflect.DeepEqual(back, w) {
			t.Errorf("%+v, %v; want %+v", back, err, w)
		}
		var fields map[string]any
		if err := json.Unmarshal(w.Value(), &fields); err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for name := range fields {
			names = append(names, name)
		}
		slices.Sort(names)
		if want := tree(t, "watermark.schema.json").names(); !slices.Equal(names, want) {
			t.Errorf("written %v, the schema has %v", names, want)
		}
	}
	if w, err := DecodeWatermark([]byte("3"), nil); w != nil || err != nil {
		t.Errorf("null: %+v, %v", w, err)
	}
	if _, err := DecodeWatermark([]byte("other"), nil); err == nil {
		t.Error("a null of something else withdraws a watermark")
	}
	later := strings.Replace(string(goldenWatermark().Value()), "{", `{"later":[1],`, 1)
	if w, err := DecodeWatermark([]byte("3"), []byte(later)); err != nil || !reflect.DeepEqual(w, goldenWatermark()) {
		t.Errorf("a field of a later version: %+v, %v", w, err)
	}
	good := string(goldenWatermark().Value())
	for _, bad := range []struct{ key, value string }{
		{"4", good},
		{"", good},
		{"3", "{"},
		{"3", "[]"},
		{"3", good + "{}"},
		{"0", `{}`},
		{"3", strings.Replace(good, "2026-", "20-", 1)},
		{"3", strings.Repeat(" ", 2<<20) + good},
	} {
		if _, err := DecodeWatermark([]byte(bad.key), []byte(bad.value)); err == nil {
			t.Errorf("%s: %.60s is read", bad.key, bad.value)
		}
	}
}

// Whatever stands on the topic, it is read or refused. What is read is written back as the same.
func FuzzWatermark(f *testing.F) {
	f.Add([]byte("3"), goldenWatermark().Value())
	f.Add([]byte("0"), (&Watermark{}).Value())
	f.Add([]byte("0"), []byte(`{"due":{"a":{"-1":9223372036854775807}},"at":"0001-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		w, err := DecodeWatermark(key, value)
		if err != nil || w == nil {
			return
		}
		const year0, year10000 = trigger.Instant(-62_167_219_200_000), trigger.Instant(253_402_300_800_000)
		if min(w.At, w.FiredThrough) < year0 || max(w.At, w.FiredThrough) >= year10000 {
			return // RFC 3339 has no such year
		}
		back, err := DecodeWatermark(key, w.Value())
		if err != nil || string(back.Value()) != string(w.Value()) {
			t.Errorf("%s\nis read back as\n%+v, %v", w.Value(), back, err)
		}
	})
}
