package examples

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestLivesInSemantics plays blocks of kind life: lines with a time and what
// happens then (a command, a receipt, the engine's stop and start), and after
// them, in order of time, lines with an arrow: what the engine tells.
//
//	09:00:00 {"op":"register","delay":"7m"}
//	09:00:00   → trigger.registered …
//	09:10:00 until
func TestLivesInSemantics(t *testing.T) {
	executed(t, semantics, "life", func(t *testing.T, block []string) []string {
		l := newLife(t)
		for _, line := range block {
			if !strings.Contains(line, "→") {
				l.play(line)
			}
		}
		return l.out
	})
}

// life is one trigger and its surroundings.
type life struct {
	t       *testing.T
	machine trigger.Machine
	now     trigger.Instant
	stopped bool
	offset  int64
	state   *trigger.State
	last    *trigger.Fire
	out     []string
}

// firstDay is the day of times without a date, a Monday.
const firstDay = "2026-03-02"

func newLife(t *testing.T) *life {
	return &life{t: t, offset: 100, machine: trigger.Machine{
		Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
		Timetable: &trigger.Timetable{Zones: calendar.Embedded()}, Channel: channel,
	}}
}

// channel has the defaults of docs/operations/settings.md.
func channel(name string) trigger.Channel {
	c := trigger.Channel{Topic: "waterclock.due." + name, ReceiptTimeout: time.Hour}
	if name != topics.DefaultChannel {
		c.Receipts = true
		c.Retry = []time.Duration{
			10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute,
			30 * time.Minute,
		}
	}
	return c
}

func (l *life) play(line string) {
	at, what := l.split(line)
	l.advance(at)
	l.now = at
	l.out = append(l.out, line)
	switch {
	case what == "engine stops":
		l.stopped = true
	case what == "engine starts":
		l.stopped = false
		l.advance(at)
	case strings.HasPrefix(what, "receipt "):
		l.receipt(strings.TrimPrefix(what, "receipt "))
	case strings.HasPrefix(what, "{"):
		l.command(what)
	case what != "until":
		l.t.Fatalf("%q: a command, a receipt, engine stops, engine starts, until", line)
	}
}

// split reads "[2026-03-03 ]09:00:00 what".
func (l *life) split(line string) (trigger.Instant, string) {
	if line[2] == ':' {
		line = firstDay + " " + line
	}
	const form = "2006-01-02 15:04:05"
	if len(line) <= len(form) {
		l.t.Fatalf("%q has no time, or nothing behind it", line)
	}
	at, err := time.Parse(form, line[:len(form)])
	if err != nil {
		l.t.Fatal(err)
	}
	return trigger.At(at), strings.TrimSpace(line[len(form):])
}

func (l *life) command(value string) {
	l.offset++
	rec := &topics.Record{
		Topic: "waterclock.commands", Offset: l.offset, Timestamp: l.now, Key: []byte("k"),
		Value: []byte(value),
	}
	c, err := topics.DecodeCommand(rec, topics.Limits{}, nil)
	if err != nil {
		l.take(l.machine.Reject(l.state, err.(*trigger.Error), ""))
		return
	}
	l.take(l.machine.Apply(l.state, c, l.now))
	l.advance(l.now)
}

// receipt is about the last due event; the block gives all but its identity.
func (l *life) receipt(fields string) {
	id := fmt.Sprintf(`{"due_id":%q,"channel":%q,"attempt":%d,`, l.last.ID(), l.last.Channel, l.last.Attempt)
	r, err := topics.DecodeReceipt(&topics.Record{
		Topic: "waterclock.receipts", Timestamp: l.now, Key: []byte("k"),
		Value: []byte(id + fields[1:]),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	in := r.Input()
	in.At = l.now
	l.take(l.machine.Receive(l.state, in, l.now))
}

// advance lets every timer go at its time, as a running engine does; after a
// stop, all that is overdue goes at once.
func (l *life) advance(to trigger.Instant) {
	for !l.stopped && l.state != nil {
		timers := l.state.Timers(nil)
		if len(timers) == 0 {
			return
		}
		next := slices.MinFunc(timers, func(a, b trigger.Timer) int { return int(a.Due - b.Due) })
		if next.Due > to {
			return
		}
		l.now = max(l.now, next.Due)
		l.take(l.machine.Due(l.state, next, l.now))
	}
}

// take notes what was decided.
func (l *life) take(out trigger.Outcome) {
	if out.State != nil {
		l.state = out.State
	}
	for i := range out.Facts {
		l.out = append(l.out, short(l.now)+"   → "+l.fact(&out.Facts[i]))
	}
	for i := range out.Fires {
		l.last = &out.Fires[i]
		l.out = append(l.out, fmt.Sprintf("%s   → due event %s, attempt %d", short(l.now), l.last.ID(), l.last.Attempt))
	}
	for i := range out.Dead {
		l.out = append(l.out, short(l.now)+"   → dead letter "+out.Dead[i].Fire.ID()+", "+out.Dead[i].Code)
	}
}

func (l *life) fact(f *trigger.Fact) string {
	parts := []string{string(f.Type)}
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(f.Previous != 0 || f.Type == trigger.Registered, "%s", f.State)
	add(f.Revision > 0, "revision %d", f.Revision)
	add(f.Scheduled != 0, "for %s", short(f.Scheduled))
	add(f.Count > 0, "count %d, first %s, last %s", f.Count, short(f.First), short(f.Last))
	add(f.Reason != "", "reason %s", f.Reason)
	add(f.Type == trigger.Rejected, "%s", f.Detail)
	return strings.Join(parts, ", ")
}

func short(at trigger.Instant) string {
	t := time.UnixMilli(int64(at)).UTC()
	text := t.Format("2006-01-02 15:04:05.999")
	return strings.TrimPrefix(text, firstDay+" ")
}
