package sinks

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// lived is a trigger whose facts are folded, through their events, into minutes.
type lived struct {
	t       *testing.T
	m       *trigger.Machine
	s       *trigger.State
	now, us int64
	minutes map[trigger.Instant]*MinuteRow
}

const began = 1_790_000_040_000 // ms

func newLived(t *testing.T) *lived {
	return &lived{t: t, now: began, us: began * 1000, minutes: map[trigger.Instant]*MinuteRow{}, m: &trigger.Machine{
		Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
		Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
		Channel: func(name string) trigger.Channel {
			return trigger.Channel{Topic: "due." + name, Receipts: name == "push", ReceiptTimeout: time.Hour}
		},
	}}
}

func (l *lived) take(out trigger.Outcome) {
	l.t.Helper()
	if out.Rejected != nil {
		l.t.Fatal(out.Rejected)
	}
	if out.State != nil {
		l.s = out.State
	}
	for i := range out.Facts {
		l.us++
		e, err := DecodeEvent(topics.AppendEvent(nil, "k", &out.Facts[i],
			topics.EventEnv{EventUS: l.us, At: trigger.Instant(l.now)}), time.UnixMilli(l.now))
		if err != nil {
			l.t.Fatal(err)
		}
		MinutesOf(&e, 365*24*time.Hour, func(k MinuteKey, row MinuteRow) {
			if l.minutes[k.Due] == nil {
				l.minutes[k.Due] = &MinuteRow{}
			}
			l.minutes[k.Due].Merge(&row)
		})
	}
}

func (l *lived) do(c trigger.Command) {
	l.t.Helper()
	l.now++
	c.Key, c.From = "k", trigger.Origin{Offset: l.now, Append: trigger.Instant(l.now)}
	if c.Spec != nil {
		c.Hash = trigger.Hash{byte(l.now), byte(l.now >> 8)}
	}
	l.take(l.m.Apply(l.s, &c, trigger.Instant(l.now)))
}

// fire fires every timer that is due at a time after began.
func (l *lived) fire(after time.Duration) {
	l.t.Helper()
	l.now = began + after.Milliseconds()
	for second := true; second; {
		second = false
		for _, tm := range l.s.Timers(nil) {
			if tm.Due <= trigger.Instant(l.now) {
				l.take(l.m.Due(l.s, tm, trigger.Instant(l.now)))
				second = true
				break
			}
		}
	}
}

func (l *lived) receipt(outcome trigger.ReceiptOutcome) {
	l.t.Helper()
	l.take(l.m.Receive(l.s, &trigger.Receipt{
		Occurrence: l.s.Live[0].Occurrence, Outcome: outcome,
		At: trigger.Instant(l.now),
	}, trigger.Instant(l.now)))
}

func oneShot(channel string, after time.Duration) trigger.Command {
	return trigger.Command{Op: trigger.OpRegister, Spec: &trigger.Spec{
		Channel: channel, UserID: "u",
		When: trigger.When{Kind: trigger.WhenInstant, FireAt: trigger.Instant(began + after.Milliseconds())},
	}}
}

func everyHour(misfire trigger.Misfire) trigger.Command {
	return trigger.Command{Op: trigger.OpRegister, Spec: &trigger.Spec{
		Channel: "default", Misfire: misfire,
		When: trigger.When{
			Kind: trigger.WhenRecurrence, Recurrence: "every:1h",
			Start: trigger.Instant(began + 3_600_000).String(),
		},
	}}
}

func snoozeUntil(after time.Duration) trigger.Command {
	return trigger.Command{Op: trigger.OpSnooze, Until: trigger.Instant(began + after.Milliseconds())}
}

// TestMinutesOfLives folds the engine's events into triggers_by_minute. Each entry must show what
// became of its occurrence, and no entry may be PENDING whose occurrence will not come.
func TestMinutesOfLives(t *testing.T) {
	const h = time.Hour
	for name, c := range map[string]struct {
		live func(l *lived)
		want map[time.Duration]string
	}{
		"delivered": {
			func(l *lived) { l.do(oneShot("push", h)); l.fire(h); l.receipt(trigger.ReceiptDelivered) },
			map[time.Duration]string{h: "FIRED"},
		},
		"dead-lettered": {
			func(l *lived) { l.do(oneShot("push", h)); l.fire(h); l.receipt(trigger.ReceiptFailed) },
			map[time.Duration]string{h: "FAILED"},
		},
		"snoozed": {
			func(l *lived) { l.do(oneShot("push", h)); l.do(snoozeUntil(2 * h)) },
			map[time.Duration]string{h: "MOVED", 2 * h: "PENDING"},
		},
		"snoozed twice after it fired": {func(l *lived) {
			l.do(oneShot("default", h))
			l.fire(h)
			l.do(snoozeUntil(2 * h))
			l.do(snoozeUntil(3 * h))
		}, map[time.Duration]string{h: "FIRED", 2 * h: "MOVED", 3 * h: "PENDING"}},
		"cancelled": {
			func(l *lived) { l.do(oneShot("push", h)); l.do(trigger.Command{Op: trigger.OpCancel}) },
			map[time.Duration]string{h: "CANCELLED"},
		},
		"cancelled after a snooze": {func(l *lived) {
			l.do(oneShot("default", h))
			l.fire(h)
			l.do(snoozeUntil(2 * h))
			l.do(trigger.Command{Op: trigger.OpCancel})
		}, map[time.Duration]string{h: "FIRED", 2 * h: "CANCELLED"}},
		"a series cancelled, with snoozes": {func(l *lived) {
			l.do(everyHour(trigger.FireOnce))
			l.do(snoozeUntil(90 * time.Minute))
			l.do(snoozeUntil(100 * time.Minute))
			l.do(trigger.Command{Op: trigger.OpCancel})
		}, map[time.Duration]string{h: "CANCELLED", 90 * time.Minute: "SKIPPED", 100 * time.Minute: "SKIPPED"}},
		"erased": {
			func(l *lived) { l.do(oneShot("push", h)); l.do(trigger.Command{Op: trigger.OpErase}) },
			map[time.Duration]string{h: "CANCELLED"},
		},
		"a series erased, with a snooze": {func(l *lived) {
			l.do(everyHour(trigger.FireOnce))
			l.do(snoozeUntil(90 * time.Minute))
			l.do(trigger.Command{Op: trigger.OpErase})
		}, map[time.Duration]string{h: "CANCELLED", 90 * time.Minute: "SKIPPED"}},
		"missed, and the latest fired": {
			func(l *lived) { l.do(everyHour(trigger.FireOnce)); l.fire(3*h + 5*time.Minute) },
			map[time.Duration]string{h: "MISSED", 3 * h: "FIRED"},
		},
		"missed, and none fired": {
			func(l *lived) { l.do(everyHour(trigger.SkipMissed)); l.fire(h + 5*time.Minute) },
			map[time.Duration]string{h: "MISSED"},
		},
		"missed, and all fired": {
			func(l *lived) { l.do(everyHour(trigger.FireAll)); l.fire(2*h + 5*time.Minute) },
			map[time.Duration]string{h: "FIRED", 2 * h: "FIRED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLived(t)
			c.live(l)
			for due, row := range l.minutes {
				after := time.Duration(due-began) * time.Millisecond
				if want := c.want[after]; row.State.V != want {
					t.Errorf("the entry at %s says %s, want %s", after, row.State.V, want)
				}
				delete(c.want, after)
			}
			for after, want := range c.want {
				t.Errorf("no entry at %s, want %s", after, want)
			}
		})
	}
}
