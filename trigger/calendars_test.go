package trigger

import (
	"slices"
	"testing"
)

// A name means the tenant's own calendar, else the one for all; no tenant's means
// anything to another.
func TestCalendarsOfTenants(t *testing.T) {
	tt := &Timetable{}
	for name, date := range map[string]string{
		"us": "2060-01-01", "acme/us": "2060-02-02", "acme/office": "2060-03-03", "default/us": "2060-04-04",
	} {
		if err := tt.PutCalendar(name, []string{date}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		tenant, name, want string // "": there is none
	}{
		{"acme", "us", "acme/us"},
		{"acme", "office", "acme/office"},
		{"blue", "us", "us"},
		{"blue", "office", ""},
		{DefaultTenant, "us", "default/us"},
		{DefaultTenant, "office", ""},
		{"acme", "none", ""},
		{"blue", "acme/us", ""},
		{"acme", "acme/us", ""},
	} {
		set, ok := tt.Calendar(c.tenant, c.name)
		if ok != (c.want != "") {
			t.Errorf("%s of %s: %v", c.name, c.tenant, ok)
		}
		if ok && !slices.Equal(set, tt.Calendars[c.want]) {
			t.Errorf("%s of %s: %v, want %s", c.name, c.tenant, set, c.want)
		}
	}
	for _, c := range []struct {
		key      Key
		names    string
		calendar string
		want     bool
	}{
		{"acme/x", "us", "us", true},
		{"acme/x", "us", "acme/us", true},
		{"blue/x", "us", "acme/us", false},
		{"x", "us", "default/us", true},
		{"x", "us", "acme/us", false},
		{"acme/x", "us", "acme/office", false},
		{"acme/x", "us", "", true},
	} {
		s := &State{Key: c.key, Spec: Spec{When: When{Calendars: &Calendars{Names: []string{c.names}}}}}
		if got := s.Uses(c.calendar); got != c.want {
			t.Errorf("%s that names %s uses %q: %v", c.key, c.names, c.calendar, got)
		}
	}
}
