package recovery

import (
	"encoding/binary"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Names of meta values in the store.
const (
	MetaProgress   = "progress"
	MetaProgressAt = "progress_at" // the last turn, and the offset of its progress
	MetaPosition   = "position"    // next offset of topic state to read
	MetaCursor     = "cursor"      // all timers are at or after it
	MetaGuard      = "guard"       // the last guard record

	metaPartition = "partition" // partition that the store belongs to
	// metaReading is when the reading of topic state began, and the topic's id. It gives
	// the age of a store whose filling was interrupted.
	metaReading = "reading"
)

// Number encodes a number as a meta value.
func Number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// ToNumber decodes one; 0 if b is none.
func ToNumber(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// TurnAt encodes a turn and the offset of its progress; toTurnAt decodes it. Turn 0 means
// none.
func TurnAt(offset, seq int64) []byte { return append(Number(offset), Number(seq)...) }

func toTurnAt(b []byte) (offset, seq int64) {
	if len(b) != 16 {
		return 0, 0
	}
	return ToNumber(b[:8]), ToNumber(b[8:])
}

// LastTurn returns the last turn that the store has, and the offset of its progress in
// topic state. It returns nil if there is none, or if an older version has written turns
// since, without their offsets.
func (r *Replica) LastTurn() (last *topics.Progress, at int64, err error) {
	raw, err := r.store.Meta(MetaProgress)
	if err != nil || raw == nil {
		return nil, 0, err
	}
	location, err := r.store.Meta(MetaProgressAt)
	if err != nil {
		return nil, 0, err
	}
	if last, err = topics.DecodeProgress(raw); err != nil {
		return nil, 0, err
	}
	at, seq := toTurnAt(location)
	if seq != last.Seq {
		return nil, 0, nil
	}
	return last, at, nil
}

// Row is what the store indexes of a state and its timers.
func Row(s *trigger.State, timers []trigger.Timer, value []byte) statestore.Row {
	return statestore.Row{
		Key:      s.Key,
		Value:    value,
		Timers:   timers,
		ForgetAt: s.ForgetAt,
		Tenant:   s.Key.Tenant(),
		User:     s.Spec.UserID,
		Zone:     s.Spec.When.Zone,
	}
}
