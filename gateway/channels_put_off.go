package gateway

import (
	"context"

	"github.com/waterclock/waterclock/topics"
)

// putOffTopics are the due topics that have put something off.
type putOffTopics struct {
	log   *watermarkLog
	known *shared[map[string][]int32]
}

// get is the partitions that have put due events off, by due topic; nil if that is not known: the list of channels is
// sent without it then. The caller must not change it.
func (s *putOffTopics) get(ctx context.Context) map[string][]int32 {
	known, err := s.known.get(ctx, s.read)
	if err != nil {
		return nil
	}
	return known
}

func (s *putOffTopics) read(ctx context.Context) (map[string][]int32, error) {
	last, err := s.log.read(ctx)
	by := map[string][]int32{}
	for p, m := range last {
		if m == nil {
			continue
		}
		for _, held := range m.Held {
			// One without an offset is new: its end is not known yet, and nothing was put off.
			if _, known := m.Due[held]; known && !topics.IsHeldReason(held) {
				by[held] = append(by[held], int32(p))
			}
		}
	}
	return by, err
}
