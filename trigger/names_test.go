package trigger

import (
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// Anybody may redrive an occurrence of any name. A rule that comes after it is planned, and leaves out nothing.
func TestRuleAfterARedriveOfAnyName(t *testing.T) {
	for _, name := range []string{
		"x", "2026", "2026-13-99", "no name that a plan makes", strings.Repeat("\xff", 10),
	} {
		dead := &Fire{
			Key: "k", Occurrence: name, Channel: "default", Attempt: 1, Nominal: noteNow.Add(-time.Hour),
			Spec: &Spec{Channel: "default"},
		}
		s := noteApplied(nil, Command{Op: OpRedrive, Dead: dead})
		for _, timer := range s.Timers(nil) {
			s = noteMachine.Due(s, timer, noteNow).State
		}
		if s.Status != Fired || len(s.Done) != 1 || s.Done[0].Occurrence != name {
			t.Fatalf("%q: it has not gone out: %+v", name, s)
		}
		spec := dailySpec()
		register := Command{Key: "k", From: Origin{Append: noteNow}, Op: OpRegister, Spec: spec, Hash: contentOf(spec)}
		out := noteMachine.Apply(s, &register, noteNow)
		if out.Rejected != nil || out.State.Series.At == 0 || len(out.State.Series.Skip) != 0 {
			t.Errorf("%q: %v, the plan is %+v, facts %+v", name, out.Rejected, out.State.Series, out.Facts)
		}
	}
}

// A run that no due topic took goes on with its next step. That is then its first firing, and has the note.
func TestNoteOfARunWhoseFirstStepNeverWentOut(t *testing.T) {
	spec := dailySpec()
	spec.Escalation = []Step{{Channel: "push"}, {After: time.Minute, Channel: "sms"}}
	s := noteApplied(nil, Command{Op: OpRegister, Spec: spec})
	s = noteApplied(s, Command{Op: OpRunNow, Note: "asked by phone"})
	l := &s.Live[0]
	l.Kind, l.NextStep = LiveEscalating, noteNow.Add(time.Minute)
	s.Status = InFlight
	for _, timer := range s.Timers(nil) {
		if timer.Kind != TimerLive {
			continue
		}
		out := noteMachine.Due(s, timer, timer.Due)
		got := ""
		for _, f := range out.Facts {
			if f.Type == OccurrenceFired {
				got = f.Detail
			}
		}
		if got != "asked by phone" {
			t.Errorf("facts %+v", out.Facts)
		}
		for _, l := range out.State.Live {
			if l.Note != "" {
				t.Errorf("%+v still has the note", l)
			}
		}
	}
}

// What is decided by two sets of steps is decided by what raise makes of them, and nothing else.
func TestRaise(t *testing.T) {
	sets := [][]NameStep{
		nil,
		{{wallDay - 1, 5}},
		{{10, 7}, {wallDay - 1, 5}},
		{{20, 6}, {wallDay - 1, 6}},
		{{5, 4}, {30, 9}, {wallDay - 1, 3}},
	}
	for _, a := range sets {
		for _, b := range sets {
			both := raise(a, b)
			for _, tod := range []calendar.Wall{0, 5, 6, 10, 11, 20, 21, 30, 31, wallDay - 1} {
				for day := range calendar.Wall(11) {
					name := day*wallDay + tod
					if got, want := below(both, name), below(a, name) || below(b, name); got != want {
						t.Errorf("%v and %v: %v: %d of day %d: %v", a, b, both, tod, day, got)
					}
				}
			}
			for i := range both[:max(0, len(both)-1)] {
				if both[i].Day == both[i+1].Day {
					t.Errorf("%v and %v: %v has a step too many", a, b, both)
				}
			}
		}
	}
}

// However many steps there would be, at most 64 are kept. What was decided stays so.
func TestRaiseIsBounded(t *testing.T) {
	var steps []NameStep
	decided := map[calendar.Wall]bool{}
	for i := range calendar.Wall(500) {
		day := calendar.Date(1 + i*7919%100)
		steps = raise(steps, []NameStep{{i, 0}, {i + 1, day}, {wallDay - 1, 0}})
		decided[calendar.Wall(day)*wallDay+i+1] = true
		if len(steps) > maxSteps {
			t.Fatalf("%d steps", len(steps))
		}
	}
	for name := range decided {
		if !below(steps, name) {
			t.Errorf("%v is no longer decided", name)
		}
	}
}

// Skip may have no room for what an edit of a calendar gives back. A run of missed occurrences asks for names, too.
func TestMissedRunWithAFullSkip(t *testing.T) {
	m := newMachine()
	put := func(dates ...string) {
		if err := m.Timetable.PutCalendar("closed", dates); err != nil {
			t.Fatal(err)
		}
	}
	put("2026-12-24")
	start := instant("2026-12-23T08:00:00Z")
	spec := dailySpec()
	spec.When.Recurrence, spec.When.Start = "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0", "2026-12-23T00:00:00"
	spec.When.Calendars = &Calendars{Names: []string{"closed"}, On: calendar.OnPrevious}
	register := Command{Key: "k", From: Origin{Append: start}, Op: OpRegister, Spec: spec, Hash: contentOf(spec)}
	s := m.Apply(nil, &register, start).State
	s = m.Due(s, s.Timers(nil)[0], s.Series.At).State // 23T09 and 24T09
	for i := range maxSkips {
		day := calendar.Wall(s.CreatedAt) + calendar.Wall(i)*1000
		s.Series.Skip = append(s.Series.Skip, day.String())
	}
	put("2027-12-24")
	now := instant("2026-12-24T10:00:00Z")
	s = m.Replan(s, instant("2026-12-23T12:00:00Z"), "calendar").State
	out := m.Due(s, s.Timers(nil)[0], now)
	if len(out.Fires) != 1 || out.Fires[0].Occurrence != "2026-12-23T17:00:00" || out.Facts[0].Count != 1 {
		t.Errorf("facts %+v, due events %+v", out.Facts, out.Fires)
	}
}

// After a rezone, names say what is decided until the clocks of the new zone have shown all of it. From then on the
// state is one of an older format again.
func TestNamesGoAfterARezone(t *testing.T) {
	m, now := newMachine(), instant("2026-03-02T01:00:00Z")
	spec := dailySpec()
	spec.When.Recurrence, spec.When.Start, spec.When.Zone = "FREQ=DAILY;BYHOUR=12;BYMINUTE=0", "", "Asia/Tokyo"
	apply := func(s *State, c Command) *State {
		c.Key, c.From = "k", Origin{Append: now}
		out := m.Apply(s, &c, now)
		if out.Rejected != nil {
			t.Fatal(out.Rejected)
		}
		return out.State
	}
	fire := func(s *State) *State {
		now = s.Series.At
		return m.Due(s, s.Timers(nil)[0], now).State
	}
	s := fire(apply(nil, Command{Op: OpRegister, Spec: spec, Hash: contentOf(spec)}))
	if len(s.Series.Decided)+len(s.Series.Begun) != 0 {
		t.Errorf("it has not moved, and has %+v", s.Series)
	}
	now = instant("2026-03-02T03:30:00Z")
	s = apply(s, Command{Op: OpRezone, Zone: "America/New_York"})
	if len(s.Series.Decided) == 0 {
		t.Errorf("12:00 of that day has fired in Tokyo, and is still to come: %+v", s.Series)
	}
	if s = fire(s); len(s.Series.Decided)+len(s.Series.Begun) != 0 {
		t.Errorf("12:00 of the next day has fired, and it has %+v", s.Series)
	}
	s = apply(apply(nil, Command{Op: OpRegister, Spec: spec, Hash: contentOf(spec)}), Command{Op: OpCancel})
	s = apply(s, Command{Op: OpRegister, Spec: spec, Hash: contentOf(spec)})
	other := *spec
	other.When.Zone = "Asia/Seoul"
	s = apply(s, Command{Op: OpRegister, Spec: &other, Hash: contentOf(&other)})
	if len(s.Series.Decided)+len(s.Series.Begun) != 0 {
		t.Errorf("nothing has fired in Tokyo, and it has %+v", s.Series)
	}
}

// On a weekend nothing fires: what is named after a Friday fires on the Monday at the earliest. A plan that began to
// look on the Saturday would, at each firing of the Monday, look at all that fired before on that day.
func TestDayAfter(t *testing.T) {
	m := newMachine()
	if err := m.Timetable.PutCalendar("closed", []string{"2026-12-24"}); err != nil { // a Thursday
		t.Fatal(err)
	}
	for _, c := range []struct{ on, day, want string }{
		{calendar.OnNext, "2026-12-17", "2026-12-18"},
		{calendar.OnNext, "2026-12-18", "2026-12-21"},
		{calendar.OnNext, "2026-12-19", "2026-12-21"},
		{calendar.OnNext, "2026-12-23", "2026-12-25"},
		{calendar.OnNext, "2026-12-25", "2026-12-28"},
		{calendar.OnPrevious, "2026-12-18", "2026-12-18"}, // on which what is named after Saturday fires
		{calendar.OnPrevious, "2026-12-20", "2026-12-21"},
		{calendar.OnPrevious, "2026-12-23", "2026-12-23"},
		{calendar.OnPrevious, "2026-12-24", "2026-12-25"},
	} {
		w := dailySpec().When
		w.Calendars = &Calendars{Names: []string{"closed"}, On: c.on}
		r, fault := m.Timetable.compile(&w, "", "2026-12-01T00:00:00", instant("2026-12-01T00:00:00Z"))
		day, err := calendar.ParseDate(c.day)
		if fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		if got := (&names{rule: r}).dayAfter(day).String(); got != c.want {
			t.Errorf("%s: what is named after %s fires from %s on, want %s", c.on, c.day, got, c.want)
		}
	}
}
