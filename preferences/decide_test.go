package preferences

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

func decoded(t testing.TB, text string) *Preferences {
	t.Helper()
	p, err := Decode([]byte(text), calendar.Embedded())
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func TestDecide(t *testing.T) {
	const night = `"timezone":"Europe/Berlin","quiet_hours":{"from":"22:00","to":"07:00"`
	at := time.Date(2026, 11, 24, 22, 30, 0, 0, time.UTC) // 23:30 in Berlin, a Tuesday
	until := "2026-11-25T06:00:00Z"
	for _, c := range []struct {
		name, prefs string
		due         Due
		want        string
	}{
		{"nothing said", `{}`, Due{Channel: "sms"}, "send"},
		{"opted out", `{"opted_out_channels":["SMS"]}`, Due{Channel: "sms"}, "suppress opted_out"},
		{"the channel in capitals", `{"opted_out_channels":["sms"]}`, Due{Channel: "SMS"}, "suppress opted_out"},
		{"opt-outs bind high", `{"opted_out_channels":["sms"]}`, Due{Channel: "sms", High: true}, "suppress opted_out"},
		{"opted out of another", `{"opted_out_channels":["sms"]}`, Due{Channel: "push"}, "send"},
		{"type", `{"notification_types":{"m":false}}`, Due{Channel: "sms", Type: "m"}, "suppress notification_type"},
		{
			"types bind high", `{"notification_types":{"m":false}}`,
			Due{Channel: "sms", Type: "m", High: true},
			"suppress notification_type",
		},
		{"type in another case", `{"notification_types":{"m":false}}`, Due{Channel: "sms", Type: "M"}, "send"},
		{"no type", `{"notification_types":{"m":false}}`, Due{Channel: "sms"}, "send"},
		{
			"type on this channel", `{"notification_types":{"m":{"Sms":false}}}`,
			Due{Channel: "sms", Type: "m"},
			"suppress notification_type",
		},
		{"type on another", `{"notification_types":{"m":{"sms":false}}}`, Due{Channel: "push", Type: "m"}, "send"},
		{"type on no channel", `{"notification_types":{"m":{}}}`, Due{Channel: "push", Type: "m"}, "send"},
		{"type wanted", `{"notification_types":{"m":true}}`, Due{Channel: "push", Type: "m"}, "send"},
		{"quiet", `{` + night + `}}`, Due{Channel: "push"}, "postpone quiet_hours " + until},
		{"high passes", `{` + night + `}}`, Due{Channel: "push", High: true}, "send"},
		{"webhook passes", `{` + night + `}}`, Due{Channel: "webhook"}, "send"},
		{
			"webhook named", `{` + night + `,"channels":["webhook"]}}`,
			Due{Channel: "webhook"},
			"postpone quiet_hours " + until,
		},
		{"push not named", `{` + night + `,"channels":["sms"]}}`, Due{Channel: "push"}, "send"},
		{"begins on a Tuesday", `{` + night + `,"days":["TU"]}}`, Due{Channel: "push"}, "postpone quiet_hours " + until},
		{"begins on another", `{` + night + `,"days":["MO","WE"]}}`, Due{Channel: "push"}, "send"},
		{
			"opted out goes before quiet", `{` + night + `},"opted_out_channels":["push"]}`,
			Due{Channel: "push"},
			"suppress opted_out",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := words(decoded(t, c.prefs).Decide(c.due, at, calendar.Embedded())); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func words(d Decision) string {
	s := d.Outcome.String()
	if d.Code != "" {
		s += " " + d.Code
	}
	if !d.Until.IsZero() {
		s += " " + d.Until.Format(time.RFC3339)
	}
	return s
}

// TestClockChanges tests quiet hours across both clock changes of 2026, in twelve zones. Each row
// is quiet from the first instant until just before the last.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct{ zone, from, to, begins, ends string }{
		// Spring, northern hemisphere: 02:00 becomes 03:00 (London 01:00, Lord Howe in October by
		// 30 minutes).
		{"Europe/Berlin", "22:00", "07:00", "2026-03-28T21:00:00Z", "2026-03-29T05:00:00Z"},
		{"Europe/Berlin", "02:30", "06:00", "2026-03-29T01:30:00Z", "2026-03-29T04:00:00Z"}, // 02:30 becomes 03:30
		{"Europe/Berlin", "22:00", "02:30", "2026-03-28T21:00:00Z", "2026-03-29T01:30:00Z"},
		{"Europe/London", "00:30", "01:15", "2026-03-29T00:30:00Z", "2026-03-29T01:15:00Z"}, // 01:15 becomes 02:15
		{"America/New_York", "22:00", "07:00", "2026-03-08T03:00:00Z", "2026-03-08T11:00:00Z"},
		{"America/New_York", "02:00", "04:00", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"},
		{"America/Los_Angeles", "21:00", "06:30", "2026-03-08T05:00:00Z", "2026-03-08T13:30:00Z"},
		{"America/Santiago", "23:30", "00:30", "2026-09-06T03:30:00Z", "2026-09-06T04:30:00Z"}, // 00:30 becomes 01:30
		{"Africa/Cairo", "23:00", "00:30", "2026-04-23T21:00:00Z", "2026-04-23T22:30:00Z"},
		{"Australia/Sydney", "22:00", "07:00", "2026-10-03T12:00:00Z", "2026-10-03T20:00:00Z"},
		{"Australia/Lord_Howe", "02:15", "05:00", "2026-10-03T15:45:00Z", "2026-10-03T18:00:00Z"},
		{"Pacific/Auckland", "22:00", "02:30", "2026-09-26T10:00:00Z", "2026-09-26T14:30:00Z"},
		// Autumn: an hour occurs twice, and the first one counts.
		{"Europe/Berlin", "22:00", "07:00", "2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z"},
		{"Europe/Berlin", "02:30", "07:00", "2026-10-25T00:30:00Z", "2026-10-25T06:00:00Z"},
		{"Europe/Berlin", "22:00", "02:30", "2026-10-24T20:00:00Z", "2026-10-25T00:30:00Z"},
		{"Europe/London", "01:15", "01:45", "2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z"},
		{"America/New_York", "00:00", "01:30", "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z"},
		{"America/Los_Angeles", "21:00", "06:30", "2026-11-01T04:00:00Z", "2026-11-01T14:30:00Z"},
		{"America/Santiago", "22:00", "06:00", "2026-04-05T01:00:00Z", "2026-04-05T10:00:00Z"},
		{"Africa/Cairo", "23:30", "06:00", "2026-10-29T20:30:00Z", "2026-10-30T04:00:00Z"},
		{"Australia/Sydney", "22:00", "02:30", "2026-04-04T11:00:00Z", "2026-04-04T15:30:00Z"},
		{"Australia/Lord_Howe", "01:45", "05:00", "2026-04-04T14:45:00Z", "2026-04-04T18:30:00Z"},
		{"Pacific/Auckland", "22:00", "07:00", "2026-04-04T09:00:00Z", "2026-04-04T19:00:00Z"},
		// No clock change, and a zone with an offset of half an hour.
		{"Asia/Kolkata", "22:00", "07:00", "2026-03-28T16:30:00Z", "2026-03-29T01:30:00Z"},
		{"Asia/Tokyo", "23:00", "24:00", "2026-03-28T14:00:00Z", "2026-03-28T15:00:00Z"},
		{"Pacific/Apia", "13:00", "14:00", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
	} {
		t.Run(fmt.Sprint(c.zone, " ", c.from, " ", c.begins), func(t *testing.T) {
			p := decoded(t, fmt.Sprintf(`{"timezone":%q,"quiet_hours":{"from":%q,"to":%q}}`, c.zone, c.from, c.to))
			begins, ends := instant(t, c.begins), instant(t, c.ends)
			for _, row := range []struct {
				at    time.Time
				quiet bool
			}{
				{begins.Add(-time.Millisecond), false},
				{begins, true},
				{ends.Add(-time.Millisecond), true},
				{ends, false},
			} {
				d := p.Decide(Due{Channel: "push"}, row.at, calendar.Embedded())
				if (d.Outcome == Postpone) != row.quiet || row.quiet && !d.Until.Equal(ends) {
					t.Errorf("at %s: %s, want quiet %v until %s", row.at.Format(time.RFC3339Nano), words(d), row.quiet,
						c.ends)
				}
			}
		})
	}
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Adjacent whole days are one period: Saturday's quiet hours continue into Sunday.
func TestJoined(t *testing.T) {
	p := decoded(t, `{"timezone":"Asia/Tokyo","quiet_hours":{"from":"00:00","to":"24:00","days":["SA","SU"]}}`)
	d := p.Decide(Due{Channel: "push"}, instant(t, "2026-11-20T15:00:00Z"), calendar.Embedded())
	if got := words(d); got != "postpone quiet_hours 2026-11-22T15:00:00Z" {
		t.Error(got)
	}
}

// walk is the oracle: the local clock of a zone, minute by minute, from package time. It does not
// use package calendar.
type walk struct {
	start time.Time
	wall  []int64         // minutes since 1970 on the local clock, by minute of the walk
	first map[int64]int64 // the first minute of the walk that shows this local time
}

func walkOf(loc *time.Location, start time.Time, minutes int) *walk {
	w := &walk{start: start, first: map[int64]int64{}}
	for i := range minutes {
		_, off := start.Add(time.Duration(i) * time.Minute).In(loc).Zone()
		wall := start.Unix()/60 + int64(i) + int64(off)/60
		if _, read := w.first[wall]; !read {
			w.first[wall] = int64(i)
		}
		w.wall = append(w.wall, wall)
	}
	return w
}

// when returns the minute of the walk for a local time: the first that shows it. A local time in
// a gap is as many minutes after the jump as it is after the start of the gap.
func (w *walk) when(wall int64) (minute int64, ok bool) {
	if i, read := w.first[wall]; read {
		return i, true
	}
	for i := 1; i < len(w.wall); i++ {
		if w.wall[i-1] < wall && wall < w.wall[i] {
			return int64(i) + wall - w.wall[i-1] - 1, true
		}
	}
	return 0, false
}

// quiet marks the quiet minutes.
func (w *walk) quiet(from, to int, days Days) []bool {
	marked := make([]bool, len(w.wall))
	for day := w.wall[0]/minutesPerDay - 1; day <= w.wall[len(w.wall)-1]/minutesPerDay; day++ {
		if weekday := (day + 4) % 7; days != 0 && days&(1<<weekday) == 0 {
			continue
		}
		end := day*minutesPerDay + int64(to)
		if to <= from {
			end += minutesPerDay
		}
		a, okA := w.when(day*minutesPerDay + int64(from))
		b, okB := w.when(end)
		for i := a; okA && okB && i < b; i++ {
			marked[i] = true
		}
	}
	return marked
}

// TestWalk compares the decision with the oracle at every minute of two weeks around a clock
// change.
func TestWalk(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	zones := []string{
		"Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "America/Santiago",
		"America/St_Johns", "Africa/Cairo", "Africa/Casablanca", "Asia/Kathmandu", "Australia/Sydney",
		"Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "America/Havana", "UTC",
	}
	changes := []string{
		"2026-02-15", "2026-03-08", "2026-03-29", "2026-04-05", "2026-04-24", "2026-09-06", "2026-09-27",
		"2026-10-04", "2026-10-25", "2026-10-30", "2026-11-01",
	}
	for range 400 {
		name := zones[r.IntN(len(zones))]
		middle := instant(t, changes[r.IntN(len(changes))]+"T00:00:00Z")
		compare(t, r, name, middle.Add(-7*24*time.Hour), 14*24*60)
	}
	compare(t, r, "Pacific/Apia", instant(t, "2011-12-26T00:00:00Z"), 10*24*60) // the 30th was skipped
}

func compare(t *testing.T, r *rand.Rand, name string, start time.Time, minutes int) {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	zone, err := calendar.Embedded().Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	q := &Quiet{From: r.IntN(minutesPerDay), To: 1 + r.IntN(minutesPerDay)}
	if r.IntN(2) == 0 { // near the change
		q.From, q.To = r.IntN(200), 1+r.IntN(300)
	}
	if q.From == q.To {
		q.To++
	}
	if r.IntN(2) == 0 {
		q.Days = Days(1 + r.IntN(allDays-1))
	}
	const margin = 3 * 24 * 60
	w := walkOf(loc, start, minutes)
	marked := w.quiet(q.From, q.To, q.Days)
	for i := margin; i < minutes-margin; i++ {
		end, quiet := q.until(start.UnixMilli()+int64(i)*msPerMinute, zone)
		want := i
		for want < len(marked) && marked[want] {
			want++
		}
		if want == len(marked) {
			continue // the walk ended first
		}
		if got := (end - start.UnixMilli()) / msPerMinute; quiet != marked[i] || quiet && got != int64(want) {
			t.Fatalf("%s, %s to %s, days %b, at %s: quiet %v until minute %d, want %v until %d", name, clock(q.From),
				clock(q.To), q.Days, start.Add(time.Duration(i)*time.Minute).In(loc), quiet, got, marked[i], want)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	p := decoded(b, `{"opted_out_channels":["sms"],"notification_types":{"m":{"sms":false}},
		"timezone":"Europe/Berlin","quiet_hours":{"from":"22:00","to":"07:00","days":["MO","TU","SA"]}}`)
	now, zones := instant(b, "2026-11-24T22:30:00Z"), calendar.Embedded()
	for b.Loop() {
		p.Decide(Due{Channel: "push", Type: "m"}, now, zones)
	}
}
