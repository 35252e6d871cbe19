package trigger

import "slices"

// addNote makes the note of a command the detail of the fact about it. So many facts before it, and
// those that follow from it, such as dropped snoozes, have none. An ack has a fact for each
// occurrence that it ends.
func (d *decision) addNote(c *Command, before int) {
	if c.Note == "" {
		return
	}
	for i := before; i < len(d.out.Facts); i++ {
		f := &d.out.Facts[i]
		if f.Type != Duplicate && !slices.Contains(factsAbout[c.Op], f.Type) || f.Detail != "" {
			continue
		}
		if f.Detail = c.Note; c.Op != OpAck {
			return
		}
	}
}

// factsAbout are the facts about a command itself, beside that it is a duplicate. A run_now has
// none: only its firing is a fact, and its occurrence keeps the note until then (Live.Note).
var factsAbout = [...][]FactType{
	OpRegister:   {Registered, Replaced},
	OpCancel:     {CancelledFact, CancelTooLate},
	OpReschedule: {Rescheduled},
	OpSnooze:     {Snoozed},
	OpSkip:       {Skipped},
	OpPause:      {PausedFact},
	OpResume:     {Resumed},
	OpRunNow:     nil,
	OpRezone:     {Rescheduled},
	OpAck:        {EscalationStopped},
	OpRedrive:    {Redriven},
	OpErase:      {ErasedFact},
}
