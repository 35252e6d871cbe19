package recovery

import (
	"strconv"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// reading is the value of metaReading.
type reading struct {
	topic [16]byte        // id of topic state
	at    trigger.Instant // brokers' clock when the reading began; 0: unknown
}

func (r reading) encode() []byte { return append(r.topic[:], Number(int64(r.at))...) }

func decodeReading(b []byte) (r reading) {
	if len(b) == 24 {
		copy(r.topic[:], b)
		r.at = trigger.Instant(ToNumber(b[16:]))
	}
	return r
}

func (r *Replica) position() (int64, error) {
	raw, err := r.store.Meta(MetaPosition)
	return ToNumber(raw), err
}

// WipeStale wipes a store that must not be resumed: of other topics, of another
// partition, or older than tombstones are kept.
func (r *Replica) WipeStale(ids TopicIDs, now trigger.Instant) error {
	reason, err := r.stale(ids, now)
	r.began = reading{topic: ids.State}
	if err != nil || reason == "" {
		return err
	}
	return r.Wipe(reason)
}

// Wipe empties the store.
func (r *Replica) Wipe(reason string) error {
	r.config.Logger.Info("rebuilding the local store from Kafka", "partition", r.id, "reason", reason)
	if err := r.store.Wipe(); err != nil {
		return err
	}
	r.batch = r.store.NewBatch()
	return nil
}

// stale says why the store must not be resumed; "" if it may be. A store that missed
// compacted tombstones would fire triggers that were cancelled.
//
// Kafka keeps every tombstone for delete.retention.ms after a reader could first have
// missed it. So the age of a store counts from the later of two moments: when its reading
// of topic state began, and when its newest turn was written. A store may be idle for half
// of that time; the other half remains to read what it lacks (Apply).
func (r *Replica) stale(ids TopicIDs, now trigger.Instant) (string, error) {
	began, err := r.store.Meta(metaReading)
	if err != nil {
		return "", err
	}
	raw, err := r.store.Meta(MetaProgress)
	if err != nil {
		return "", err
	}
	home, err := r.store.Meta(metaPartition)
	if err != nil {
		return "", err
	}
	if home != nil && ToNumber(home) != int64(r.id) {
		return "it is of partition " + strconv.FormatInt(ToNumber(home), 10), nil
	}
	if raw == nil {
		return r.staleFilling(decodeReading(began), ids, now)
	}
	pr, err := topics.DecodeProgress(raw)
	if err != nil {
		return "its progress cannot be read", nil
	}
	since := decodeReading(began)
	if pr.StateID != ids.State && since.topic != ids.State { // else it was read from a copy, in this topic
		err := r.config.GapRecreated(r.id, ids.State,
			"topic %s was deleted and made again, and all pending triggers with it; "+
				"what topic %s still holds would be decided again (unless topics.prefix or brokers are wrong)",
			r.config.Names.State(), r.config.Names.Commands())
		if err != nil {
			return "", err
		}
	}
	if pr.CommandsID != ids.Commands || pr.StateID != ids.State || (since.at > 0 && since.topic != ids.State) {
		return "a topic was deleted and made again", nil
	}
	r.since = max(pr.At, since.at)
	return r.tooOld(now, r.config.MaxAway), nil
}

// staleFilling is stale for a store without progress: its filling was interrupted, or no
// owner has turned the partition yet.
func (r *Replica) staleFilling(began reading, ids TopicIDs, now trigger.Instant) (string, error) {
	position, err := r.position()
	switch {
	case err != nil || position == 0:
		return "", err
	case began.at == 0:
		return "its restore was interrupted, and its start time is unknown", nil
	case began.topic != ids.State:
		return "a topic was deleted and made again", nil
	}
	r.since = began.at
	return r.tooOld(now, r.config.MaxAway), nil
}

// tooOld says how old the last reading is if that is more than most; "" if not.
func (r *Replica) tooOld(now trigger.Instant, most time.Duration) string {
	if age := now.Sub(r.since); age > most {
		return "it is " + age.Round(time.Minute).String() + " old"
	}
	return ""
}
