package trigger_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/asof"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// moment is a trigger after one decision, as the engine has it.
type moment struct {
	at    trigger.Instant
	state *trigger.State
}

// life is what happened to one trigger, as the engine has it and as the log has it.
type life struct {
	moments []moment
	events  []topics.Event
}

// TestFoldEqualsTheEngine asks for random instants of random lives. The events, as bytes of
// the log, say what the engine's own state was.
func TestFoldEqualsTheEngine(t *testing.T) {
	dice := rand.New(rand.NewPCG(11, 12))
	asked, live := 0, 0
	for n := range uint64(60) {
		for key, l := range livesOf(t, n+1) {
			first, last := l.moments[0].at, l.moments[len(l.moments)-1].at
			for range 20 {
				at := first + trigger.Instant(dice.Int64N(int64(last-first)+2)) - 1
				if dice.IntN(2) == 0 { // exactly at a decision, and just before it
					at = l.moments[dice.IntN(len(l.moments))].at - trigger.Instant(dice.IntN(2))
				}
				if l.compare(t, fmt.Sprintf("life %d, %s", n, key), at) {
					live++
				}
				asked++
			}
		}
	}
	if asked < 1000 || live < 500 {
		t.Errorf("only %d instants were compared, and at %d of them there was a trigger", asked, live)
	}
}

// livesOf plays a script, and writes what happens as the engine does.
func livesOf(t *testing.T, n uint64) map[trigger.Key]*life {
	all := map[trigger.Key]*life{}
	us := int64(0)
	trigger.RandomLife(t, n, func(at trigger.Instant, key trigger.Key, s *trigger.State, facts []trigger.Fact) {
		l := all[key]
		if l == nil {
			l = &life{}
			all[key] = l
		}
		if len(facts) > 0 && facts[0].Seq == 1 {
			*l = life{} // the key was forgotten meanwhile
		}
		l.moments = append(l.moments, moment{at, s})
		for i := range facts {
			us = max(us+1, int64(at)*1000)
			b := topics.AppendEvent(nil, key, &facts[i], topics.EventEnv{EventUS: us, At: at})
			e, err := topics.DecodeEvent(b)
			if err != nil {
				t.Fatal(err)
			}
			l.events = append(l.events, e)
		}
	})
	return all
}

// compare folds up to an instant. It reports whether there was a trigger.
func (l *life) compare(t *testing.T, name string, at trigger.Instant) bool {
	t.Helper()
	var want *trigger.State
	for _, m := range l.moments {
		if m.at <= at {
			want = m.state
		}
	}
	f := asof.Fold{At: at.Time()}
	for i := range l.events {
		if !f.Add(&l.events[i]) {
			break
		}
	}
	if want == nil || want.Status == trigger.Unknown || want.Status == trigger.Erased || want.Seq == 0 {
		if o := f.Outcome(); o != asof.Absent {
			t.Errorf("%s at %v: outcome %d of %+v, and the engine has %+v", name, at, o, f.State, want)
		}
		return false
	}
	known := asof.Known
	if l.events[0].Type != string(trigger.Registered) && !f.Whole {
		known = asof.BeforeHistory // a redrive of a forgotten key began its life, so it has no plan
	}
	next := ""
	if n := want.NextPlanned(); n != 0 {
		next = n.String()
	}
	got := fmt.Sprint(f.Outcome(), f.Status, f.Revision, f.Seq, f.Next)
	if engine := fmt.Sprint(known, want.Status, want.Revision, want.Seq, next); got != engine {
		t.Errorf("%s at %v: the events say %s, and the engine %s", name, at, got, engine)
	}
	if want.Series.At == 0 {
		return true // nothing is planned by its rule
	}
	var rule struct{ Priority, Misfire string }
	if err := json.Unmarshal(f.Rule, &rule); err != nil {
		t.Fatal(err)
	}
	if rule.Priority == "" {
		rule.Priority = trigger.Normal.String()
	}
	if rule.Misfire == "" {
		rule.Misfire = trigger.FireOnce.String()
	}
	if s := &want.Spec; rule.Priority != s.Priority.String() || rule.Misfire != s.Misfire.String() ||
		f.Channel != s.Channel || f.UserID != s.UserID {
		t.Errorf("%s at %v: the events say %s, channel %s, user %s\nthe engine %+v", name, at, f.Rule, f.Channel,
			f.UserID, s)
	}
	return true
}

// kept folds some events of a trigger.
func kept(at string, all ...topics.Event) *asof.Fold {
	i, err := time.Parse(time.RFC3339, at)
	if err != nil {
		panic(err)
	}
	f := &asof.Fold{At: i}
	for k := range all {
		if !f.Add(&all[k]) {
			break
		}
	}
	return f
}

// What is not kept is not guessed.
func TestFoldBeforeHistory(t *testing.T) {
	rule := json.RawMessage(`{"delay":"1h"}`)
	event := func(kind, at, state string, seq int64, rule json.RawMessage) topics.Event {
		return topics.Event{
			EventID: fmt.Sprint("0-", seq), Type: kind, Trigger: "k", OccurredAt: at, State: state, Seq: seq,
			Rule: rule,
		}
	}
	born := event("trigger.registered", "2026-03-01T10:00:00.000Z", "PENDING", 1, rule)
	fired := event("occurrence.fired", "2026-03-01T11:00:00.000Z", "FIRED", 2, nil)
	replaced := event("trigger.replaced", "2026-03-01T12:00:00.000Z", "PENDING", 3, rule)
	for _, c := range []struct {
		name, at, since string
		events          []topics.Event
		want            asof.Outcome
		seq             int64
	}{
		{"before it was", "2026-03-01T09:59:59.999Z", born.OccurredAt, []topics.Event{born}, asof.Absent, 0},
		{"at its birth", "2026-03-01T10:00:00.000Z", born.OccurredAt, []topics.Event{born, fired}, asof.Known, 1},
		{"later", "2026-03-01T11:00:00.000Z", born.OccurredAt, []topics.Event{born, fired}, asof.Known, 2},
		{
			"its birth is lost", "2026-03-01T11:30:00.000Z", replaced.OccurredAt,
			[]topics.Event{fired, replaced},
			asof.BeforeHistory, 0,
		},
		{
			"all before is lost", "2026-03-01T10:30:00.000Z", replaced.OccurredAt,
			[]topics.Event{fired, replaced},
			asof.BeforeHistory, 0,
		},
		{
			"its birth is lost, a plan is kept", "2026-03-01T12:00:00.000Z", replaced.OccurredAt,
			[]topics.Event{fired, replaced},
			asof.Known, 3,
		},
		{
			"a receipt after it was forgotten", "2026-03-09T00:00:00.000Z", born.OccurredAt, []topics.Event{
				born, fired, event("delivery.delivered", "2026-03-08T10:00:00.000Z", "", 0, nil),
			}, asof.Known, 2,
		},
		{"no plan is kept", "2026-03-01T12:00:00.000Z", "", []topics.Event{fired}, asof.BeforeHistory, 0},
		{"nothing is kept", "2026-03-01T12:00:00.000Z", "", nil, asof.Absent, 0},
		{"erased", "2026-03-01T12:00:00.000Z", born.OccurredAt, []topics.Event{
			born, event("trigger.erased", "2026-03-01T11:30:00.000Z", "ERASED", 2, nil),
		}, asof.Absent, 2},
		{"an old engine's, without a rule", "2026-03-01T12:00:00.000Z", "", []topics.Event{
			event("trigger.registered", "2026-03-01T10:00:00.000Z", "PENDING", 1, nil),
		}, asof.BeforeHistory, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := kept(c.at, c.events...)
			if f.Outcome() != c.want || f.Since() != c.since || f.Seq != c.seq {
				t.Errorf("outcome %d, since %q, seq %d; want %d, %q, %d", f.Outcome(), f.Since(), f.Seq, c.want,
					c.since, c.seq)
			}
		})
	}
}
