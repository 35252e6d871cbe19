package trigger

import "slices"

// addLive adds a live occurrence. If there are too many, the oldest fails.
func (d *decision) addLive(l Live) {
	s := d.s
	s.Live = slices.Clone(s.Live)
	if len(s.Live) >= MaxLive {
		i := s.oldest()
		oldest := s.Live[i]
		s.Live = slices.Delete(s.Live, i, i+1)
		if oldest.Accepted {
			d.addFactOf(&oldest, Fact{Type: EscalationStopped, Reason: "overrun"})
		} else {
			d.deadLetter(&oldest, "overrun", "more than 128 live occurrences")
		}
	}
	s.Live = append(s.Live, l)
}

// oldest is the index of the live occurrence that was due first. Live itself is in the order
// of the last attempts.
func (s *State) oldest() (i int) {
	for j := range s.Live {
		if s.Live[j].Nominal < s.Live[i].Nominal {
			i = j
		}
	}
	return i
}
