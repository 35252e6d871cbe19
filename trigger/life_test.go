package trigger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestLife tells the stories in testdata/life: what users do to a trigger, and
// what the contract says comes of it. The words of a story are in story_test.go.
func TestLife(t *testing.T) {
	datadriven.Walk(t, "testdata/life", func(t *testing.T, path string) {
		s := &story{}
		s.begin(t)
		datadriven.RunTest(t, path, s.run)
	})
}

// begin forgets everything: Monday 2026-03-02, 09:00 UTC.
func (s *story) begin(t testing.TB) {
	s.w = newWorld(t, instant("2026-03-02T09:00:00Z"))
	s.w.observe = s.print
	s.receivable, s.dead = map[Key]*Fire{}, map[Key]*Fire{}
}

// print says what a step did: a line a fact, a due event, a refusal; then the
// state it left.
func (s *story) print(at Instant, st *State, out Outcome) {
	for i := range out.Fires {
		f := out.Fires[i]
		s.receivable[f.Key] = &f
	}
	for i := range out.Dead {
		f := carried(out.Dead[i].Fire)
		s.dead[f.Key] = &f
	}
	if s.sum != nil {
		s.sum.add(st, out)
		return
	}
	if s.stamped {
		fmt.Fprintf(&s.out, "@ %s\n", text(at))
	}
	for i := range out.Facts {
		s.out.WriteString(factLine(&out.Facts[i]))
	}
	for i := range out.Fires {
		s.out.WriteString(fireLine("FIRE", &out.Fires[i]))
	}
	for i := range out.Dead {
		d := &out.Dead[i]
		s.out.WriteString(strings.TrimSuffix(fireLine("DEAD", &d.Fire), "\n") + " code=" + d.Code)
		if d.Detail != "" {
			s.out.WriteString(" detail=" + d.Detail)
		}
		s.out.WriteByte('\n')
	}
	if out.Rejected != nil {
		s.out.WriteString("REFUSED " + string(out.Rejected.Code))
		if out.Rejected.Field != "" {
			s.out.WriteString(" (" + out.Rejected.Field + ")")
		}
		s.out.WriteByte('\n')
	}
	if s.brief {
		return
	}
	s.out.WriteString(stateLine(st))
}

// summary counts what many steps did.
type summary struct {
	facts  map[FactType]int
	fires  []string
	dead   []string
	missed []string // the runs that were missed
	last   *State
}

func (m *summary) add(s *State, out Outcome) {
	m.last = s
	for i := range out.Facts {
		f := &out.Facts[i]
		if m.facts[f.Type]++; f.Type == Misfired {
			m.missed = append(m.missed, factLine(f))
		}
	}
	for i := range out.Fires {
		m.fires = append(m.fires, out.Fires[i].ID())
	}
	for i := range out.Dead {
		m.dead = append(m.dead, fmt.Sprintf("%s r%d %s", out.Dead[i].Fire.ID(), out.Dead[i].Fire.Revision,
			out.Dead[i].Code))
	}
}

func (m *summary) String() string {
	var b strings.Builder
	for _, t := range slices.Sorted(maps.Keys(m.facts)) {
		fmt.Fprintf(&b, "%d %s\n", m.facts[t], t)
	}
	b.WriteString(strings.Join(m.missed, ""))
	if n := len(m.fires); n > 0 {
		fmt.Fprintf(&b, "FIRE %d, from %s to %s\n", n, m.fires[0], m.fires[n-1])
	}
	for _, d := range m.dead {
		b.WriteString("DEAD " + d + "\n")
	}
	if s := m.last; s != nil {
		fmt.Fprintf(&b, "= %s r%d seq=%d, %d timers, %d live\n", s.Status, s.Revision, s.Seq, len(s.Timers(nil)),
			len(s.Live))
	}
	return b.String()
}

func factLine(f *Fact) string {
	var b line
	b.add("%s", f.Type)
	b.add("#%d", f.Seq)
	b.add("r%d", f.Revision)
	if f.Previous != 0 && f.Previous != f.State {
		b.add("%s→%s", f.Previous, f.State)
	}
	b.addIf(f.Occurrence != "", "occ=%s", f.Occurrence)
	b.addIf(f.HasStep && f.Step != 0, "step=%d", f.Step)
	b.addIf(f.HasStep, "attempt=%d", f.Attempt)
	b.addIf(f.Scheduled != 0, "at=%s", text(f.Scheduled))
	b.addIf(f.PreviousScheduled != 0, "was_at=%s", text(f.PreviousScheduled))
	b.addIf(f.Local != "", "local=%s", f.Local)
	b.addIf(f.HasLate && f.Lateness != 0, "late=%dms", f.Lateness)
	b.addIf(f.Count != 0, "count=%d", f.Count)
	b.addIf(f.First != 0, "first=%s", text(f.First))
	b.addIf(f.Last != 0, "last=%s", text(f.Last))
	b.addIf(f.Reason != "", "reason=%s", f.Reason)
	b.addIf(f.HasDue, "due=%s/%d", f.DueTopic, f.DuePart)
	return b.String()
}

func fireLine(word string, f *Fire) string {
	var b line
	b.add("%s %s", word, f.ID())
	b.add("attempt=%d", f.Attempt)
	b.addIf(f.Postponed > 0, "postponed=%d", f.Postponed)
	b.add("r%d", f.Revision)
	b.add("at=%s", text(f.Nominal))
	b.addIf(f.Local != "", "local=%s", f.Local)
	b.addIf(f.Expires != 0, "expires=%s", text(f.Expires))
	b.addIf(f.Channel != "default", "channel=%s", f.Channel)
	b.addIf(f.Spec != nil && len(f.Spec.Payload) > 0, "payload=%s", payloadOf(f.Spec))
	return b.String()
}

func payloadOf(s *Spec) string {
	if s == nil {
		return ""
	}
	return string(s.Payload)
}

func stateLine(s *State) string {
	if s == nil {
		return "= nothing is known\n"
	}
	var b line
	b.add("= %s r%d seq=%d", s.Status, s.Revision, s.Seq)
	for _, t := range s.Timers(nil) {
		b.add("| %s %s", timerWord(s, t), t.Occurrence)
		b.addIf(true, "%s", text(t.Due))
	}
	if s.Status == Paused {
		b.addIf(s.Series.At != 0, "| kept %s %s", s.Series.Occurrence, text(s.Series.At))
	}
	b.addIf(s.ForgetAt != 0, "until %s", text(s.ForgetAt))
	return b.String()
}

// timerWord says what a timer of s will do.
func timerWord(s *State, t Timer) string {
	if t.Kind == TimerSeries {
		return "series"
	}
	for i := range s.Live {
		l := &s.Live[i]
		if l.NextStep == t.Due && l.nextStepName() == t.Occurrence {
			return "step"
		}
		if l.timerName() == t.Occurrence {
			return [...]string{
				LiveSnoozed: "snooze", LiveInFlight: "time-out", LiveRetry: "retry",
				LiveRunNow: "run",
			}[l.Kind]
		}
	}
	return "stray"
}

// text is an instant without a fraction of zero.
func text(i Instant) string { return strings.Replace(i.String(), ".000Z", "Z", 1) }

// line joins words with spaces.
type line struct{ strings.Builder }

func (l *line) add(format string, args ...any) {
	if l.Len() > 0 {
		l.WriteByte(' ')
	}
	fmt.Fprintf(&l.Builder, format, args...)
}

func (l *line) addIf(ok bool, format string, args ...any) {
	if ok {
		l.add(format, args...)
	}
}

func (l *line) String() string { return l.Builder.String() + "\n" }
