package watermark

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const t0 trigger.Instant = 1_795_183_200_000

func started(published trigger.Instant) *Ledger {
	l := Resume(Options{Partition: 3, Term: 7, Interval: time.Second, Idle: 5 * time.Second}, published)
	l.Know(Offsets{Events: 100, Due: map[string]map[int32]int64{"due.push": {3: 10}}}, nil)
	return l
}

// commits runs a turn that emits up to an offset of events, 0: nothing.
func (l *Ledger) commits(now trigger.Instant, w Work, events int64) *topics.Watermark {
	l.Begin(now, true, false)
	w.Emits = events > 0
	record := l.End(w)
	if record != nil {
		copied := *record
		copied.Due = maps.Clone(record.Due)
		record = &copied
	}
	l.Committed(Offsets{Events: events})
	return record
}

// A turn that emits speaks for the turn before, with the offsets of that. One that emits
// nothing speaks for itself.
func TestTurnSpeaksForTheOneBefore(t *testing.T) {
	l := started(0)
	if r := l.commits(t0, Work{Hand: t0, Next: t0 + 50, Commands: 5}, 110); r != nil {
		t.Errorf("the first turn of all emits, and says %+v", r)
	}
	r := l.commits(t0+1000, Work{Hand: t0 + 1000, Next: t0 + 9000, Commands: 8}, 120)
	if r == nil || r.FiredThrough != t0 || r.EventsOffset != 110 || r.CommandsOffset != 5 || r.At != t0+1000 ||
		r.Partition != 3 || r.Term != 7 || r.Due["due.push"][3] != 10 {
		t.Errorf("%+v", r)
	}
	if r := l.commits(t0+1999, Work{Hand: t0 + 1999, Next: t0 + 9000, Commands: 9}, 0); r != nil {
		t.Errorf("the interval has not passed: %+v", r)
	}
	r = l.commits(t0+2000, Work{Hand: t0 + 2000, Next: t0 + 9000, Commands: 9}, 0)
	if r == nil || r.FiredThrough != t0+2000 || r.EventsOffset != 120 || r.CommandsOffset != 9 {
		t.Errorf("%+v", r)
	}
	if at := l.Wake(t0 + 2000); at != t0+7000 {
		t.Errorf("idle, but the next record is due at %v", at-t0)
	}
	r = l.commits(t0+7000, Work{}, 0)
	if r == nil || r.FiredThrough != t0+2000 || r.At != t0+7000 {
		t.Errorf("the hand stands: %+v", r)
	}
}

// What is due before the hand and not yet emitted holds the watermark at the moment before.
func TestOverdueHoldsTheWatermark(t *testing.T) {
	l := started(t0)
	r := l.commits(t0+1000, Work{Hand: t0 + 1000, Next: t0 + 400, Held: []string{"lag"}}, 0)
	if r == nil || r.FiredThrough != t0+399 || !reflect.DeepEqual(r.Held, []string{"lag"}) {
		t.Errorf("%+v", r)
	}
	r = l.commits(t0+6000, Work{Hand: t0 + 6000, Next: t0 + 100}, 0)
	if r == nil || r.FiredThrough != t0+399 {
		t.Errorf("it goes back: %+v", r)
	}
}

// Effective is behind what is published with the turn at hand, and at nothing else.
func TestEffective(t *testing.T) {
	l := started(t0)
	l.commits(t0+500, Work{Hand: t0 + 500, Next: t0 + 9000}, 0) // publishes t0+500
	l.commits(t0+600, Work{Hand: t0 + 600, Next: t0 + 9000}, 101)
	for _, c := range []struct {
		now       trigger.Instant
		due, want trigger.Instant
	}{
		{t0 + 700, t0 + 501, 0}, // no record in this turn: t0+500 counts
		{t0 + 700, t0 + 500, t0 + 501},
		{t0 + 700, t0 - 10_000, t0 + 501},
		{t0 + 1500, t0 + 601, 0}, // this turn publishes t0+600
		{t0 + 1500, t0 + 600, t0 + 601},
	} {
		if l.Begin(c.now, true, false); l.Effective(c.due) != c.want {
			t.Errorf("at %d, due %d: %d, want %d", c.now-t0, c.due-t0, l.Effective(c.due)-t0, c.want-t0)
		}
	}
	if l = started(0); l.Effective(1) != 0 {
		t.Error("nothing was ever published")
	}
}

// A run_now is due when its broker appended it. If that clock is ahead, its lateness is 0, and so it
// counts as due at the turn, which a watermark of another owner may cover.
func TestEffectiveOfWhatIsDueAfterTheTurn(t *testing.T) {
	l := started(t0 + 5000)
	l.Begin(t0+4000, true, false)
	if e := l.Effective(t0 + 6000); e != t0+5001 {
		t.Errorf("due after the watermark, emitted at a time that it covers: %d", e-t0)
	}
	l.Begin(t0+5001, true, false)
	if e := l.Effective(t0 + 6000); e != 0 {
		t.Errorf("emitted after what the watermark covers: %d", e-t0)
	}
}

// A successor goes on from what was published, also if its clock is behind, and says nothing
// before it knows the ends of the topics.
func TestSuccessor(t *testing.T) {
	l := Resume(Options{Interval: time.Second, Idle: 5 * time.Second}, t0+5000)
	if l.Wake(t0) != Never {
		t.Error("it does not know the offsets")
	}
	l.Begin(t0, true, false)
	if e := l.Effective(t0 + 4000); e != t0+5001 {
		t.Errorf("effective %d", e-t0)
	}
	if r := l.End(Work{Hand: t0, Next: t0 + 1}); r != nil {
		t.Errorf("%+v", r)
	}
	l.Committed(Offsets{Events: 7})
	l.Know(Offsets{Events: 5, Unknown: []string{"due.sms"}}, nil)
	r := l.commits(t0+100, Work{Hand: t0 + 100, Next: t0 + 200}, 0)
	if r == nil || r.FiredThrough != t0+5000 || r.EventsOffset != 7 || !slices.Equal(r.Held, []string{"due.sms"}) {
		t.Errorf("%+v", r)
	}
	l.Begin(t0+200, true, false)
	l.End(Work{Emits: true})
	l.Committed(Offsets{Due: map[string]map[int32]int64{"due.sms": {0: 3}}})
	r = l.commits(t0+1200, Work{Hand: t0 + 1200, Next: t0 + 2000}, 0)
	if r == nil || !slices.Equal(r.Held, []string{"due.sms"}) || r.Due["due.sms"][0] != 3 {
		t.Errorf("it has written to one partition of due.sms, and knows nothing of another: %+v", r)
	}
	l.Know(Offsets{Events: 7, Due: map[string]map[int32]int64{"due.sms": {0: 2, 1: 9}}}, nil)
	r = l.commits(t0+2400, Work{Hand: t0 + 2400, Next: t0 + 3000}, 0)
	if r == nil || len(r.Held) > 0 || r.Due["due.sms"][0] != 3 || r.Due["due.sms"][1] != 9 {
		t.Errorf("it knows all ends of due.sms by now: %+v", r)
	}
}

// What a due topic had put off before this owner is named from the first record on, also by one
// that speaks of a turn before it was counted.
func TestPutOffBefore(t *testing.T) {
	l := Resume(Options{Interval: time.Second, Idle: 5 * time.Second}, t0)
	l.commits(t0+100, Work{Hand: t0 + 100, Next: t0 + 9000, Held: []string{"lag"}}, 101)
	l.Know(Offsets{Events: 101}, []string{"due.push"})
	r := l.commits(t0+200, Work{Hand: t0 + 200, Next: t0 + 9000, Held: []string{"due.push"}}, 102)
	if r == nil || !slices.Equal(r.Held, []string{"due.push", "lag"}) {
		t.Errorf("%+v", r)
	}
	r = l.commits(t0+1200, Work{Hand: t0 + 1200, Next: t0 + 9000}, 0)
	if r == nil || len(r.Held) > 0 {
		t.Errorf("it is out by now: %+v", r)
	}
}

// A new owner goes on behind the last record. If nobody can say which that is, the last turn is
// the bound, and so it is for a record that says more than any turn can have said.
func TestLast(t *testing.T) {
	record := func(through trigger.Instant) *topics.Watermark { return &topics.Watermark{FiredThrough: through} }
	for _, c := range []struct {
		last      Last
		published trigger.Instant
		inForce   bool
	}{
		{Last{Record: record(t0 - 5000)}, t0 - 5000, true},
		{Last{Record: record(t0 + 5000)}, t0, true},
		{Last{Unknown: true}, t0, true},
		{Last{}, t0, false},
		{Last{Withdrawn: true}, 0, false},
		{Last{NoTopic: true}, 0, false},
	} {
		if p, in := c.last.Published(t0), c.last.InForce(); p != c.published || in != c.inForce {
			t.Errorf("%+v: published %d, in force %v", c.last, p-t0, in)
		}
	}
}

// What is held back by a turn is said with the offsets of that turn, not sooner and not later.
func TestHeldGoesWithItsTurn(t *testing.T) {
	l := started(t0)
	l.commits(t0+1000, Work{Hand: t0 + 1000, Next: t0 + 9000, Held: []string{"due.push"}}, 101)
	r := l.commits(t0+2000, Work{Hand: t0 + 2000, Next: t0 + 9000}, 105) // emits what was held
	if r == nil || !slices.Equal(r.Held, []string{"due.push"}) || r.EventsOffset != 101 {
		t.Errorf("%+v", r)
	}
	r = l.commits(t0+3000, Work{Hand: t0 + 3000, Next: t0 + 9000}, 0)
	if r == nil || len(r.Held) > 0 || r.EventsOffset != 105 {
		t.Errorf("%+v", r)
	}
}

// A record that waits for a later turn stays due.
func TestWaits(t *testing.T) {
	l := started(t0)
	l.Begin(t0+1000, true, true)
	if r := l.End(Work{Commands: 5, Emits: true}); r != nil {
		t.Errorf("%+v", r)
	}
	l.Committed(Offsets{Events: 101})
	if at := l.Wake(t0 + 1001); at != t0+1001 {
		t.Errorf("it is due at %v", at-t0)
	}
	r := l.commits(t0+1001, Work{Hand: t0 + 1001, Next: t0 + 9000, Commands: 6}, 0)
	if r == nil || r.FiredThrough != t0+1001 {
		t.Errorf("%+v", r)
	}
}

// A topic that refuses records is tried an interval later, and nothing is published meanwhile.
func TestRefusingTopic(t *testing.T) {
	l := started(t0)
	l.Begin(t0+1000, false, false)
	if r := l.End(Work{Hand: t0 + 1000, Next: t0 + 9000}); r != nil {
		t.Errorf("%+v", r)
	}
	l.Committed(Offsets{})
	if at := l.Wake(t0 + 1001); at != t0+2000 {
		t.Errorf("the next try is at %v", at-t0)
	}
	if r := l.commits(t0+2000, Work{Hand: t0 + 2000, Next: t0 + 9000}, 0); r == nil || r.FiredThrough != t0+2000 {
		t.Errorf("%+v", r)
	}
}

// A clock that is set back delays no record.
func TestClockSetBack(t *testing.T) {
	l := started(t0)
	l.commits(t0+60_000, Work{Hand: t0 + 60_000, Next: t0 + 90_000}, 0)
	if at := l.Wake(t0); at != t0+5000 {
		t.Errorf("the next record is due at %v", at-t0)
	}
	r := l.commits(t0+5000, Work{Hand: t0 + 5000, Next: t0 + 90_000}, 0)
	if r == nil || r.FiredThrough != t0+60_000 {
		t.Errorf("%+v", r)
	}
}
