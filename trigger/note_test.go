package trigger

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// The note of each op is the detail of one fact, the one about the command, whatever else
// follows from it.
func TestNotes(t *testing.T) {
	const why = "asked by phone"
	for _, c := range []struct {
		name string
		old  *State
		c    Command
		want FactType
	}{
		{"register", nil, Command{Op: OpRegister, Spec: dailySpec()}, Registered},
		{"replace", noteLiving(), Command{Op: OpRegister, Spec: dailySpec(), Hash: Hash{1}}, Replaced},
		{"repeat", noteLiving(), Command{Op: OpRegister, Spec: dailySpec()}, Duplicate},
		{"cancel, a snooze beside", noteSnoozed(), Command{Op: OpCancel}, CancelledFact},
		{"cancel of nothing", nil, Command{Op: OpCancel}, CancelTooLate},
		{"reschedule", noteLiving(), Command{Op: OpReschedule, Spec: dailySpec()}, Rescheduled},
		{"snooze", noteLiving(), Command{Op: OpSnooze, For: time.Minute}, Snoozed},
		{"snooze, one too many", noteCrowded(), Command{Op: OpSnooze, For: time.Minute}, Snoozed},
		{"skip", noteLiving(), Command{Op: OpSkip}, Skipped},
		{"pause", noteLiving(), Command{Op: OpPause}, PausedFact},
		{"resume, not paused", noteLiving(), Command{Op: OpResume}, Duplicate},
		{"rezone", noteLiving(), Command{Op: OpRezone, Zone: "Asia/Tokyo"}, Rescheduled},
		{"erase, a snooze beside", noteSnoozed(), Command{Op: OpErase}, ErasedFact},
	} {
		c.c.Key, c.c.Note, c.c.From = "k", why, Origin{Append: noteNow}
		out := noteMachine.Apply(c.old, &c.c, noteNow)
		if out.Rejected != nil {
			t.Errorf("%s: %v", c.name, out.Rejected)
			continue
		}
		noted := 0
		for _, f := range out.Facts {
			if f.Detail != why {
				continue
			}
			if noted++; f.Type != c.want {
				t.Errorf("%s: the note is of %s, want %s", c.name, f.Type, c.want)
			}
		}
		if noted != 1 {
			t.Errorf("%s: %d of %d facts have the note", c.name, noted, len(out.Facts))
		}
	}
}

// A run has no fact of its own. Its note waits with the occurrence, and is the detail of its firing, or of its expiry.
// A later attempt does not tell it again.
func TestNoteOfRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		expires time.Duration
		late    time.Duration
		want    FactType
	}{
		{"in time", 0, 0, OccurrenceFired},
		{"expired", time.Minute, time.Hour, OccurrenceExpired},
	} {
		spec := dailySpec()
		spec.Expires = c.expires
		s := noteApplied(nil, Command{Op: OpRegister, Spec: spec})
		s = noteApplied(s, Command{Op: OpRunNow, Note: "asked by phone"})
		if len(s.Live) != 1 || s.Live[0].Note != "asked by phone" {
			t.Fatalf("%s: live %+v", c.name, s.Live)
		}
		for _, timer := range s.Timers(nil) {
			if timer.Kind != TimerLive {
				continue
			}
			out := noteMachine.Due(s, timer, timer.Due.Add(c.late))
			if len(out.Facts) != 1 || out.Facts[0].Type != c.want || out.Facts[0].Detail != "asked by phone" {
				t.Errorf("%s: facts %+v", c.name, out.Facts)
			}
			for _, l := range out.State.Live {
				if l.Note != "" {
					t.Errorf("%s: %+v still has the note", c.name, l)
				}
			}
		}
	}
}

const noteNow = Instant(1_795_000_000_000)

var noteMachine = &Machine{
	Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
	Timetable: &Timetable{Zones: calendar.Embedded()},
	Channel:   func(string) Channel { return Channel{Topic: "due"} },
}

func dailySpec() *Spec {
	return &Spec{Channel: "default", When: When{
		Kind: WhenRecurrence, Recurrence: "FREQ=DAILY", Start: "2026-01-01T09:00", Zone: "Europe/Berlin",
	}}
}

func noteApplied(s *State, c Command) *State {
	c.Key, c.From = "k", Origin{Append: noteNow}
	return noteMachine.Apply(s, &c, noteNow).State
}

func noteLiving() *State { return noteApplied(nil, Command{Op: OpRegister, Spec: dailySpec()}) }

// noteSnoozed has a snooze beside its plan, which a cancel reports too.
func noteSnoozed() *State { return noteApplied(noteLiving(), Command{Op: OpSnooze, For: time.Hour}) }

// noteCrowded has as many live occurrences as there may be, so that a snooze fails one.
func noteCrowded() *State {
	s := noteLiving()
	for i := range MaxLive {
		s.Live = append(s.Live, Live{
			Kind: LiveRetry, Occurrence: "run-0-" + string(rune('a'+i)), Nominal: noteNow - 1, Due: noteNow + 1,
			Attempt: 1,
		})
	}
	return s
}

// An edit of a calendar that no walk has reached is planned for before a rezone. The note is about the rezone.
func TestNoteBehindAReplan(t *testing.T) {
	m := newMachine()
	put := func(date string) {
		if err := m.Timetable.PutCalendar("closed", []string{date}); err != nil {
			t.Fatal(err)
		}
	}
	put("2026-12-23")
	now := instant("2026-12-22T18:00:00Z")
	spec := dailySpec()
	spec.When.Recurrence, spec.When.Start = "FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "2026-12-22T13:00:00"
	spec.When.Zone = "UTC"
	spec.When.Calendars = &Calendars{Names: []string{"closed"}, On: calendar.OnNext}
	register := Command{Key: "k", From: Origin{Append: now}, Op: OpRegister, Spec: spec, Hash: contentOf(spec)}
	s := m.Apply(nil, &register, now).State
	put("2026-12-25")
	rezone := Command{Key: "k", From: Origin{Append: now}, Op: OpRezone, Zone: "Europe/Berlin", Note: "moved"}
	facts := m.Apply(s, &rezone, now).Facts
	if len(facts) != 2 || facts[0].Detail != "" || facts[1].Detail != "moved" || facts[1].Reason != "rezone" {
		t.Errorf("facts %+v", facts)
	}
}
