package gateway

import (
	"slices"
	"strings"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// What a trigger has, as the fields of a register that would make it. The table of
// topics spells each value, once.

// whenFields say when a trigger was asked to fire.
func whenFields(s *trigger.Spec) fields {
	return kept(s, func(f *topics.Field) bool { return f.When })
}

// contentFields are all others but the headers: those need not be text, and travel
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

// resolvedSpec fires when a trigger will fire as it was resolved, so that a register
// of it fires at the same instant: a delay, or what a snooze has moved, as its
// instant. The same rule keeps what is skipped by itself.
func resolvedSpec(st *trigger.State) *trigger.Spec {
	s := st.Spec
	if st.Recurring() || s.When.Kind == trigger.WhenLocal && st.Series.Local != "" {
		return &s
	}
	s.When = trigger.When{Kind: trigger.WhenInstant, FireAt: resolvedInstant(st), Zone: s.When.Zone, DST: s.When.DST}
	return &s
}

// resolvedInstant is when a one-shot fires: as planned, or after a snooze of
// what had fired.
func resolvedInstant(st *trigger.State) trigger.Instant {
	if st.Series.At != 0 {
		return st.Series.At
	}
	return st.Next()
}

// requestedSpec fires when a trigger was asked to fire. What is skipped by now is
// among the dates left out.
func requestedSpec(st *trigger.State) *trigger.Spec {
	s := st.Spec
	s.When.Exclude = withSkipped(s.When.Exclude, st.Series.Skip)
	return &s
}

// withSkipped adds what is skipped to the dates left out. A second pass of an
// overlap has no spelling as a date: excluding it would exclude the first too.
func withSkipped(exclude, skipped []string) []string {
	all := slices.Clone(exclude)
	for _, id := range skipped {
		if !strings.HasSuffix(id, "+f1") {
			all = append(all, id)
		}
	}
	return all
}
