package check

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/schemas/statepb"
)

// TestRunWhileACalendarChanges replays runs of missed occurrences of a daily rule at 09:00 whose calendar is edited. No
// event says whether the engine knew of the edit when it told of the run.
func TestRunWhileACalendarChanges(t *testing.T) {
	type run struct {
		below, perhaps int64 // settings in force, and those that may be
		count          int64
		first, last    string // days
	}
	const edited = 2 // the edit is below this offset
	for _, c := range []struct {
		name, misfire string
		old, new      []string // dates of the calendar
		runs          []run
		next          string // "": not looked at
		reported      int
	}{
		{
			"the run is by the newer one, and all of it fires", "fire_all",
			[]string{"2026-10-27"},
			nil,
			[]run{{1, edited, 3, "2026-10-26", "2026-10-28"}},
			"2026-10-26", 0,
		},
		{
			"the run is by the newer one, and the plan after it, too", "skip",
			[]string{"2026-10-27"},
			[]string{"2026-10-29"},
			[]run{{1, edited, 3, "2026-10-26", "2026-10-28"}},
			"2026-10-30", 0,
		},
		{
			"by the newer one, all but the last are decided", "fire_once",
			[]string{"2026-10-27"},
			nil,
			[]run{{1, edited, 3, "2026-10-26", "2026-10-28"}},
			"2026-10-28", 0,
		},
		{
			"both have the run, the newer one had the plan after it", "skip",
			[]string{"2026-10-28"},
			nil,
			[]run{
				{1, edited, 2, "2026-10-26", "2026-10-27"}, {edited, edited, 2, "2026-10-28", "2026-10-29"},
			},
			"2026-10-30", 0,
		},
		{
			"both have the run, and the plan stays that of the older one", "skip",
			[]string{"2026-10-28"},
			nil,
			[]run{
				{1, edited, 2, "2026-10-26", "2026-10-27"}, {edited, edited, 2, "2026-10-29", "2026-10-30"},
			},
			"2026-10-31", 0,
		},
		{
			"neither has the next run", "skip",
			[]string{"2026-10-28"},
			nil,
			[]run{
				{1, edited, 2, "2026-10-26", "2026-10-27"}, {edited, edited, 2, "2026-10-30", "2026-10-31"},
			},
			"", 1,
		},
		{
			"the older one alone is in force", "skip",
			[]string{"2026-10-27"},
			nil,
			[]run{{1, 1, 3, "2026-10-26", "2026-10-28"}},
			"", 1,
		},
	} {
		l := edits(c.misfire, c.old, c.new)
		for _, r := range c.runs {
			now := nine(r.last) + 3_600_000
			l.readSettings(r.below, r.perhaps, nine("2026-10-27")+3_600_000)
			l.misfire(&event{
				kind: evMisfired, count: r.count, first: nine(r.first), last: nine(r.last), occurred: now,
				reason: c.misfire,
			})
		}
		if l.failed != c.reported {
			t.Errorf("%s: %d reported, want %d: %v", c.name, l.failed, c.reported, l.v.report.Violations)
		}
		if c.next != "" && l.plan.next.at != nine(c.next) {
			t.Errorf("%s: next is %s, want %s", c.name, spell(l.plan.next.at), c.next)
		}
	}
}

// TestPlanOfState is the same at the end of the history, where topic state has one of the two plans.
func TestPlanOfState(t *testing.T) {
	for day, want := range map[string]string{
		"2026-10-28": "2026-10-28", "2026-10-29": "2026-10-29", "2026-10-30": "2026-10-29",
	} {
		l := edits("skip", []string{"2026-10-28"}, nil)
		l.readSettings(1, 2, nine("2026-10-27")+3_600_000)
		l.misfire(&event{
			kind: evMisfired, count: 2, first: nine("2026-10-26"), last: nine("2026-10-27"),
			occurred: nine("2026-10-27") + 3_600_000, reason: "skip",
		})
		l.readSettings(2, 2, nine("2026-10-27")+3_600_000)
		l.lastRaw, _ = proto.Marshal(&statepb.State{Series: &statepb.Series{At: nine(day)}})
		l.planOfState()
		if l.plan.next.at != nine(want) {
			t.Errorf("topic state has %s: next is %s, want %s", day, spell(l.plan.next.at), want)
		}
	}
}

// TestRunOfMergedNames is a run that calendars before and after an edit have alike. By the newer ones it has also
// decided what those moved to one of its instants. Once more edited, either may be next.
func TestRunOfMergedNames(t *testing.T) {
	for _, moved := range []bool{false, true} { // the edit moved the plan, and an event reports it
		for _, want := range []string{"2026-10-28", "2026-10-29", "2026-10-30"} {
			l := edits("skip", nil, []string{"2026-10-28"}) // it moves to the 27th
			l.v.puts = append(l.v.puts, calendarPut{offset: 2, name: "moving", dates: days(nil)})
			l.when.recurrence.on = onPrevious
			l.setPlan(nine("2026-10-26"))
			now := nine("2026-10-27") + 3_600_000
			l.readSettings(1, 2, now)
			l.misfire(&event{
				kind: evMisfired, count: 2, first: nine("2026-10-26"), last: nine("2026-10-27"), occurred: now,
				reason: "skip",
			})
			if moved {
				l.readSettings(1, 3, now)
				l.replanned(&event{
					kind: evRescheduled, reason: "calendar moving", occurrence: want + "T09:00:00",
					scheduled: nine(want), occurred: now,
				})
			} else {
				l.readSettings(3, 3, now)
				l.first(&event{
					kind: evFired, occurrence: want + "T09:00:00", scheduled: nine(want), occurred: nine(want),
				}, want+"T09:00:00", "", nil)
			}
			if right := want != "2026-10-30"; right != (l.failed == 0) {
				t.Errorf("moved %v: %s is next, and %d violations: %v", moved, want, l.failed, l.v.report.Violations)
			}
		}
	}
}

// TestPolicyBack patches the policy during a run that was reported as missed. Under its first policy the run goes on,
// and need not be reported again. Under another one it is reported again.
func TestPolicyBack(t *testing.T) {
	for policy, want := range map[string]int{"fire_all": 0, "fire_once": 1} {
		l := edits("fire_all", nil, nil)
		now := nine("2026-10-28") + 3_600_000
		l.misfire(&event{
			kind: evMisfired, count: 3, first: nine("2026-10-26"), last: nine("2026-10-28"), occurred: now,
			reason: "fire_all",
		})
		for _, misfire := range []string{"skip", policy} {
			l.replace(&command{op: "register", patch: true, when: l.when, what: what{misfire: misfire}, appended: now},
				&event{kind: evReplaced})
		}
		l.onTime(&event{kind: evFired}, &due{fired: now, local: l.localTime(l.plan.next.at)}, l.plan.next)
		if l.failed != want {
			t.Errorf("back to %s: %d reported, want %d: %v", policy, l.failed, want, l.v.report.Violations)
		}
	}
}

// edits is a trigger since 2026-10-26, with a calendar that was put once and edited once.
func edits(misfire string, old, new []string) *life {
	v := &verifier{
		h: &History{}, report: &Report{Counts: map[Class]int64{}}, puts: []calendarPut{
			{offset: 0, name: "moving", dates: days(old)}, {offset: 1, name: "moving", dates: days(new)},
		},
	}
	v.o = Options{Disputed: true, Limit: 100}.withDefaults()
	l := &life{
		v: v, o: &v.o, part: &partition{turned: true}, key: "k",
		w: &worker{v: v, skipped: map[string]int64{}, trusted: map[string]int64{}},
	}
	l.reset()
	l.settings, l.newer, l.status = 1, 1, pending
	l.reg = &command{what: what{misfire: misfire}}
	l.when = when{kind: whenSeries, recurrence: recurrence{
		text: "FREQ=DAILY", start: "2026-10-26T09:00", calendars: []string{"moving"}, on: "skip",
	}}
	l.setPlan(nine("2026-10-26"))
	return l
}

func days(dates []string) map[int64]bool {
	listed := map[int64]bool{}
	for _, date := range dates {
		w, _, _ := parseWall(date)
		listed[w.day()] = true
	}
	return listed
}

// nine is 09:00 UTC on a date.
func nine(date string) int64 {
	w, _, _ := parseWall(date)
	return int64(w)*1000 + 9*3_600_000
}
