package recovery

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Replica reads topic state into a store: up to a nonce for an owner, without an end for a
// standby.
type Replica struct {
	config   *Config
	id       int32
	store    *statestore.Store
	Progress topics.Progress // the newest one read; Seq 0: none yet
	at       int64           // its offset
	Guard    topics.Guard    // the newest one read
	began    reading         // set if the store was empty
	// since is a time on the brokers' clock. The store knows what was deleted before it;
	// later tombstones can still be read.
	since trigger.Instant

	Nonce   []byte                 // nil: read without an end
	overlay map[trigger.Key][]byte // newest value of each key in this chunk; nil: tombstone
	order   []trigger.Key
	bytes   int   // size of overlay
	Next    int64 // next offset of topic state
	Records int64
	Done    bool // the nonce has been read
	batch   *statestore.Batch

	was, is decoded // scratch memory of put
}

// decoded is a state and what the store indexes of it.
type decoded struct {
	state  trigger.State
	timers []trigger.Timer
	value  []byte
}

// row decodes a state. The result is valid until the next call with d.
func (d *decoded) row(key trigger.Key, value []byte) (statestore.Row, error) {
	if err := topics.DecodeStateInto(&d.state, key, value); err != nil {
		return statestore.Row{}, err
	}
	d.timers = d.state.Timers(d.timers[:0])
	return Row(&d.state, d.timers, value), nil
}

// These bound one batch in memory. Large sorted batches bypass Pebble's memtable.
const (
	DefaultChunk = 50_000
	maxBytes     = 12 << 20
)

// fetchBytes bounds one fetch of topic state. Brokers count it compressed; what comes out takes
// several times as much.
const fetchBytes = 2 << 20

// NewReplica makes a Replica for an open store.
func (c *Config) NewReplica(id int32, st *statestore.Store) *Replica {
	r := &Replica{config: c, id: id, store: st, batch: st.NewBatch()}
	r.reset()
	return r
}

// Restarted notes that the store begins empty at now. Its age counts from there, however
// wrong a clock is.
func (r *Replica) Restarted(now trigger.Instant) {
	if r.began.at > 0 {
		r.since = now
	}
}

func (r *Replica) reset() {
	if r.overlay == nil {
		r.overlay = map[trigger.Key][]byte{}
	}
	clear(r.overlay)
	clear(r.order)
	r.order, r.bytes = r.order[:0], 0
}

// Begin finds where the reading begins and where topic state ends now. The client asks is
// connected already; now is the brokers' time.
func (r *Replica) Begin(ctx context.Context, asks *kgo.Client, now trigger.Instant) (end int64, err error) {
	actx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	topic := r.config.Names.State()
	start, err := kafkapart.ListOffset(actx, asks, topic, r.id, kafkapart.ReadCommitted, kafkapart.Earliest)
	if err != nil {
		return 0, err
	}
	if end, err = kafkapart.ListOffset(actx, asks, topic, r.id, kafkapart.ReadUncommitted,
		kafkapart.Latest); err != nil {
		return 0, err
	}
	if r.Next, err = r.position(); err != nil {
		return 0, err
	}
	if r.Next == 0 || r.Next < start || r.Next > end {
		if r.Next > 0 {
			why := fmt.Sprintf("topic state is there from %d to %d, and the store had read to %d", start, end, r.Next)
			if err := r.Wipe(why); err != nil {
				return 0, err
			}
		}
		r.Next, r.began.at, r.since = start, now, now
	}
	return end, nil
}

// Client makes a client that reads topic state from r.Next on.
func (r *Replica) Client() (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.FetchIsolationLevel(r.config.Isolation.Kgo()),
		kgo.KeepControlRecords(), // else a log that ends in markers never looks read
		kgo.FetchMaxPartitionBytes(fetchBytes),
		kgo.FetchMaxWait(r.config.FetchMaxWait),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff),
		kgo.DisableClientMetrics(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.config.Names.State(): {r.id: kgo.NewOffset().
			At(r.Next)}}),
	}, r.config.Kafka...)...)
}

// FetchFailed returns the first error of a fetch.
func FetchFailed(ctx context.Context, fs kgo.Fetches) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, fe := range fs.Errors() {
		return &kafkapart.FetchError{
			At:  kafkapart.TopicPartition{Topic: fe.Topic, Partition: fe.Partition},
			Err: fe.Err,
		}
	}
	return nil
}

// Apply takes what was fetched and writes it to the store, a chunk at a time. The caller
// flushes the rest. It fails if the reading takes so long that tombstones may be gone
// before it reaches them. The store is then too old, and the next opening begins anew.
func (r *Replica) Apply(fs kgo.Fetches, now trigger.Instant) error {
	if reason := r.tooOld(now, 2*r.config.MaxAway); reason != "" {
		return fmt.Errorf("topic state was read too slowly and may lack tombstones: %s", reason)
	}
	for it := fs.RecordIter(); !it.Done() && !r.Done; {
		rec := it.Next()
		if err := r.take(rec); err != nil {
			return err
		}
		r.Next = rec.Offset + 1 // not before: a record that cannot be read is read again
		if len(r.order) >= r.config.Chunk || r.bytes >= maxBytes {
			if err := r.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Replica) take(rec *kgo.Record) error {
	if rec.Attrs.IsControl() {
		return nil
	}
	r.Records++
	switch {
	case bytes.Equal(rec.Key, topics.KeyNonce):
		r.Done = r.Nonce != nil && bytes.Equal(rec.Value, r.Nonce)
	case bytes.Equal(rec.Key, topics.KeyProgress):
		pr, err := topics.DecodeProgress(rec.Value)
		if err != nil {
			return fmt.Errorf("progress at %d: %w", rec.Offset, err)
		}
		r.Progress, r.at, r.since = *pr, rec.Offset, max(r.since, pr.At)
	case bytes.Equal(rec.Key, topics.KeyGuard):
		g, err := topics.DecodeGuard(rec.Value)
		if err != nil {
			return fmt.Errorf("guard at %d: %w", rec.Offset, err)
		}
		r.Guard = *g
	case topics.IsReserved(rec.Key):
	default:
		key := trigger.Key(rec.Key)
		if _, seen := r.overlay[key]; !seen {
			r.order = append(r.order, key)
		}
		r.overlay[key] = rec.Value
		r.bytes += len(rec.Key) + len(rec.Value)
	}
	return nil
}

// Flush writes what was applied to the store.
func (r *Replica) Flush() error {
	for _, key := range r.order {
		if err := r.put(key, r.overlay[key]); err != nil {
			return err
		}
	}
	if r.Progress.Seq > 0 {
		value, err := topics.AppendProgress(nil, &r.Progress)
		if err != nil {
			return err
		}
		r.batch.SetMeta(MetaProgress, value)
		r.batch.SetMeta(MetaProgressAt, TurnAt(r.at, r.Progress.Seq))
	}
	if r.Guard.Seq > 0 {
		value, err := topics.AppendGuard(nil, &r.Guard)
		if err != nil {
			return err
		}
		r.batch.SetMeta(MetaGuard, value)
	}
	if r.began.at > 0 {
		r.batch.SetMeta(metaReading, r.began.encode())
		r.began.at = 0
	}
	r.batch.SetMeta(MetaPosition, Number(r.Next))
	r.batch.SetMeta(MetaCursor, Number(0))
	r.batch.SetMeta(metaPartition, Number(int64(r.id)))
	r.reset()
	err := r.batch.Commit()
	r.config.Stored(r.id)
	return err
}

func (r *Replica) put(key trigger.Key, value []byte) error {
	before, err := r.stored(key)
	if err != nil {
		return err
	}
	if value == nil {
		if before != nil {
			r.batch.Delete(*before)
		}
		return nil
	}
	now, err := r.is.row(key, value)
	if err != nil {
		return fmt.Errorf("state of %q: %w", key, err)
	}
	r.batch.Put(before, now)
	return nil
}

// stored returns the row that the store holds for a key; nil if there is none. It is valid
// until the next call.
func (r *Replica) stored(key trigger.Key) (*statestore.Row, error) {
	value, err := r.store.Get(key, r.was.value)
	if err != nil || value == nil {
		return nil, err
	}
	r.was.value = value
	before, err := r.was.row(key, value)
	if err != nil {
		return nil, fmt.Errorf("stored state of %q: %w", key, err)
	}
	return &before, nil
}
