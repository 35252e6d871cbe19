package recovery

import (
	"encoding/binary"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Meta names in the store.
const (
	MetaProgress   = "progress"
	MetaProgressAt = "progress_at" // its offset, and the turn that stands there
	MetaPosition   = "position"    // next offset of topic state to read
	MetaCursor     = "cursor"      // no timer lies below it
	MetaGuard      = "guard"       // the last guard record

	metaPartition = "partition" // whose store it is
	// metaReading is since when, and from which topic, a store has been read: a
	// store whose filling was broken off says by it how old it is.
	metaReading = "reading"
)

// Number is a number as a meta value.
func Number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// ToNumber reads one; 0 if it is none.
func ToNumber(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// TurnAt is where a turn's progress stands, and toTurnAt reads it; turn 0 is none.
func TurnAt(offset, seq int64) []byte { return append(Number(offset), Number(seq)...) }

func toTurnAt(b []byte) (offset, seq int64) {
	if len(b) != 16 {
		return 0, 0
	}
	return ToNumber(b[:8]), ToNumber(b[8:])
}

// LastTurn is the last turn that the store has seen, and where its progress
// stands in topic state; nil if there is none, or an older version has written
// turns since, which does not say where.
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
