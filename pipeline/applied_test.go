package pipeline

import (
	"log/slog"
	"testing"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// TestAppliedIsCopiedOncePerTurn: a turn copies the committed offsets for its first forwarded command and never again,
// because with a thousand sources a copy for each command costs more than the command.
func TestAppliedIsCopiedOncePerTurn(t *testing.T) {
	const sources, perTurn = 1000, 50
	id := [16]byte{1}
	o := &Process{Options: Options{Names: topics.Names{Prefix: "w."}, Partitions: sources + 1}}
	c := newClaims(o, 0, slog.New(slog.DiscardHandler), nil, map[string][16]byte{"w.commands": id})
	committed := turn{
		progress: topics.Progress{Applied: map[int32]int64{}},
		guard:    topics.Guard{Applied: map[int32]topics.AppliedOrigin{}},
	}
	var records []*topics.Record
	for source := range int32(sources) {
		source++
		c.ends[kafkapart.TopicPartition{Topic: "w.commands", Partition: source}] = 100
		committed.progress.Applied[source] = 40
		committed.guard.Applied[source] = topics.AppliedOrigin{Offset: 40, Append: 1000}
		if source <= perTurn {
			f := topics.Forward{TopicID: id, Partition: source, Offset: 41, Append: 1000}
			records = append(records, &topics.Record{
				Topic: "w.commands", Timestamp: 2000, Headers: topics.ForwardHeaders(nil, f),
			})
		}
	}
	next := func(n int) (now *turn) {
		now = &turn{progress: committed.progress, guard: committed.guard}
		for _, rec := range records[:n] {
			if _, copied := c.origin(now, rec); copied {
				t.Fatal("a new command counts as a copy")
			}
		}
		return now
	}
	now := next(perTurn)
	if now.progress.Applied[perTurn] != 41 || now.guard.Applied[perTurn].Offset != 41 ||
		len(now.progress.Applied) != sources || len(now.guard.Applied) != sources {
		t.Error("what the turn has applied does not join what was there")
	}
	if committed.progress.Applied[perTurn] != 40 || committed.guard.Applied[perTurn].Offset != 40 {
		t.Error("a turn that may still fail has changed what is committed")
	}
	one, all := testing.AllocsPerRun(5, func() { next(1) }), testing.AllocsPerRun(5, func() { next(perTurn) })
	if all > one+2*perTurn { // a copy of the maps is a dozen
		t.Errorf("%.0f allocations for one command, %.0f for %d", one, all, perTurn)
	}
}
