// Package asof says what a trigger was at an instant, from its events alone: it folds them in
// order, up to the last that had happened by then.
//
// # Promises
//
//   - At every instant the fold has the status, revision, seq and next planned instant of the
//     engine (TestFoldEqualsTheEngine). It knows nothing that happened later.
//   - It says from when on it is whole: from the first event that has a rule. Before that the
//     plan is not known.
//
// The package has no clock, no store and no server.
package asof

import (
	"encoding/json"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// State is a trigger as its events say. The zero State has seen none.
type State struct {
	Events   int64  // how many were folded
	EventID  string // of the newest
	Status   trigger.Status
	Revision int64
	Seq      int64
	Next     string // the next planned instant; "" if there is none

	// Of the newest event with a rule. Whole says that there was one.
	Whole         bool
	Rule          json.RawMessage
	Channel       string
	UserID        string
	CorrelationID string
	Tags          map[string]string

	CreatedAt string // when its present life began
	UpdatedAt string // when the newest event happened
	LastFired string // when an occurrence first went out, the newest one
	Attempt   int    // of the newest emission
	Note      string // of a pause
}

// Apply takes in the next event of the trigger.
func (s *State) Apply(e *topics.Event) {
	s.Events++
	s.EventID, s.Revision, s.Seq, s.UpdatedAt = e.EventID, e.Revision, e.Seq, e.OccurredAt
	s.Status, _ = trigger.ParseStatus(e.State)
	kind := trigger.FactType(e.Type)
	if kind.SaysNext() {
		s.Next = e.NextAt
	}
	switch kind {
	case trigger.Registered:
		s.CreatedAt, s.LastFired, s.Attempt = e.OccurredAt, "", 0
	case trigger.OccurrenceFired:
		s.fired(e)
	case trigger.PausedFact:
		s.Note = e.Detail
	case trigger.ErasedFact:
		*s = State{Events: s.Events, EventID: s.EventID, Status: s.Status, Revision: s.Revision, Seq: s.Seq}
	}
	if s.Status != trigger.Paused {
		s.Note = ""
	}
	if len(e.Rule) > 0 {
		s.Whole, s.Rule = true, e.Rule
		s.Channel, s.UserID, s.CorrelationID, s.Tags = e.Channel, e.UserID, e.CorrelationID, e.Tags
	}
}

func (s *State) fired(e *topics.Event) {
	s.Attempt = e.Attempt
	if e.FirstFired == "" || e.FirstFired == e.OccurredAt {
		s.LastFired = e.OccurredAt
	}
}

// Fold folds the events of one trigger up to an instant. Give it all events, in order, until
// Add returns false.
type Fold struct {
	At time.Time
	State

	since string // when the first event with a rule happened; "": there was none
	first int64  // seq of the first event
	any   bool
}

// Add takes in the next event. It returns false if no further event changes the answer. The
// events of one decision share their instant (occurred_at), so a decision is never cut.
func (f *Fold) Add(e *topics.Event) (more bool) {
	if e.Seq == 0 {
		return true // of a key that was unknown then, as of a late receipt: it changed nothing
	}
	if !f.any {
		f.any, f.first = true, e.Seq
	}
	if f.since == "" && len(e.Rule) > 0 {
		f.since = e.OccurredAt
	}
	at, err := time.Parse(time.RFC3339, e.OccurredAt)
	if err == nil && at.After(f.At) {
		return f.since == "" && f.first != 1 // go on only to learn from when on the history reaches
	}
	if f.since != "" || f.first == 1 {
		f.Apply(e)
	}
	return true
}

// Outcome says what a fold came to.
type Outcome int

// The outcomes.
const (
	Known         Outcome = iota // State is what was known at the instant
	Absent                       // there was no such trigger, or nothing of it may be shown
	BeforeHistory                // the events that say so are not kept; Since is from when on they are
)

// Outcome is called after the last Add.
func (f *Fold) Outcome() Outcome {
	switch {
	case f.any && f.first != 1 && f.Events == 0:
		return BeforeHistory
	case f.Events == 0 || f.Status == trigger.Unknown || f.Status == trigger.Erased:
		return Absent
	case !f.Whole:
		return BeforeHistory
	}
	return Known
}

// Empty says that there was no event of the trigger at all.
func (f *Fold) Empty() bool { return !f.any }

// Since is when the history of the trigger begins to be whole; "" if it never does.
func (f *Fold) Since() string { return f.since }
