package trigger

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// world is what surrounds the state machine in these tests: a log with offsets,
// a clock somebody moves, a due index and the memory of done records. Whatever
// happens in it is checked against the invariants of checks_test.go.
type world struct {
	t       testing.TB
	machine *Machine
	now     Instant
	offset  int64
	states  map[Key]*State
	checks  checks
	refuse  bool // the due topic refuses records
	silent  bool // it does not answer
	observe func(at Instant, s *State, out Outcome)
}

// home is the partition whose engine these tests are.
const home = 3

func newWorld(t testing.TB, now Instant) *world {
	return &world{
		t: t, machine: newMachine(), now: now, offset: 100, states: map[Key]*State{},
		checks: newChecks(), observe: func(Instant, *State, Outcome) {},
	}
}

// newMachine has the contract's defaults, and the contract's channels.
func newMachine() *Machine {
	return &Machine{
		Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
		Timetable: &Timetable{Zones: calendar.Embedded(), Calendars: map[string]calendar.DateSet{"closed": closed()}},
		Channel:   channelSettings, DuePartition: home,
	}
}

func closed() calendar.DateSet {
	set, err := calendar.NewDateSet([]string{"2026-03-04"})
	if err != nil {
		panic(err)
	}
	return set
}

func channelSettings(name string) Channel {
	ch := Channel{Topic: "waterclock.due." + name, ReceiptTimeout: time.Hour, JitterLow: 0}
	switch name {
	case "push", "sms", "email", "webhook":
		ch.Receipts = true
		ch.Retry = []time.Duration{
			10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute,
			30 * time.Minute,
		}
	case "bulk":
		ch.JitterLow = 10 * time.Minute
	}
	return ch
}

// command applies c to its trigger, after a round through every check.
func (w *world) command(c *Command) Outcome {
	s := w.states[c.Key]
	return w.step(c.Key, stepInput{command: c}, func(s *State) Outcome { return w.machine.Apply(s, c, w.now) }, s)
}

func (w *world) receive(k Key, r *Receipt) Outcome {
	return w.step(k, stepInput{receipt: r}, func(s *State) Outcome { return w.machine.Receive(s, r, w.now) },
		w.states[k])
}

// fire lets one timer go, as a turn of the engine does: the decision, and
// PutOff instead of it where the due topic refuses or is silent.
func (w *world) fire(k Key, t Timer) Outcome {
	s := w.states[k]
	decide := func(s *State) Outcome { return w.machine.Due(s, t, w.now) }
	if w.refuse && len(decide(s).Fires) > 0 {
		decide = func(s *State) Outcome { return w.machine.PutOff(s, t, w.now, "MESSAGE_TOO_LARGE", false) }
	}
	if w.silent && len(decide(s).Fires) > 0 {
		decide = func(s *State) Outcome { return w.machine.PutOff(s, t, w.now, "", true) }
	}
	return w.step(k, stepInput{timer: &t}, decide, s)
}

// retime puts another release of the tz database in force.
func (w *world) retime(zones *calendar.Zones) {
	w.machine.Timetable = &Timetable{Zones: zones, Calendars: w.machine.Timetable.Calendars}
}

// close makes dates the calendar "closed", and plans the triggers anew.
func (w *world) close(dates []string) {
	w.put(dates)
	w.replan("calendar")
}

// put makes dates the calendar "closed".
func (w *world) put(dates []string) {
	w.machine.Timetable = w.machine.Timetable.Fork()
	if err := w.machine.Timetable.PutCalendar("closed", dates); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) replan(reason string) {
	for _, k := range sortedKeys(w.states) {
		w.step(k, stepInput{}, func(s *State) Outcome { return w.machine.Replan(s, w.now, reason) }, w.states[k])
	}
}

// zones2023c is a release that differs from the embedded one, in Almaty.
func zones2023c(t testing.TB) *calendar.Zones {
	zones, err := load2023c()
	if err != nil {
		t.Fatal(err)
	}
	return zones
}

var load2023c = sync.OnceValues(func() (*calendar.Zones, error) {
	blob, err := os.ReadFile("../calendar/testdata/zoneinfo-2023c.zip")
	if err != nil {
		return nil, err
	}
	return calendar.LoadZones(blob, "2023c")
})

func (w *world) step(k Key, in stepInput, decide func(*State) Outcome, s *State) Outcome {
	w.t.Helper()
	in.key, in.now = k, w.now
	before := deepCopy(s)
	out := decide(s)
	if !reflect.DeepEqual(before, s) {
		w.t.Errorf("%v modified its input:\n before %+v\n after  %+v", in, before, s)
	}
	if replanned := decide(before); !reflect.DeepEqual(out, replanned) {
		w.t.Errorf("%v decided twice, differently:\n %+v\n %+v", in, out, replanned)
	}
	if err := w.checks.step(w.machine, in, s, out); err != nil {
		w.t.Errorf("%v: %v\n before %+v\n after  %+v\n facts  %+v", in, err, s, out.State, out.Facts)
	}
	if out.State != nil {
		w.states[k] = out.State
	}
	w.observe(w.now, w.states[k], out)
	return out
}

// due is the next timer of any trigger at or before until, in the order of the
// due index: instant, priority, key, then kind and occurrence.
func (w *world) due(until Instant) (k Key, next Timer, ok bool) {
	for key, s := range w.states {
		for _, t := range s.Timers(nil) {
			if t.Due <= until && (!ok || before(key, t, k, next)) {
				k, next, ok = key, t, true
			}
		}
	}
	return k, next, ok
}

func before(k Key, t Timer, l Key, u Timer) bool {
	return cmp.Or(cmp.Compare(t.Due, u.Due), cmp.Compare(t.Priority, u.Priority), cmp.Compare(k, l),
		cmp.Compare(t.Kind, u.Kind), cmp.Compare(t.Occurrence, u.Occurrence)) < 0
}

// advance moves the clock and lets every timer go at its own instant.
func (w *world) advance(until Instant) {
	for {
		k, t, ok := w.due(until)
		if !ok {
			break
		}
		w.now = max(w.now, t.Due)
		w.forget()
		w.fire(k, t)
	}
	w.now = max(w.now, until)
	w.forget()
}

// outage moves the clock while no engine runs, then lets go what is overdue.
func (w *world) outage(until Instant) {
	w.now = max(w.now, until)
	w.forget()
	w.advance(w.now)
}

// forget drops the done records whose horizon has passed, as the store does.
func (w *world) forget() {
	for k, s := range w.states {
		if s.ForgetAt != 0 && s.ForgetAt <= w.now {
			delete(w.states, k)
			w.checks.forget(k)
		}
	}
}

// origin is the place of the next direct command.
func (w *world) origin() Origin {
	w.offset++
	return Origin{Partition: home, Offset: w.offset, Append: w.now}
}

// contentOf hashes the fields that make two registers the same
// (docs/SEMANTICS.md), by their text.
func contentOf(spec *Spec) Hash {
	s := deepCopy(spec)
	s.TraceParent, s.CorrelationID = "", ""
	if s.When.Kind == WhenDelay && s.When.DelayText != "" {
		s.When.Delay = 0
	}
	text := fmt.Sprintf("%+v %+v %+v", *s, s.When.Calendars, s.Callback)
	if s.When.Calendars != nil || s.Callback != nil {
		w := *s
		w.When.Calendars, w.Callback = nil, nil
		text = fmt.Sprintf("%+v %+v %+v", w, s.When.Calendars, s.Callback)
	}
	sum := sha256.Sum256([]byte(text))
	return Hash(sum[:16])
}

// deepCopy shares no memory with v.
func deepCopy[T any](v T) T {
	return copyValue(reflect.ValueOf(&v).Elem()).Interface().(T)
}

func copyValue(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(copyValue(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(copyValue(v.Index(i)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(copyValue(v.Field(i)))
		}
	}
	return out
}

func TestDeepCopySharesNothing(t *testing.T) {
	a := &State{Live: []Live{{Occurrence: "a", Was: &Spec{Payload: []byte("p"), Callback: &Callback{URL: "u"}}}}}
	b := deepCopy(a)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("copy differs: %+v, %+v", a, b)
	}
	b.Live[0].Was.Payload[0], b.Live[0].Was.Callback.URL = 'x', "v"
	if a.Live[0].Was.Payload[0] != 'p' || a.Live[0].Was.Callback.URL != "u" {
		t.Fatal("the copy shares memory with its original")
	}
}

func sortedKeys[V any](m map[Key]V) []Key {
	keys := make([]Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
