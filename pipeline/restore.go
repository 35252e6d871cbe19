package pipeline

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
	"github.com/waterclock/waterclock/wheel"
)

// ErrGap says that commands were lost to retention or compaction while nobody
// ran the partition. Only an operator can decide to go on (--accept-gap).
var ErrGap = errors.New("commands are missing")

// ErrPartitions says that topics have another number of partitions than the
// engine is set to. Keys would hash elsewhere: growing is a migration.
var ErrPartitions = errors.New("the number of partitions does not fit")

// open makes a partition ready to turn:
//
//  1. open the store; begin an empty one if it is damaged
//  2. InitProducerID: fences the old owner and aborts its transaction
//  3. commit a nonce to topic state: whatever lies before it is settled, and
//     the broker's time is known
//  4. wipe the store if it is too old, or of another partition or topic
//  5. read topic state from the stored position until the nonce
//  6. fill the wheel; go on reading commands where progress says
func open(ctx context.Context, o *Options, id int32, due *dueTopics, sick map[string]*sickness) (*Partition, error) {
	p := &Partition{
		opts: o, id: id, log: o.Logger.With("partition", id), machine: o.Machine, dueTopics: due, sick: sick,
		channels: map[string]bool{}, sourceEnds: map[route]int64{}, wheel: wheel.New(wheel.Options{MaxEntries: wheelEntries}, o.Now().UnixMilli()),
		pace: pace{fixed: o.MinInterval, floor: o.turnFloor()},
	}
	p.machine.DuePartition = id
	p.machine.Timetable = o.Machine.Timetable.Fork()
	if err := p.open(ctx); err != nil {
		p.close()
		return nil, err
	}
	p.view.start(p)
	return p, nil
}

func (p *Partition) open(ctx context.Context) (err error) {
	if p.kafka, err = openSession(p.opts, p.id); err != nil {
		return err
	}
	ids, err := p.topicIDs(ctx)
	if err != nil {
		return err
	}
	if err := p.openStore(); err != nil {
		return err
	}
	nonce, err := p.fence(ctx)
	if err != nil {
		return err
	}
	if err := p.distrust(ids); err != nil {
		return err
	}
	if err := p.restore(ctx, nonce); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if p.forward, err = newForwarder(p.opts, p.log); err != nil {
		return err
	}
	rctx, cancel := context.WithTimeout(ctx, readRangeWithin+openStep)
	defer cancel()
	return p.resume(rctx, ids)
}

func (p *Partition) close() {
	p.view.shut()
	if p.forward != nil {
		p.forward.close()
	}
	if p.kafka != nil {
		p.kafka.close()
	}
	if p.store != nil {
		if err := p.store.Close(); err != nil {
			p.log.Warn("closing the store failed; it is rebuilt from Kafka if need be", "error", err)
		}
	}
}

// topicIDs are the ids of commands and state: a topic that was deleted and
// made again has another one, and nothing we hold belongs to it. It refuses
// topics to which partitions were added.
func (p *Partition) topicIDs(ctx context.Context) ([2][16]byte, error) {
	var ids [3][16]byte
	for i, name := range []string{p.opts.Names.Commands(), p.opts.Names.State(), p.opts.Names.Receipts()} {
		t, err := topicMetadata(ctx, p.kafka.cl, name)
		if err != nil {
			return [2][16]byte(ids[:2]), err
		}
		if have := len(t.Partitions); have != int(p.opts.Partitions) {
			return [2][16]byte(ids[:2]), fmt.Errorf("%w: topic %s has %d partitions, topics.partitions says %d; keys would go elsewhere than their triggers are", ErrPartitions, name, have, p.opts.Partitions)
		}
		ids[i] = t.TopicID
	}
	return [2][16]byte(ids[:2]), nil
}

func topicID(ctx context.Context, cl *kgo.Client, topic string) ([16]byte, error) {
	t, err := topicMetadata(ctx, cl, topic)
	if err != nil {
		return [16]byte{}, err
	}
	return t.TopicID, nil
}

func topicMetadata(ctx context.Context, cl *kgo.Client, topic string) (*kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("metadata of %s: %w", topic, err)
	}
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("metadata of %s: empty answer", topic)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("metadata of %s: %w", topic, err)
	}
	return &resp.Topics[0], nil
}

// openStore opens the store, or begins an empty one where it is damaged.
func (p *Partition) openStore() error {
	dir := filepath.Join(p.opts.Dir, strconv.Itoa(int(p.id)))
	so := statestore.Options{Dir: dir, Cache: p.opts.Cache, Logger: p.log, FS: p.opts.StoreFS}
	st, err := statestore.Open(so)
	if errors.Is(err, statestore.ErrCorrupt) || errors.Is(err, statestore.ErrFormat) {
		p.log.Warn("the local store cannot be used; rebuilding it from Kafka", "error", err)
		if _, err := statestore.QuarantineFS(storeFS(p.opts.StoreFS), dir); err != nil {
			return fmt.Errorf("quarantine store: %w", err)
		}
		st, err = statestore.Open(so)
	}
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	p.store = st
	return nil
}

// distrust wipes a store that must not be resumed: of other topics, of another
// partition, or older than tombstones are kept.
func (p *Partition) distrust(ids [2][16]byte) error {
	reason, err := p.stale(ids)
	if err != nil || reason == "" {
		return err
	}
	p.log.Info("rebuilding the local store from Kafka", "reason", reason)
	return p.store.Wipe()
}

func storeFS(fs vfs.FS) vfs.FS {
	if fs == nil {
		return vfs.Default
	}
	return fs
}

// stale says why the store must not be resumed; "" if it may be. Resuming one
// whose tombstones are compacted away would fire what was cancelled since.
func (p *Partition) stale(ids [2][16]byte) (string, error) {
	raw, err := p.store.Meta(metaProgress)
	if err != nil {
		return "", err
	}
	if raw == nil {
		position, err := p.storedPosition()
		if position > 0 { // nobody knows how old it is
			return "its restore was broken off", err
		}
		return "", err
	}
	pr, err := topics.DecodeProgress(raw)
	if err != nil {
		return "its progress cannot be read", nil
	}
	home, err := p.store.Meta(metaPartition)
	if err != nil {
		return "", err
	}
	if home != nil && toNumber(home) != int64(p.id) {
		return "it is of partition " + strconv.FormatInt(toNumber(home), 10), nil
	}
	if pr.StateID != ids[1] && !p.opts.AcceptGap {
		return "", fmt.Errorf("%w: topic %s was deleted and made again, and all pending triggers with it. Start with --accept-gap to obey again what topic %s still holds", ErrGap, p.opts.Names.State(), p.opts.Names.Commands())
	}
	if pr.CommandsID != ids[0] || pr.StateID != ids[1] {
		return "a topic was deleted and made again", nil
	}
	if age := p.now().Sub(pr.At); age > p.opts.MaxAway {
		return "it is " + age.Round(time.Minute).String() + " old", nil
	}
	return "", nil
}

// openStep bounds a step of opening that does not depend on how much there is
// to restore. Past it the partition is opened again, from the beginning: what
// made it wait may be gone.
const openStep = 20 * time.Second

// fence takes the partition from its last owner.
func (p *Partition) fence(ctx context.Context) (nonce []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	if _, _, err := p.kafka.cl.ProducerID(ctx); err != nil {
		return nil, fmt.Errorf("take ownership: %w", err)
	}
	if nonce, err = p.writeNonce(ctx); err != nil {
		return nil, fmt.Errorf("commit nonce: %w", err)
	}
	return nonce, nil
}

// writeNonce commits a record nobody has written before. Reading topic state
// up to it is reading all that any earlier owner can have committed.
func (p *Partition) writeNonce(ctx context.Context) ([]byte, error) {
	n := topics.Nonce{Member: p.opts.InstanceID, At: trigger.At(p.opts.Now())}
	rand.Read(n.ID[:])
	nonce, err := topics.AppendNonce(nil, &n)
	if err != nil {
		return nil, err
	}
	if err := p.kafka.begin(); err != nil {
		return nil, err
	}
	r := &kgo.Record{Topic: p.opts.Names.State(), Partition: p.id, Key: topics.KeyNonce, Value: nonce}
	p.kafka.produce(ctx, r)
	if err := p.kafka.flush(ctx); err != nil {
		return nil, err
	}
	if err := p.kafka.commit(ctx); err != nil {
		return nil, err
	}
	p.committed = time.Now()
	return nonce, p.compareClock(ctx, r.Offset, p.committed, p.opts.Now())
}

// restoreChunk bounds what one batch of a restore holds in memory.
const restoreChunk = 10_000

// restore replays topic state from the stored position until the nonce.
func (p *Partition) restore(ctx context.Context, nonce []byte) error {
	if p.opts.flaw == skipRestore {
		return nil
	}
	begin := time.Now()
	from, err := p.storedPosition()
	if err != nil {
		return err
	}
	cl, err := p.stateReader(ctx, from)
	if err != nil {
		return err
	}
	defer cl.Close()
	r := replay{p: p, nonce: nonce}
	r.reset()
	for !r.done {
		pctx, cancel := context.WithTimeout(ctx, openStep)
		fs := cl.PollRecords(pctx, restoreChunk)
		cancel()
		if err := fetchFailed(ctx, fs); err != nil {
			return err // among others, that nothing came for openStep although the nonce is there
		}
		for it := fs.RecordIter(); !it.Done() && !r.done; {
			if err := r.take(it.Next()); err != nil {
				return err
			}
		}
		if r.done || len(r.overlay) >= restoreChunk {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	p.opts.Listener.Restored(p.id, r.records, time.Since(begin))
	return nil
}

func (p *Partition) storedPosition() (int64, error) {
	raw, err := p.store.Meta(metaPosition)
	if err != nil {
		return 0, err
	}
	return toNumber(raw), nil
}

func (p *Partition) stateReader(ctx context.Context, from int64) (*kgo.Client, error) {
	start, err := p.kafka.listOffset(ctx, p.opts.Names.State(), p.id, readCommitted, earliest)
	if err != nil {
		return nil, err
	}
	end, err := p.kafka.listOffset(ctx, p.opts.Names.State(), p.id, readUncommitted, latest)
	if err != nil {
		return nil, err
	}
	if from < start || from > end {
		if from > 0 {
			p.log.Info("rebuilding the local store from Kafka", "reason", "topic state does not reach to where it was read", "read", from, "start", start, "end", end)
			if err := p.store.Wipe(); err != nil {
				return nil, err
			}
		}
		from = start
	}
	return kgo.NewClient(append([]kgo.Opt{
		kgo.FetchIsolationLevel(p.opts.isolation()),
		kgo.FetchMaxPartitionBytes(8 << 20),
		kgo.FetchMaxWait(p.opts.FetchMaxWait),
		kgo.RetryBackoffFn(retryBackoff),
		kgo.DisableClientMetrics(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.opts.Names.State(): {p.id: kgo.NewOffset().At(from)}}),
	}, p.opts.Kafka...)...)
}

func fetchFailed(ctx context.Context, fs kgo.Fetches) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, fe := range fs.Errors() {
		return &fetchError{fe.Topic, fe.Partition, fe.Err}
	}
	return nil
}

// replay applies records of topic state to the store, a chunk at a time.
type replay struct {
	p       *Partition
	nonce   []byte
	overlay map[trigger.Key][]byte // newest value in this chunk; nil: tombstone
	order   []trigger.Key
	next    int64
	records int64
	done    bool
}

func (r *replay) reset() { r.overlay, r.order = map[trigger.Key][]byte{}, r.order[:0] }

func (r *replay) take(rec *kgo.Record) error {
	r.next = rec.Offset + 1
	r.records++
	switch {
	case bytes.Equal(rec.Key, topics.KeyNonce):
		r.done = bytes.Equal(rec.Value, r.nonce)
	case bytes.Equal(rec.Key, topics.KeyProgress):
		pr, err := topics.DecodeProgress(rec.Value)
		if err != nil {
			return fmt.Errorf("progress at %d: %w", rec.Offset, err)
		}
		r.p.progress = *pr
	case topics.IsReserved(rec.Key):
	default:
		key := trigger.Key(rec.Key)
		if _, seen := r.overlay[key]; !seen {
			r.order = append(r.order, key)
		}
		r.overlay[key] = rec.Value
	}
	return nil
}

func (r *replay) flush() error {
	batch := r.p.store.NewBatch()
	for _, key := range r.order {
		if err := r.put(batch, key, r.overlay[key]); err != nil {
			return err
		}
	}
	if r.p.progress.Seq > 0 {
		value, err := topics.AppendProgress(nil, &r.p.progress)
		if err != nil {
			return err
		}
		batch.SetMeta(metaProgress, value)
	}
	batch.SetMeta(metaPosition, number(r.next))
	batch.SetMeta(metaCursor, number(0))
	batch.SetMeta(metaPartition, number(int64(r.p.id)))
	r.reset()
	return batch.Commit()
}

func (r *replay) put(batch *statestore.Batch, key trigger.Key, value []byte) error {
	before, err := r.p.stored(key)
	if err != nil {
		return err
	}
	if value == nil {
		if before != nil {
			batch.Delete(*before)
		}
		return nil
	}
	s, err := topics.DecodeState(key, value)
	if err != nil {
		return fmt.Errorf("state of %q: %w", key, err)
	}
	batch.Put(before, *row(s, value))
	return nil
}

// stored is the row the store holds for a key; nil without one.
func (p *Partition) stored(key trigger.Key) (*statestore.Row, error) {
	value, err := p.store.Get(key, nil)
	if err != nil || value == nil {
		return nil, err
	}
	s, err := topics.DecodeState(key, value)
	if err != nil {
		return nil, fmt.Errorf("stored state of %q: %w", key, err)
	}
	return row(s, value), nil
}

// resume goes on where progress says.
func (p *Partition) resume(ctx context.Context, ids [2][16]byte) error {
	if p.progress.Seq == 0 { // a quiet store: nothing new was in topic state
		raw, err := p.store.Meta(metaProgress)
		if err != nil {
			return err
		}
		if raw != nil {
			pr, err := topics.DecodeProgress(raw)
			if err != nil {
				return fmt.Errorf("stored progress: %w", err)
			}
			p.progress = *pr
		}
	}
	if err := p.sameTopics(ids); err != nil {
		return err
	}
	if away := p.now().Sub(p.progress.At); p.progress.Seq > 0 && away > compactionLag && !p.opts.AcceptGap {
		return fmt.Errorf("%w: nobody ran partition %d for %s, longer than topic %s is kept from compaction (7 d): registers may be gone under later commands. Start with --accept-gap to go on", ErrGap, p.id, away.Round(time.Hour), p.opts.Names.Commands())
	}
	p.progress.Term++
	p.progress.Owner, p.progress.Member = p.opts.Address, p.opts.InstanceID
	p.progress.CommandsID, p.progress.StateID = ids[0], ids[1]
	for _, name := range p.progress.Channels {
		p.channels[name] = true
	}
	for _, topic := range []string{p.opts.Names.Commands(), p.opts.Names.Receipts()} {
		if err := p.followFrom(ctx, topic); err != nil {
			return err
		}
	}
	if err := p.openQuotas(); err != nil {
		return err
	}
	if err := p.openControl(ctx); err != nil {
		return err
	}
	p.barrier.start(positions{p.progress.NextCommand, p.progress.NextReceipt})
	return p.startWheel()
}

// compactionLag is min.compaction.lag.ms of topic commands: what is younger is
// all there.
const compactionLag = 7 * 24 * time.Hour

// sameTopics refuses a commands topic that was deleted and made again: its
// offsets mean something else.
func (p *Partition) sameTopics(ids [2][16]byte) error {
	if p.progress.Seq > 0 && p.progress.CommandsID != ids[0] && !p.opts.AcceptGap {
		return fmt.Errorf("%w: topic %s was deleted and made again; commands in the old one are lost. Start with --accept-gap to go on", ErrGap, p.opts.Names.Commands())
	}
	if p.progress.CommandsID != ids[0] {
		p.progress.NextCommand, p.progress.Applied, p.progress.Forwarded = 0, nil, nil
	}
	return nil
}

// followFrom begins to read a topic at progress, and sends again what had not
// been forwarded when progress was written.
func (p *Partition) followFrom(ctx context.Context, topic string) error {
	next := &p.progress.NextCommand
	if topic == p.opts.Names.Receipts() {
		next = &p.progress.NextReceipt
	}
	start, err := p.kafka.listOffset(ctx, topic, p.id, readUncommitted, earliest)
	if err != nil {
		return err
	}
	if *next < start {
		if p.progress.Seq > 0 && *next > 0 && !p.opts.AcceptGap {
			return fmt.Errorf("%w: %s/%d begins at %d, but was read only up to %d. Start with --accept-gap to go on without what is lost", ErrGap, topic, p.id, start, *next)
		}
		*next = start
	}
	end, err := p.kafka.listOffset(ctx, topic, p.id, readUncommitted, latest)
	if err != nil {
		return err
	}
	if *next > end {
		if !p.opts.AcceptGap {
			return fmt.Errorf("%w: %s/%d ends at %d, but was read up to %d: the topic was made again, or lost its end. Start with --accept-gap to go on from its end", ErrGap, topic, p.id, end, *next)
		}
		*next = end
	}
	if err := p.reforward(ctx, topic, start, *next); err != nil {
		return fmt.Errorf("forward again: %w", err)
	}
	p.kafka.follow(topic, p.id, *next)
	return nil
}

func (p *Partition) openQuotas() error {
	p.quotas = newQuotas(p.opts)
	if p.quotas == nil {
		return nil
	}
	sn := p.store.Snapshot()
	defer sn.Close()
	if err := p.quotas.count(sn); err != nil {
		return fmt.Errorf("count what is pending: %w", err)
	}
	return nil
}

// startWheel begins the wheel at the stored cursor; poll fills it.
func (p *Partition) startWheel() error {
	raw, err := p.store.Meta(metaCursor)
	if err != nil {
		return err
	}
	p.hydrated = statestore.DueKey{Due: trigger.Instant(toNumber(raw) - 1)}
	return p.hydrate()
}

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func toNumber(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}
