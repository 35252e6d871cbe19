package calendar

import (
	"encoding/json"
	"testing"
)

// FuzzCompile: any text is refused with an *Error or makes a rule whose
// occurrences rise strictly and stay within the calendar.
func FuzzCompile(f *testing.F) {
	for _, r := range hostileRules {
		f.Add(r, "2026-01-15T09:00", "America/New_York")
	}
	for _, c := range timeCases(f) {
		f.Add(c.Rule, c.Start, c.Zone)
	}
	for _, s := range []string{
		"cron:*/5 9-17 LW,15W * FRI#2,5L", "cron:@daily", "every:15m", "every:P1DT1H",
		"FREQ=DAILY;UNTIL=20261231", "RRULE:",
	} {
		f.Add(s, "", "UTC")
	}
	f.Fuzz(func(t *testing.T, rule, start, zone string) {
		r, err := Compile(Embedded(), Spec{
			Recurrence: rule, Start: start, Zone: zone, Append: now,
			Limits: Limits{}.Preview(),
		})
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Code == "" || e.Msg == "" {
				t.Fatalf("%q: error %#v", rule, err)
			}
			return
		}
		at := int64(minInstant)
		for range 20 {
			o, ok, err := r.Next(at)
			if codeOf(err) == CodeInvalidRule { // too many steps
				break
			}
			if err != nil {
				t.Fatalf("%q %q %q: %v", rule, start, zone, err)
			}
			if !ok {
				break
			}
			if o.At <= at || o.At > maxInstant+2*msPerDay {
				t.Fatalf("%q %q %q: %d after %d", rule, start, zone, o.At, at)
			}
			at = o.At
		}
		if r.Describe() == "" || r.Period() < 0 {
			t.Fatalf("%q: described %q, period %s", rule, r.Describe(), r.Period())
		}
		if _, err := Compile(Embedded(), Spec{
			Recurrence: rule, Start: r.Start(), Zone: zone, Append: now,
			Limits: Limits{}.Preview(),
		}); err != nil && r.Start() != "" {
			t.Fatalf("%q: its own start %q: %v", rule, r.Start(), err)
		}
	})
}

// FuzzTexts: the small parsers never panic, and what they read back agrees.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{
		"7m", "PT7M", "P1DT2H", "1.5h", "2026-11-20T14:00:00Z", "2026-11-20T09:00:00.123-05:00",
		"1795183200123", "2026-11-20T09:00", "2026-12-25",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil && (d < 0 || d > maxDelay) {
			t.Fatalf("%q is %s", s, d)
		}
		if ms, err := ParseInstant(s); err == nil && ms >= int64(minDay)*msPerDay && ms <= maxInstant {
			if second, err := ParseInstant(utcString(ms)); err != nil || second != ms {
				t.Fatalf("%q is %d is %d %v", s, ms, second, err)
			}
		}
		if w, err := ParseWall(s); err == nil && w < Wall(maxInstant) {
			if second, err := ParseWall(w.String()); err != nil || second != w {
				t.Fatalf("%q is %s is %s %v", s, w, second, err)
			}
		}
		if d, err := ParseDate(s); err == nil && d.String() != s {
			t.Fatalf("%q is %s", s, d)
		}
	})
}

// FuzzPreview: a body is answered or refused, and answers are JSON.
func FuzzPreview(f *testing.F) {
	for _, s := range []string{
		`{"fire_at":"2026-03-08T02:30","timezone":"America/New_York","dst":{"gap":"skip"}}`,
		`{"id":1,"recurrence":"FREQ=DAILY","start":"2026-11-01T01:30","include":["2027-01-01"],"exclude":["2026-12-25"],"until":"2028-01-01T00:00:00Z","n":3}`,
		`{"delay":420,"after":1795183200}`,
		`{"recurrence":"cron:0 9 * * 1-5","count":3,"calendars":{"names":[],"on":"skip"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		resp, e := Preview(Embedded(), body, now)
		if e != nil {
			if e.Code == "" || e.Msg == "" {
				t.Fatalf("%q: %#v", body, e)
			}
			return
		}
		if _, err := json.Marshal(resp); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
	})
}

// FuzzZones: a database that is not one is refused, never a panic.
func FuzzZones(f *testing.F) {
	f.Add([]byte("PK"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		if z, err := LoadZones(blob, "x"); err == nil && len(z.Names()) == 0 {
			t.Fatal("an empty database was accepted")
		}
	})
}
