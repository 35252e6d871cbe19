package gateway

import (
	"slices"
	"strings"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// These convert a trigger into the fields of a register that would make it. The table of
// package topics spells each value, once.

// whenFields are the fields that say when a trigger fires.
func whenFields(s *trigger.Spec) fields {
	return kept(s, func(f *topics.Field) bool { return f.When })
}

// contentFields are all other fields without the headers, which need not be text and travel
// as they are.
func contentFields(s *trigger.Spec) fields {
	return kept(s, func(f *topics.Field) bool { return !f.When && f.Name != "headers" })
}

func kept(s *trigger.Spec, which func(*topics.Field) bool) (fs fields) {
	for i := range registerTable {
		f := &registerTable[i]
		if !which(f) {
			continue
		}
		if value := f.Append(nil, s); value != nil {
			fs = append(fs, field{f.Name, value})
		}
	}
	return fs
}

var registerTable = topics.RegisterFields()

// resolvedSpec is a Spec that fires at the resolved time, so that a register of it fires at
// the same instant. A delay, or a snoozed time, becomes an instant. A trigger with the same
// rule keeps its skips without our help.
func resolvedSpec(st *trigger.State) *trigger.Spec {
	s := st.Spec
	if st.Recurring() || s.When.Kind == trigger.WhenLocal && st.Series.Local != "" {
		return &s
	}
	s.When = trigger.When{Kind: trigger.WhenInstant, FireAt: resolvedInstant(st), Zone: s.When.Zone, DST: s.When.DST}
	return &s
}

// resolvedInstant is when a one-shot fires: as planned, or after a snooze that followed the
// firing.
func resolvedInstant(st *trigger.State) trigger.Instant {
	if st.Series.At != 0 {
		return st.Series.At
	}
	return st.Next()
}

// requestedSpec is a Spec that fires at the requested time. Under another rule, which does not keep them, skipped
// occurrences are among the excluded dates.
func requestedSpec(st *trigger.State, when fields) *trigger.Spec {
	s := st.Spec
	if when.has("recurrence") {
		s.When.Exclude = withSkipped(s.When.Exclude, st)
	}
	return &s
}

// withSkipped adds skipped occurrences to the excluded dates, each once. Those up to the last that fired are past. The
// second pass of an overlap cannot be written as a date: excluding it would exclude the first, too.
func withSkipped(exclude []string, st *trigger.State) []string {
	all, last := slices.Clone(exclude), lastFired(st)
	for _, id := range st.Series.Skip {
		if id > last && !strings.HasSuffix(id, "+f1") && !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

// lastFired is the last name of a planned occurrence that has fired. Names of one rule sort by time.
func lastFired(st *trigger.State) (last string) {
	for i := range st.Done {
		if name, _, _ := strings.Cut(st.Done[i].Occurrence, "~"); name < "a" { // not of a snooze or a run_now
			last = max(last, name)
		}
	}
	return last
}
