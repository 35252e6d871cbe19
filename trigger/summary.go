package trigger

import (
	"strings"
	"unsafe"
)

// Summary has what the answer to a command shows: status and revision, the next planned
// occurrence, and the last one that fired. It has no content and shares no memory with s, so
// keeping it keeps no large record.
func (s *State) Summary() *State {
	out := &State{
		Key: Key(strings.Clone(string(s.Key))), Status: s.Status, Revision: s.Revision, Seq: s.Seq, Hash: s.Hash,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, ForgetAt: s.ForgetAt,
		Series: Series{
			At: s.Series.At, Jitter: s.Series.Jitter, RetryAt: s.Series.RetryAt,
			Occurrence: strings.Clone(s.Series.Occurrence), Local: strings.Clone(s.Series.Local),
		},
	}
	out.Spec.When.Kind = s.Spec.When.Kind
	if next := s.Next(); next != 0 && (s.Series.At == 0 || next < s.Series.Due()) {
		out.Live = []Live{{Kind: LiveSnoozed, Due: next}} // Next is the earliest of all
	}
	if n := len(s.Done); n > 0 {
		last := s.Done[n-1]
		last.Occurrence, last.Topic = strings.Clone(last.Occurrence), strings.Clone(last.Topic)
		out.Done = []Firing{last}
	}
	return out
}

// SummarySize is about what a summary takes in memory, in bytes.
func (s *State) SummarySize() int {
	n := int(unsafe.Sizeof(*s)) + len(s.Key) + len(s.Series.Occurrence) + len(s.Series.Local) +
		int(unsafe.Sizeof(Live{}))*len(s.Live)
	for i := range s.Done {
		n += int(unsafe.Sizeof(Firing{})) + len(s.Done[i].Occurrence) + len(s.Done[i].Topic)
	}
	return n
}
