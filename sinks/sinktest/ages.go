package sinktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// What a sink shows of events depends only on their age: not on when they were applied, in which
// batches, or how often. testAges replays a story that began N days ago; Live lets a sink grow
// old with it.
//
// Both compare the sink with the fold of all values (sinks.StateRow and sinks.MinuteRow). A value
// is visible until it expires. It hides older ones for ever, even once it has expired.

// ageRetention is the retention of these tests, in days of the story.
const ageRetention = 90

// ages are how many days ago the story began. Its values expire between them.
var ages = []int{0, 30, 89, 91, 100, 150, 200, 400, 900}

// testAges replays the story from the beginning at every age.
func testAges(t *testing.T, w *world) {
	for _, age := range ages {
		for _, size := range []int{1, 2, 1000} {
			t.Run(fmt.Sprintf("day %d in batches of %d", age, size), func(t *testing.T) {
				w := &world{
					t: t, open: w.open, h: w.h, rand: w.rand, seq: map[string]int64{},
					tenant: fmt.Sprintf("t%08x", w.rand.Uint32()),
				}
				s := w.lives(time.Now().UTC().Add(-time.Duration(age)*oldDay), oldDay)
				written := s.until(time.Now())
				for part := range slices.Chunk(written, size) {
					w.apply(part...)
				}
				w.requireAge(s, written, time.Now(), ageRetention*oldDay)
				w.apply(written[:len(written)/2]...) // a restarted projector applies these once more
				w.apply(written...)
				w.requireAge(s, written, time.Now(), ageRetention*oldDay)
			})
		}
	}
}

const oldDay = 24 * time.Hour

// Clock is the clock of a sink, and how a test lets time pass.
type Clock struct {
	Now  func() time.Time
	Wait func(until time.Time)
	// Day is the length of a day in the story. It is shorter for a sink whose clock cannot be
	// set.
	Day time.Duration
	// Ages are the days on which the test checks. No value expires within a second of them.
	Ages []int
}

// Live applies the events of a story as they happen. As time passes, it checks what the sink
// shows, and what a sink rebuilt that day would show.
func Live(t *testing.T, open Open, c Clock) {
	w := newWorld(t, open)
	w.reopen(ageRetention * c.Day)
	start := c.Now().UTC().Truncate(time.Millisecond)
	s := w.lives(start, c.Day)
	written := 0
	for _, age := range c.Ages {
		now := start.Add(time.Duration(age) * c.Day)
		for ; written < len(s.events) && !s.at(written).After(now.Add(time.Millisecond)); written++ {
			c.Wait(s.at(written))
			w.apply(s.events[written])
		}
		c.Wait(now)
		t.Logf("day %d, %d events told", age, written)
		w.requireAge(s, s.events[:written], c.Now(), ageRetention*c.Day)

		other := *w
		other.tenant = fmt.Sprintf("%s-%d", w.tenant, age)
		replay := slices.Clone(s.events[:written])
		for i := range replay {
			replay[i].Tenant = other.tenant
		}
		for part := range slices.Chunk(replay, 3) {
			other.apply(part...)
		}
		other.requireAge(s, replay, c.Now(), ageRetention*c.Day)
	}
}

// lives holds the events of some triggers, in their order.
type lives struct {
	events  []sinks.EventRecord
	keys    []string
	minutes []time.Time
}

func (s *lives) at(i int) time.Time { return time.UnixMicro(s.events[i].EventUS) }

// until returns the events up to an instant.
func (s *lives) until(now time.Time) (written []sinks.EventRecord) {
	for i, e := range s.events {
		if !s.at(i).After(now) {
			written = append(written, e)
		}
	}
	return written
}

// lives returns triggers that end in every possible way, some of them planned for long after
// their events have expired.
func (w *world) lives(start time.Time, oneDay time.Duration) *lives {
	s := &lives{}
	on := func(day float64) time.Time {
		return start.Add(time.Duration(day * float64(oneDay))).Truncate(time.Millisecond)
	}
	write := func(day float64, key string, f trigger.FactType, state trigger.Status, edit ...func(*sinks.EventRecord)) {
		e := w.event(key, f, state, edit...)
		e.Offset = int64(len(s.events))
		w.at(&e, on(day))
		s.events = append(s.events, e)
	}
	ann := func(r *sinks.EventRecord) {
		r.UserID, r.CorrelationID, r.Timezone, r.Tags = "ann", "order-5", "Europe/Zurich",
			map[string]string{"type": "reminder"}
		r.Detail, r.Payload = "to +41 79 000 00 00", []byte(`{"title":"Take pills"}`)
	}
	// It fires while its registration still has longer to live, because that waits for its due
	// time.
	write(0, "fired", trigger.Registered, trigger.Pending, due(on(2)), ann)
	write(2, "fired", trigger.OccurrenceFired, trigger.InFlight, due(on(2)))
	write(2.1, "fired", trigger.DeliveryDelivered, trigger.Fired)
	write(0, "far", trigger.Registered, trigger.Pending, due(on(300)), ann)
	write(0, "cancelled", trigger.Registered, trigger.Pending, due(on(300)), ann)
	write(5, "cancelled", trigger.CancelledFact, trigger.Cancelled, due(on(300)))
	write(0, "moved", trigger.Registered, trigger.Pending, due(on(300)), ann)
	write(3, "moved", trigger.Rescheduled, trigger.Pending, due(on(4)), before(on(300)))
	write(4, "moved", trigger.OccurrenceFired, trigger.Fired, due(on(4)))
	// It is erased while its events exist, and after they have expired.
	write(0, "erased", trigger.Registered, trigger.Pending, due(on(300)), ann)
	write(3, "erased", trigger.Rescheduled, trigger.Pending, due(on(310)), before(on(300)), ann)
	write(20, "erased", trigger.ErasedFact, trigger.Erased)
	write(0, "erased late", trigger.Registered, trigger.Pending, due(on(300)), ann)
	write(120, "erased late", trigger.ErasedFact, trigger.Erased)
	// A second life that sets fewer fields than the first, and a series.
	write(0, "again", trigger.Registered, trigger.Pending, due(on(1)), ann)
	write(1, "again", trigger.OccurrenceFired, trigger.Fired, due(on(1)))
	write(60, "again", trigger.Registered, trigger.Pending, due(on(62)))
	write(62, "again", trigger.OccurrenceFired, trigger.Fired, due(on(62)))
	write(0, "series", trigger.Registered, trigger.Pending, due(on(1)), ann)
	for _, day := range []float64{1, 31, 62, 130} {
		write(day, "series", trigger.OccurrenceFired, trigger.Pending, due(on(day)), user("ann"))
	}
	write(140, "series", trigger.PausedFact, trigger.Paused, due(on(160)))
	slices.SortStableFunc(s.events, func(a, b sinks.EventRecord) int { return int(a.EventUS - b.EventUS) })
	for i := range s.events { // event_us increases strictly
		e := &s.events[i]
		e.Offset = int64(i)
		w.at(e, time.UnixMicro(e.EventUS).Add(time.Duration(i)*time.Microsecond))
		for _, text := range []string{e.ScheduledAt, e.PreviousScheduled} {
			if at := sinks.InstantOf(text); at != 0 && !slices.Contains(s.minutes, at.Time().Truncate(time.Minute)) {
				s.minutes = append(s.minutes, at.Time().Truncate(time.Minute))
			}
		}
		if !slices.Contains(s.keys, e.Trigger) {
			s.keys = append(s.keys, e.Trigger)
		}
	}
	return s
}

// requireAge compares all that a sink shows with the fold. Of erased data it only checks the
// absence.
func (w *world) requireAge(s *lives, written []sinks.EventRecord, now time.Time, retention time.Duration) {
	w.t.Helper()
	f := foldOf(s, written, retention)
	erased := map[string]int64{}
	for i := range written {
		if e := &written[i]; e.Type == string(trigger.ErasedFact) {
			erased[e.Trigger] = e.EventUS
		}
	}
	for _, k := range s.keys {
		want := f.eventsOf(k, now, retention)
		got := w.events(k, false, 500)
		if !sameEvents(got, want) {
			w.t.Errorf("events of %q:\n got %s\nwant %s", k, spell(got), spell(want))
		}
		state, ok := w.state(k)
		wantState, wantOK := f.states[k].At(now, w.tenant, k)
		if ok != wantOK || fmt.Sprintf("%+v", state) != fmt.Sprintf("%+v", wantState) {
			w.t.Errorf("state of %q:\n got %v %+v\nwant %v %+v", k, ok, state, wantOK, wantState)
		}
		if erased[k] != 0 && (state.UserID != "" || state.Tags != nil || state.CorrelationID != "") {
			w.t.Errorf("%q is erased, and its state says %+v", k, state)
		}
	}
	var want []sinks.MinuteEntry
	for k, row := range f.minutes {
		if e, ok := row.At(now, k); ok {
			want = append(want, e)
		}
	}
	var got []sinks.MinuteEntry
	for _, m := range s.minutes {
		got = append(got, w.minute(m, 500)...)
	}
	order := func(a, b sinks.MinuteEntry) int { return a.Cursor().Compare(b.Cursor()) }
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(got, want) {
		w.t.Errorf("minutes:\n got %+v\nwant %+v", got, want)
	}
	for _, e := range got {
		if erased[e.Trigger] != 0 && e.UserID != "" {
			w.t.Errorf("%q is erased, and its entry says %+v", e.Trigger, e)
		}
	}
}

// fold is the result of merging all values.
type fold struct {
	events  []sinks.EventRecord
	states  map[string]*sinks.StateRow
	minutes map[sinks.MinuteKey]*sinks.MinuteRow
	erased  map[string]int64
}

func foldOf(s *lives, written []sinks.EventRecord, retention time.Duration) *fold {
	f := &fold{written, map[string]*sinks.StateRow{}, map[sinks.MinuteKey]*sinks.MinuteRow{}, map[string]int64{}}
	for _, k := range s.keys {
		f.states[k] = &sinks.StateRow{}
	}
	for i := range written {
		e := &written[i]
		said := sinks.StateOf(&e.Event, retention)
		f.states[e.Trigger].Merge(&said)
		sinks.MinutesOf(&e.Event, retention, func(k sinks.MinuteKey, said sinks.MinuteRow) {
			if f.minutes[k] == nil {
				f.minutes[k] = &sinks.MinuteRow{}
			}
			f.minutes[k].Merge(&said)
		})
		if e.Type == string(trigger.ErasedFact) {
			f.erase(e)
		}
	}
	for _, row := range f.states {
		row.Eras = nil
	}
	return f
}

func (f *fold) erase(e *sinks.EventRecord) {
	f.erased[e.Trigger] = e.EventUS
	for k, row := range f.minutes {
		if k.Trigger == e.Trigger && row.UserID.US < e.EventUS {
			row.UserID.V = ""
		}
	}
}

func (f *fold) eventsOf(key string, now time.Time, retention time.Duration) (all []sinks.EventRecord) {
	for _, e := range f.events {
		if e.Trigger != key || !sinks.EventUntil(e.EventUS, retention).After(now) {
			continue
		}
		if e.EventUS < f.erased[key] {
			sinks.Blank(&e.Event)
		}
		all = append(all, e)
	}
	return all
}

func sameEvents(got, want []sinks.EventRecord) bool {
	return spell(got) == spell(want)
}

func spell(all []sinks.EventRecord) (text string) {
	for _, e := range all {
		e = canonical(e)
		text += fmt.Sprintf("\n  %d %s %s user=%q tags=%v corr=%q detail=%q payload=%s due=%s", e.EventUS, e.Type,
			e.State, e.UserID, e.Tags, e.CorrelationID,
			e.Detail, e.Payload, e.ScheduledAt)
	}
	return text
}
