package topics

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

func TestTZDataSurvivesTheWire(t *testing.T) {
	key, value, hs, err := EncodeTZData(TZData{
		Label: "2026a", Zip: []byte("PK\x03\x04"),
		Carried: []string{"Asia/Almaty", "Europe/Kiev"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSetting(&Record{Key: key, Value: value, Headers: hs})
	if err != nil || got.TZData == nil || got.TZData.Label != "2026a" || !bytes.Equal(got.TZData.Zip, value) ||
		got.TZData.Sum == [32]byte{} ||
		!slices.Equal(got.TZData.Carried, []string{"Asia/Almaty", "Europe/Kiev"}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	value[0] ^= 1
	if _, err := DecodeSetting(&Record{Key: key, Value: value, Headers: hs}); err == nil ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("a flipped bit: %v", err)
	}
}

func TestCalendarSurvivesTheWire(t *testing.T) {
	key, value, err := EncodeCalendar(Calendar{
		Name:  "us-holidays",
		Dates: []string{"2026-12-25", "2026-07-04", "2026-12-25"},
	})
	if err != nil || string(key) != "calendar/us-holidays" || string(value) != `{"dates":["2026-07-04","2026-12-25"]}` {
		t.Fatalf("got %s %s, %v", key, value, err)
	}
	got, err := DecodeSetting(&Record{Key: key, Value: value})
	if err != nil || got.Calendar == nil || got.Calendar.Name != "us-holidays" ||
		!slices.Equal(got.Calendar.Dates, []string{"2026-07-04", "2026-12-25"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	gone, err := DecodeSetting(&Record{Key: key})
	if err != nil || !gone.Deleted || gone.Calendar != nil {
		t.Errorf("a deleted calendar: %+v, %v", gone, err)
	}
}

// A tenant's own calendar has the tenant before its name.
func TestOwnCalendars(t *testing.T) {
	for _, name := range []string{"acme/office", "default/office", "Ünïcode/office"} {
		key, value, err := EncodeCalendar(Calendar{Name: name, Dates: []string{"2026-12-25"}})
		if err != nil || string(key) != "calendar/"+name {
			t.Fatalf("%s: key %s, error %v", name, key, err)
		}
		got, err := DecodeSetting(&Record{Key: key, Value: value})
		if err != nil || got.Calendar.Name != name {
			t.Errorf("%s: got %+v, error %v", name, got, err)
		}
	}
}

func TestSettingsRefused(t *testing.T) {
	dates := func(n int) []string { return slices.Repeat([]string{"2026-12-25"}, n) }
	_, _, tooMany := EncodeCalendar(Calendar{Name: "a", Dates: []string{"25.12.2026"}})
	_, _, badName := EncodeCalendar(Calendar{Name: "US"})
	_, _, _, noLabel := EncodeTZData(TZData{Zip: []byte("x")})
	_, _, _, noZip := EncodeTZData(TZData{Label: "2026a"})
	for name, err := range map[string]error{
		"a German date": tooMany, "a name in upper case": badName,
		"no label": noLabel, "no database": noZip,
	} {
		if e, ok := errors.AsType[*trigger.Error](err); !ok || e.Code != trigger.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		name, key, value string
		code             trigger.Code
	}{
		{"unknown setting", "colour", "blue", trigger.CodeUnsupported},
		{"not JSON", "calendar/a", "x", trigger.CodeInvalid},
		{"a date twice", "calendar/a", `{"dates":["` + strings.Join(dates(2), `","`) + `"]}`, trigger.CodeInvalid},
		{"descending", "calendar/a", `{"dates":["2026-12-25","2026-01-01"]}`, trigger.CodeInvalid},
		{"no such day", "calendar/a", `{"dates":["2026-02-30"]}`, trigger.CodeInvalid},
		{"too many", "calendar/a", `{"dates":["` + strings.Join(dates(10_001), `","`) + `"]}`, trigger.CodeTooLarge},
		{"no name", "calendar/", `{"dates":[]}`, trigger.CodeInvalid},
		{"a tenant's without a name", "calendar/acme/", `{"dates":[]}`, trigger.CodeInvalid},
		{"nobody's", "calendar//office", `{"dates":[]}`, trigger.CodeInvalid},
		{"a tenant's, with a path", "calendar/acme/a/b", `{"dates":[]}`, trigger.CodeInvalid},
		{"a tenant with a control character", "calendar/a\x00/office", `{"dates":[]}`, trigger.CodeInvalid},
		{"tzdata without a sum", "tzdata", "x", trigger.CodeInvalid},
	} {
		_, err := DecodeSetting(&Record{Key: []byte(c.key), Value: []byte(c.value)})
		if e, ok := errors.AsType[*trigger.Error](err); !ok || e.Code != c.code {
			t.Errorf("%s: got %v, want %s", c.name, err, c.code)
		}
	}
}

func FuzzDecodeSetting(f *testing.F) {
	f.Add([]byte("calendar/us"), []byte(`{"dates":["2026-12-25"]}`))
	f.Add([]byte("tzdata"), []byte("PK"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s, err := DecodeSetting(&Record{Key: key, Value: value})
		if err != nil || s.Calendar == nil {
			return
		}
		k, v, err := EncodeCalendar(*s.Calendar)
		if err != nil || !bytes.Equal(k, key) {
			t.Fatalf("decoded %+v, encoded %q %q, %v", s.Calendar, k, v, err)
		}
	})
}
