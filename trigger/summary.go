package trigger

import "unsafe"

// Summarize sets out to what the answer to a command shows: status and revision, the next planned
// occurrence, and the last one that fired. It has no content. It shares texts with s, so it is
// encoded before it is kept. out may be used again.
func (s *State) Summarize(out *State) {
	*out = State{
		Key: s.Key, Status: s.Status, Revision: s.Revision, Seq: s.Seq, Hash: s.Hash,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, ForgetAt: s.ForgetAt,
		Series: Series{
			At: s.Series.At, Jitter: s.Series.Jitter, RetryAt: s.Series.RetryAt,
			Occurrence: s.Series.Occurrence, Local: s.Series.Local,
		},
		Live: out.Live[:0], Done: out.Done[:0],
	}
	out.Spec.When.Kind = s.Spec.When.Kind
	if next := s.Next(); next != 0 && (s.Series.At == 0 || next < s.Series.Due()) {
		out.Live = append(out.Live, Live{Kind: LiveSnoozed, Due: next}) // Next is the earliest of all
	}
	if n := len(s.Done); n > 0 {
		out.Done = append(out.Done, s.Done[n-1])
	}
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
