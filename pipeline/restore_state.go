package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// replica is a store as topic state is read into it: until a nonce by whoever
// opens the partition, without an end by a standby.
type replica struct {
	opts     *Options
	id       int32
	store    *statestore.Store
	progress topics.Progress // the newest read; Seq 0: none yet
	at       int64           // where it stands
	guard    topics.Guard    // likewise
	began    reading         // of a store that was empty
	since    trigger.Instant // by the brokers' clock: what was deleted before is known, what was deleted later can still be read

	nonce   []byte                 // nil: read on for ever
	chunk   int                    // keys in one batch
	overlay map[trigger.Key][]byte // newest value in this chunk; nil: tombstone
	order   []trigger.Key
	bytes   int   // of what is in overlay
	next    int64 // offset of topic state
	records int64
	done    bool // the nonce was read
	batch   *statestore.Batch

	was, is decoded // memory of put
}

// decoded is a state and what the store indexes of it.
type decoded struct {
	state  trigger.State
	timers []trigger.Timer
	value  []byte
}

// row reads a state; it holds until the next one is read into d.
func (d *decoded) row(key trigger.Key, value []byte) (statestore.Row, error) {
	if err := topics.DecodeStateInto(&d.state, key, value); err != nil {
		return statestore.Row{}, err
	}
	d.timers = d.state.Timers(d.timers[:0])
	return row(&d.state, d.timers, value), nil
}

// Bounds of one batch of a restore in memory, and how often it says how far it
// is. Large batches, sorted as they are, go past Pebble's memtable.
const (
	restoreChunk = 50_000
	restoreBytes = 12 << 20
	restoreTell  = 5 * time.Second
)

// restore replays topic state from the stored position until the nonce.
func (p *Partition) restore(ctx context.Context, nonce []byte, ids topicIDs) error {
	r := newReplica(p.opts, p.id, p.store)
	if err := r.distrust(ids, p.clock.latest(p.opts.Now())); err != nil {
		return err
	}
	if p.opts.hooks.skipRestore() {
		return nil
	}
	begin := time.Now()
	r.nonce = nonce
	if err := p.sameState(ctx, r); err != nil {
		return err
	}
	end, err := r.begin(ctx, p.kafka.cl, p.now())
	if err != nil {
		return err
	}
	read, done, err := p.reading(r, end)
	if err != nil {
		return err
	}
	defer done()
	if end-r.next > int64(r.chunk) {
		r.store.Fill()
	}
	from, told := r.next, begin
	for !r.done {
		pctx, cancel := context.WithTimeout(ctx, openStep)
		fs, err := read(pctx)
		cancel()
		if err != nil {
			return err // among others, that nothing came for openStep although the nonce is there
		}
		if err := r.apply(fs, p.now()); err != nil {
			return err
		}
		p.own.restoring(r.next-from, end-from)
		if now := time.Now(); now.Sub(told) >= restoreTell {
			told = now
			p.log.Info("restoring from topic state", "read", r.next-from, "of", end-from, "per_second", int64(float64(r.records)/now.Sub(begin).Seconds()))
		}
	}
	if err := errors.Join(r.flush(), r.store.Filled()); err != nil {
		return err
	}
	p.progress, p.guard = r.progress, r.guard
	p.opts.Listener.Restored(p.id, r.records, time.Since(begin))
	return nil
}

// nearEnd is how many records are read by the client that is connected already:
// to connect another takes longer.
const nearEnd = 1000

// reading returns what reads topic state from r.next on: all there is.
func (p *Partition) reading(r *replica, end int64) (read func(context.Context) (kgo.Fetches, error), done func(), err error) {
	if end-r.next <= nearEnd {
		next := r.next
		return func(ctx context.Context) (fs kgo.Fetches, err error) {
			fs, next, err = p.kafka.reader.ReadFrom(ctx, p.state(), next, p.opts.isolation(), p.opts.decompressor())
			return fs, err
		}, func() {}, nil
	}
	cl, err := r.reader()
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (kgo.Fetches, error) {
		fs := cl.PollFetches(ctx) // the next is fetched while this is applied
		return fs, fetchFailed(ctx, fs)
	}, cl.Close, nil
}

func newReplica(o *Options, id int32, st *statestore.Store) *replica {
	r := &replica{opts: o, id: id, store: st, batch: st.NewBatch(), chunk: cmp.Or(o.restoreChunk, restoreChunk)}
	r.reset()
	return r
}

func (r *replica) reset() {
	if r.overlay == nil {
		r.overlay = map[trigger.Key][]byte{}
	}
	clear(r.overlay)
	clear(r.order)
	r.order, r.bytes = r.order[:0], 0
}

// begin finds where topic state is to be read from, where the store stands, and
// where it ends now. The client that asks is connected already; now is the
// brokers' time.
func (r *replica) begin(ctx context.Context, asks *kgo.Client, now trigger.Instant) (end int64, err error) {
	actx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	topic := r.opts.Names.State()
	start, err := kafkapart.ListOffset(actx, asks, topic, r.id, kafkapart.ReadCommitted, kafkapart.Earliest)
	if err != nil {
		return 0, err
	}
	if end, err = kafkapart.ListOffset(actx, asks, topic, r.id, kafkapart.ReadUncommitted, kafkapart.Latest); err != nil {
		return 0, err
	}
	if r.next, err = r.position(); err != nil {
		return 0, err
	}
	if r.next == 0 || r.next < start || r.next > end {
		if r.next > 0 {
			if err := r.wipe(fmt.Sprintf("topic state is there from %d to %d, and the store had read to %d", start, end, r.next)); err != nil {
				return 0, err
			}
		}
		r.next, r.began.at, r.since = start, now, now
	}
	return end, nil
}

// reader is a client that reads topic state from r.next on.
func (r *replica) reader() (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.FetchIsolationLevel(r.opts.isolation().Kgo()),
		kgo.KeepControlRecords(), // or a log that ends in markers never looks read
		kgo.FetchMaxPartitionBytes(8 << 20),
		kgo.FetchMaxWait(r.opts.FetchMaxWait),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff),
		kgo.DisableClientMetrics(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.opts.Names.State(): {r.id: kgo.NewOffset().At(r.next)}}),
	}, r.opts.Kafka...)...)
}

func fetchFailed(ctx context.Context, fs kgo.Fetches) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, fe := range fs.Errors() {
		return &kafkapart.FetchError{At: kafkapart.TopicPartition{Topic: fe.Topic, Partition: fe.Partition}, Err: fe.Err}
	}
	return nil
}

// apply takes what was fetched until now, and writes it to the store a chunk at
// a time. What is left the caller flushes. It fails when the reading takes so
// long that tombstones may have gone before they were reached: what it has read
// is then too old to be resumed, and the next opening begins it anew.
func (r *replica) apply(fs kgo.Fetches, now trigger.Instant) error {
	if reason := r.tooOld(now, 2*r.opts.MaxAway); reason != "" {
		return fmt.Errorf("topic state is read too slowly, and may lack tombstones by now: %s", reason)
	}
	for it := fs.RecordIter(); !it.Done() && !r.done; {
		if err := r.take(it.Next()); err != nil {
			return err
		}
		if len(r.order) >= r.chunk || r.bytes >= restoreBytes {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *replica) take(rec *kgo.Record) error {
	r.next = rec.Offset + 1
	if rec.Attrs.IsControl() {
		return nil
	}
	r.records++
	switch {
	case bytes.Equal(rec.Key, topics.KeyNonce):
		r.done = r.nonce != nil && bytes.Equal(rec.Value, r.nonce)
	case bytes.Equal(rec.Key, topics.KeyProgress):
		pr, err := topics.DecodeProgress(rec.Value)
		if err != nil {
			return fmt.Errorf("progress at %d: %w", rec.Offset, err)
		}
		r.progress, r.at, r.since = *pr, rec.Offset, max(r.since, pr.At)
	case bytes.Equal(rec.Key, topics.KeyGuard):
		g, err := topics.DecodeGuard(rec.Value)
		if err != nil {
			return fmt.Errorf("guard at %d: %w", rec.Offset, err)
		}
		r.guard = *g
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

func (r *replica) flush() error {
	for _, key := range r.order {
		if err := r.put(key, r.overlay[key]); err != nil {
			return err
		}
	}
	if r.progress.Seq > 0 {
		value, err := topics.AppendProgress(nil, &r.progress)
		if err != nil {
			return err
		}
		r.batch.SetMeta(metaProgress, value)
		r.batch.SetMeta(metaProgressAt, placeOf(r.at, r.progress.Seq))
	}
	if r.guard.Seq > 0 {
		value, err := topics.AppendGuard(nil, &r.guard)
		if err != nil {
			return err
		}
		r.batch.SetMeta(metaGuard, value)
	}
	if r.began.at > 0 {
		r.batch.SetMeta(metaReading, r.began.encode())
		r.began.at = 0
	}
	r.batch.SetMeta(metaPosition, number(r.next))
	r.batch.SetMeta(metaCursor, number(0))
	r.batch.SetMeta(metaPartition, number(int64(r.id)))
	r.reset()
	err := r.batch.Commit()
	r.opts.Listener.Step(r.id, StepRestore)
	return err
}

func (r *replica) put(key trigger.Key, value []byte) error {
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

// stored is the row the store holds for a key; nil without one. It holds until
// the next call.
func (r *replica) stored(key trigger.Key) (*statestore.Row, error) {
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
