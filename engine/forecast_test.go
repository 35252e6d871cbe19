package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/trigger"
)

// oracleSeries are series as a register and POST /v1/preview spell them.
var oracleSeries = []struct{ recurrence, zone, start, gap, overlap, jitter string }{
	{recurrence: "RRULE:FREQ=DAILY", zone: "America/New_York", start: "2026-01-01T01:30"},
	{recurrence: "RRULE:FREQ=DAILY", zone: "America/New_York", start: "2026-01-01T01:30", overlap: "both"},
	{recurrence: "RRULE:FREQ=DAILY", zone: "America/New_York", start: "2026-01-01T02:30"},
	{recurrence: "RRULE:FREQ=DAILY", zone: "America/New_York", start: "2026-01-01T02:30", gap: "skip"},
	{recurrence: "RRULE:FREQ=WEEKLY;BYDAY=SU", zone: "Europe/Berlin", start: "2026-01-04T02:15", jitter: "30m"},
	{recurrence: "cron:30 1,2 * * *", zone: "Europe/London", overlap: "both"},
	{recurrence: "cron:*/30 * * * *", zone: "America/New_York", jitter: "10m"},
	{recurrence: "cron:0 0 * * *", zone: "Australia/Lord_Howe", jitter: "2h"},
	{recurrence: "every:7m", zone: "UTC", start: "2026-01-01T00:00:00Z"},
	{recurrence: "RRULE:FREQ=HOURLY;INTERVAL=5", zone: "Africa/Casablanca", start: "2026-01-01T00:20"},
}

// The picture of a series is what POST /v1/preview lists, bucket by bucket, over days on
// which clocks change; and due is when each would fire.
func TestForecastIsPreview(t *testing.T) {
	m := trigger.Machine{
		Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
		Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
		Channel:   func(string) trigger.Channel { return trigger.Channel{Topic: "waterclock.due.default"} },
	}
	for _, at := range []string{ // before clocks go forward, before they go back, and within such a day
		"2026-03-01T12:00:31Z", "2026-10-20T23:59:59.5Z", "2026-11-01T05:31:00Z", "2027-02-10T08:00:00Z",
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range oracleSeries {
			jitter, _ := time.ParseDuration(c.jitter)
			spec := &trigger.Spec{Channel: "default", Priority: trigger.Normal, Jitter: jitter, When: trigger.When{
				Kind: trigger.WhenRecurrence, Recurrence: c.recurrence, Zone: c.zone, Start: c.start,
				DST: trigger.DST{Gap: c.gap, Overlap: c.overlap},
			}}
			key := trigger.Key(fmt.Sprint("acme/s", i))
			out := m.Apply(nil, &trigger.Command{
				Op: trigger.OpRegister, Key: key, From: trigger.Origin{Append: trigger.At(now)}, Spec: spec,
			}, trigger.At(now))
			if out.Rejected != nil {
				t.Fatal(c, out.Rejected)
			}
			for frame, f := range forecast.Frames {
				s := painting{
					machine: m, builder: forecast.NewBuilder(f, now.UnixMilli()), state: *out.State,
					end: trigger.Instant(f.EndOf(now.UnixMilli())) - 1,
				}
				s.visit()
				got := s.builder.Picture().Answer(forecast.Query{
					Frame: frame, FirstMS: f.First(now.UnixMilli()), N: f.Buckets, Tenant: "acme", By: "channel",
				})
				want := make([]forecast.Count, f.Buckets)
				put := func(at trigger.Instant, c forecast.Count) {
					if b := (int64(at) - f.First(now.UnixMilli())) / f.Width.Milliseconds(); b < int64(f.Buckets) {
						want[b].Nominal += c.Nominal
						want[b].Due += c.Due
					}
				}
				listed := previewed(t, i, now, f.Width*time.Duration(f.Buckets))
				for _, at := range listed {
					put(at, forecast.Count{Nominal: 1})
				}
				for st := out.State; st.Series.At != 0 && st.Series.At <= s.end; { // fires one after the other
					timer := st.Timers(nil)[0]
					put(timer.Due, forecast.Count{Due: 1})
					st = m.Due(st, timer, timer.Due).State
				}
				for b := range want {
					if got.Counts[b] != want[b] || want[b].Due != 0 && got.By["default"][b] != want[b].Due {
						t.Fatalf("%s: %+v, %s, bucket %d of %s: %+v, preview has %+v of %d", at, c, f.Name, b,
							time.UnixMilli(f.First(now.UnixMilli())).UTC(), got.Counts[b], want[b], len(listed))
					}
				}
				if f.Width == time.Hour && len(listed) < 10 {
					t.Errorf("%+v: preview lists %d, which proves little", c, len(listed))
				}
			}
		}
	}
}

// previewed asks preview for a series, up to a time.
func previewed(t *testing.T, i int, now time.Time, ahead time.Duration) (all []trigger.Instant) {
	t.Helper()
	c := oracleSeries[i]
	for after := now; ; {
		body := map[string]any{
			"recurrence": c.recurrence, "timezone": c.zone, "after": after.UTC().Format(time.RFC3339Nano), "n": 1000,
		}
		if c.start != "" {
			body["start"] = c.start
		} else {
			body["start"] = now.UTC().Format(time.RFC3339Nano)
		}
		if c.gap+c.overlap != "" {
			dst := map[string]string{}
			if c.gap != "" {
				dst["gap"] = c.gap
			}
			if c.overlap != "" {
				dst["overlap"] = c.overlap
			}
			body["dst"] = dst
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, problem := calendar.Preview(calendar.Embedded(), raw, now.UnixMilli())
		if problem != nil {
			t.Fatal(c, problem)
		}
		for _, o := range resp.Occurrences {
			at, err := time.Parse(time.RFC3339, o.At)
			if err != nil {
				t.Fatal(err)
			}
			if at.Sub(now) > ahead {
				return all
			}
			all, after = append(all, trigger.At(at)), at
		}
		if len(resp.Occurrences) == 0 {
			return all
		}
	}
}
