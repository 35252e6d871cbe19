package topics

import (
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// Format is the version of State and Progress on topic state. This version reads every format
// from Oldest to Newest. It writes a format that every member of the group reads; members
// tell each other what they read (engine/formats.go). So a group can have members of several
// versions, and an upgrade can be rolled back as long as one member is older.
type Format uint64

// Oldest is the format that every version reads.
const Oldest Format = 1

// Deliveries is the first format that has what redrives, postponements and escalations need
// (schemas/waterclock/v1/state.proto). With an older format, a restart forgets how often an
// occurrence was postponed and what was redriven, and triggers with an escalation are
// refused.
const Deliveries Format = 2

// Erasures is the first format that has the erase before a life. In an older one a restart
// forgets it, and a dead letter from before the erase can be redriven.
const Erasures Format = 3

// Watermarks is the format of a member that knows topic watermarks: an owner that does not would
// emit behind them. Nothing is written in it any more. Earlier builds kept the last watermark in
// progress records of this format (Progress.FiredThrough).
const Watermarks Format = 4

// RunNotes is the first format that has the note of a run that has not gone out. In an older one it is
// lost at the end of the turn that decided the run, and a later firing has no detail.
const RunNotes Format = 5

// DecidedNames is the first format that has which names of a rule are decided, where instants do not say so: a calendar
// moves its days, or it has moved to another zone. In an older one they are lost at the end of the turn, and what is
// decided is derived from instants, as before.
const DecidedNames Format = 6

// FormatOf is the oldest format that holds all of a state. Nothing newer is written, so
// that who does not use what is new can go back to an older version.
func FormatOf(s *trigger.State) Format {
	switch {
	case alwaysNewest:
		return Newest
	case len(s.Series.Decided)+len(s.Series.Begun) > 0:
		return DecidedNames
	case slices.ContainsFunc(s.Live, func(l trigger.Live) bool { return l.Note != "" }):
		return RunNotes
	case s.Erasure != trigger.Erasure{}:
		return Erasures
	case needsDeliveries(s):
		return Deliveries
	}
	return Oldest
}

func needsDeliveries(s *trigger.State) bool {
	of := func(s *trigger.Spec) bool {
		return s != nil && (s.Callback != nil && (s.Callback.Raw || s.Callback.Recheck) || len(s.Escalation) > 0)
	}
	return len(s.Redriven) > 0 || of(&s.Spec) || slices.ContainsFunc(s.Live, func(l trigger.Live) bool {
		return l.Postponed > 0 || l.AttemptsBeforeRedrive > 0 || l.FirstFired > 0 || of(l.Was)
	})
}
