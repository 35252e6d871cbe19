package pipeline

import (
	"errors"
	"log/slog"
	"testing"
)

// TestGapServesOnce: leave to go on from one offset is none for another gap, nor
// for another partition.
func TestGapServesOnce(t *testing.T) {
	o := &Options{AcceptGaps: []Gap{{3, 4711}}, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		at      Gap
		refused bool
	}{{Gap{3, 4711}, false}, {Gap{3, 4712}, true}, {Gap{3, 0}, true}, {Gap{2, 4711}, true}} {
		if err := o.gap(c.at.Partition, c.at.Offset, "lost"); errors.Is(err, ErrGap) != c.refused {
			t.Errorf("%v: %v", c.at, err)
		}
	}
}
