package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// Stalls holds the watermarks of a topic against the rule that they follow the clock: while
// nothing is named that keeps them back, each says at least that everything is out that was due
// when the owner wrote the last but one. records are whole dumps, in the order of their offsets.
// That what they say is true, the checker proves (C13).
func Stalls(records []*kgo.Record) (found []string) {
	last := map[int32][]*topics.Watermark{} // the last two of one owner
	for _, r := range records {
		m, err := topics.DecodeWatermark(r.Key, r.Value)
		if err != nil || m == nil {
			delete(last, r.Partition)
			continue
		}
		before := last[r.Partition]
		if len(before) > 0 && before[0].Term != m.Term {
			before = nil
		}
		if len(before) == 2 {
			was, is := before[0], before[1]
			if at := min(was.At, is.At, m.At); m.FiredThrough < at && !keptBack(is) && !keptBack(m) {
				found = append(found, fmt.Sprintf("watermark at %d/%d: it says %s and names nothing that keeps it "+
					"back; the last but one was written at %s", r.Partition, r.Offset, m.FiredThrough, at))
			}
			before = before[1:]
		}
		last[r.Partition] = append(before, m)
	}
	return found
}

// keptBack reports whether a watermark names what keeps it back. A due topic that refuses records
// does not.
func keptBack(m *topics.Watermark) bool { return slices.ContainsFunc(m.Held, topics.IsHeldReason) }

// A watermark at rest is as old as the time between two idle ones, and these are two turns more.
const watermarkRest = 5*time.Second + 2*time.Second

// AwaitWatermarks waits until each partition's watermark follows the clock: it is older than what
// is most overdue by two turns at most. All faults must be over. What it finds is among the
// violations.
func (w *World) AwaitWatermarks() {
	w.T.Helper()
	var behind []string
	for range 30 {
		if behind = w.behindTheClock(); len(behind) == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	w.stalled = behind
}

func (w *World) behindTheClock() (behind []string) {
	last := make([]*topics.Watermark, w.P)
	for _, r := range w.Dump(w.Names.Watermarks()) {
		if m, err := topics.DecodeWatermark(r.Key, r.Value); err == nil {
			last[r.Partition] = m
		}
	}
	for p, m := range last {
		owner := w.Owner(int32(p))
		switch {
		case owner == nil:
			behind = append(behind, fmt.Sprintf("partition %d has no owner", p))
		case m == nil:
			behind = append(behind, fmt.Sprintf("partition %d has no watermark", p))
		default:
			most := watermarkRest
			for _, s := range owner.Partitions() {
				if s.Partition == int32(p) {
					most += s.OldestOverdue
				}
			}
			if age := time.Since(m.FiredThrough.Time()); age > most {
				behind = append(behind, fmt.Sprintf("partition %d: its watermark is %v behind the clock, and %v are "+
					"allowed: %s", p, age, most, m.Value()))
			}
		}
	}
	return behind
}
