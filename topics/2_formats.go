package topics

import (
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// Format is the version of State and Progress on topic state. What is read may
// be of any format from Oldest to Newest. What is written is of one that every
// member of the group reads: members say it to each other (engine/formats.go), so
// versions can be mixed, and rolled back as long as one of them is older.
type Format uint64

// Oldest is what every version reads.
const Oldest Format = 1

// Deliveries is the first format that has what redrives, postponements and
// escalations need (schemas/waterclock/v1/state.proto). In an older one a restart forgets
// how often an occurrence was postponed, and what was redriven; a trigger with an
// escalation does not fit into it.
const Deliveries Format = 2

// Erasures is the first format that has the erase before a life. In an older one a restart
// forgets it, and a dead letter from before the erase can be redriven.
const Erasures Format = 3

// FormatOf is the oldest format that holds all of a state. Nothing newer is written, so
// that who does not use what is new can go back to an older version.
func FormatOf(s *trigger.State) Format {
	switch {
	case alwaysNewest:
		return Newest
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
		return l.Postponed > 0 || l.AttemptsBefore > 0 || l.FirstFired > 0 || of(l.Was)
	})
}
