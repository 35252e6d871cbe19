package explain

import (
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// ofOccurrence explains the occurrence that was asked for: by what of it is open, else by the newest event about it
// that decides, else by what its owner keeps of it.
func (x *explanation) ofOccurrence() {
	if l := x.liveOf(); l != nil {
		x.sayLive(l)
		return
	}
	if e := x.newest(x.decidesOccurrence); e != nil {
		x.sayEvent(e)
		x.citeAround(e)
		return
	}
	planned := x.newest(func(e *topics.Event) bool { return e.Occurrence == x.in.Occurrence && plans(e) })
	switch s := x.in.State; {
	case s != nil && s.Series.At != 0 && s.Series.Occurrence == x.in.Occurrence:
		x.sayPlanned(planned)
	case x.sentOnce():
	case planned != nil:
		x.say(Skipped, "Not sent: occurrence %s was planned %s, and the trigger was planned anew before it went out.",
			x.occurrence(x.in.Occurrence), x.when(planned.OccurredAt))
		x.cite(planned)
	case x.in.History:
		x.say(Unknown, "Nothing is known of occurrence %s of %s: neither its owner nor its newest events name it.",
			plain(x.in.Occurrence, maxSnippet), x.name())
	default:
		x.say(Unknown, "Nothing is known of occurrence %s of %s: its owner does not name it, and there is no history.",
			plain(x.in.Occurrence, maxSnippet), x.name())
	}
}

// decidesOccurrence reports whether an event says what became of the occurrence.
func (x *explanation) decidesOccurrence(e *topics.Event) bool {
	return e.Occurrence == x.in.Occurrence && !plans(e) && x.decides(e, true)
}

// liveOf is the occurrence if it is open, or waits on its own; else nil.
func (x *explanation) liveOf() *trigger.Live {
	if x.in.State == nil {
		return nil
	}
	for i := range x.in.State.Live {
		if l := &x.in.State.Live[i]; l.Occurrence == x.in.Occurrence {
			return l
		}
	}
	return nil
}

// sayPlanned explains the next occurrence of the plan.
func (x *explanation) sayPlanned(e *topics.Event) {
	s := x.in.State
	switch due := s.Series.Due(); {
	case s.Status == trigger.Paused:
		x.paused()
	case due <= x.in.Now.Add(-slack):
		x.sayOverdue(due, s.Series.Retry, s.Series.RetryAt)
	default:
		x.say(Scheduled, "Scheduled: it fires %s.", x.at(due))
		if x.cite(e); e == nil {
			x.citeState("%s, revision %d, due %s", s.Status, s.Revision, due)
		}
	}
}

// sentOnce explains a firing that the owner remembers.
func (x *explanation) sentOnce() bool {
	if x.in.State == nil {
		return false
	}
	for _, f := range x.in.State.Done {
		if f.Occurrence == x.in.Occurrence {
			x.sayFiring(f)
			return true
		}
	}
	return false
}
