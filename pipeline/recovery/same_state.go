package recovery

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// SameState refuses a topic state that does not hold the last turn that the store has. Its
// log lost committed turns. What they fired is in other topics, and would fire twice. It must
// precede Begin, which wipes a store that has read further than the log reaches.
func (r *Replica) SameState(ctx context.Context, reads *kafkapart.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	state := kafkapart.TopicPartition{Topic: r.config.Names.State(), Partition: r.id}
	stored, at, err := r.LastTurn()
	if err != nil || stored == nil {
		return err
	}
	end, err := kafkapart.ListOffset(ctx, reads.Client(), state.Topic, r.id, kafkapart.ReadUncommitted,
		kafkapart.Latest)
	if err != nil {
		return err
	}
	if at < end {
		rec, err := reads.RecordAt(ctx, state, at, r.config.Decompressor)
		if err != nil || rec == nil || isTurn(rec, stored) {
			return err
		}
	}
	err = r.config.Gap(r.id, at,
		"%s/%d ends at %d, and does not hold turn %d, which was committed at %d: it lost its end. "+
			"What fired since then is recorded nowhere, and may fire again", state.Topic, r.id, end, stored.Seq, at)
	if err != nil {
		return err
	}
	return r.Wipe("topic state lost its end")
}

// isTurn reports whether a record is the progress of this turn.
func isTurn(rec *kgo.Record, want *topics.Progress) bool {
	if string(rec.Key) != string(topics.KeyProgress) {
		return false
	}
	have, err := topics.DecodeProgress(rec.Value)
	return err == nil && have.Seq == want.Seq && have.Term == want.Term && have.EventUS == want.EventUS &&
		have.At == want.At
}
