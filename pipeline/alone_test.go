package pipeline

import (
	"testing"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// TestStateWentBack: a turn's records of topic state stand before the end of the
// last turn. Topic state has lost its end under the owner, who must not go on as
// if nothing had been.
func TestStateWentBack(t *testing.T) {
	l := &stateLog{next: 100, TopicPartition: kafkapart.TopicPartition{Topic: "state"}, kept: &Kept{}}
	if err := l.checkAlone(t.Context(), 100, 110); err != nil {
		t.Errorf("right behind the last turn: %v", err)
	}
	if err := l.checkAlone(t.Context(), 50, 60); err == nil {
		t.Error("the turn stands before the last one, and nobody minds")
	}
}

// TestGuardRecord: the guard is written when it has changed, and once more before it is too far
// from the end of topic state.
func TestGuardRecord(t *testing.T) {
	l := &stateLog{next: 100, TopicPartition: kafkapart.TopicPartition{Topic: "state", Partition: 3}}
	write := func(group string, seq int64) *turn {
		t.Helper()
		now := &turn{guard: l.guard}
		now.guard.Group, now.progress.Seq = group, seq
		r, err := l.guardRecord(now)
		if err != nil {
			t.Fatal(err)
		}
		if (r != nil) != (now.encodedGuard != nil) || r != nil && (r.Topic != "state" || r.Partition != 3) {
			t.Fatalf("the record is %+v, its value %q", r, now.encodedGuard)
		}
		return now
	}
	first := write("a", 1)
	if first.encodedGuard == nil || first.guard.Seq != 1 {
		t.Error("the first turn wrote no guard")
	}
	l.committed(first, 100)
	if now := write("a", 2); now.encodedGuard != nil {
		t.Error("an unchanged guard was written once more")
	} else if l.committed(now, 102); l.guarded != 100 || l.guard.Seq != 1 {
		t.Errorf("the guard is at %d, of turn %d: nobody wrote it", l.guarded, l.guard.Seq)
	}
	if write("b", 3).encodedGuard == nil {
		t.Error("another group owns the partition, and the guard does not say so")
	}
	l.next = 100 + guardInterval
	if write("a", 3).encodedGuard == nil {
		t.Error("the guard is too far from the end to be found")
	}
}
