package handover

import (
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"github.com/waterclock/waterclock/topics"
)

// Anew is the number that an operator accepts for a topic that was made again, in place of
// an offset. Offset 0 would accept the loss of every other topic, too, and the next loss.
func Anew(id [16]byte) int64 { return int64(binary.BigEndian.Uint32(id[:])) }

// sameTopics refuses a topic that was deleted and made again, because its offsets mean
// something else.
func (r *Resumption) sameTopics() error {
	p, g := &r.out.Progress, &r.out.Guard
	if p.CommandsID != r.found.Commands.ID {
		if p.Seq > 0 {
			if err := r.recreated(r.found.Commands, "commands"); err != nil {
				return err
			}
		}
		// Receipts were not made again: what is owed of them is still owed.
		p.NextCommand, p.Applied, p.Forwarded = 0, onlyReceipts(p.Applied), onlyReceipts(p.Forwarded)
		g.Commands, g.Applied = topics.LastRead{}, onlyReceipts(g.Applied)
	}
	if was := g.ReceiptsID; was != ([16]byte{}) && was != r.found.Receipts.ID {
		if err := r.recreated(r.found.Receipts, "receipts"); err != nil {
			return err
		}
		p.NextReceipt, g.Receipts = 0, topics.LastRead{}
		p.Applied, p.Forwarded = withoutReceipts(p.Applied), withoutReceipts(p.Forwarded)
	}
	if was := g.ControlID; was != ([16]byte{}) && was != r.found.Control {
		p.NextControl, r.out.ControlAnew = 0, true // lost settings must be written once more
	}
	return nil
}

func (r *Resumption) recreated(log Log, what string) error {
	return r.accept(Anew(log.ID),
		fmt.Sprintf("topic %s was deleted and made again; %s in the old one are lost", log.Topic, what))
}

// onlyReceipts and withoutReceipts are the halves of what is noted by partition. Receipts have keys below 0.
func onlyReceipts[V any](m map[int32]V) map[int32]V    { return half(m, true) }
func withoutReceipts[V any](m map[int32]V) map[int32]V { return half(m, false) }

func half[V any](m map[int32]V, receipts bool) map[int32]V {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(key int32, _ V) bool { return (key < 0) != receipts })
	return m
}

// keptFromCompaction refuses a partition that no engine ran for so long that compaction may
// have removed registers under later commands. The number to accept is when the absence began:
// the next offset may still be the same after a later absence.
func (r *Resumption) keptFromCompaction() error {
	p := &r.out.Progress
	away := r.owner.Now.Sub(p.At)
	if p.Seq == 0 || away <= compactionLag {
		return nil
	}
	return r.accept(int64(p.At), fmt.Sprintf(
		"no engine ran partition %d for %s, longer than topic %s is kept from compaction (7 d): registers may have "+
			"been compacted away",
		r.owner.Partition, away.Round(time.Hour), r.found.Commands.Topic))
}
