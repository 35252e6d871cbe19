package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/output"
)

// session is one partition's connection to Kafka. Its client reads committed records of the
// partition's commands and receipts, and writes one transaction per turn.
type session struct {
	cl     *kgo.Client
	reader *kafkapart.Reader // uses Options.asker
	part   int32

	planned map[string]map[int32]kgo.Offset // what follow will read

	met map[string]*written // topics that this session has written to, or is about to
	new []*kgo.Record       // the first record of each topic that is new in this transaction

	sizes   sizes // size limits of records, by topic
	batches *decompress.Reader
	scan    *batchScan // scans batches that kgo could not read

	watcher *dangling.Watcher
	end     context.CancelFunc // ends the watcher; nil: it does not run yet

	mu  sync.Mutex
	err error // first failed produce of the transaction
}

// written is a topic that the session writes to.
type written struct {
	unheard atomic.Int64             // records without an acknowledgement
	promise func(*kgo.Record, error) // promise of all its records
}

func openSession(o *Process, partition int32) (*session, error) {
	s := &session{
		reader: kafkapart.NewReader(o.asker), part: partition,
		sizes:   sizes{state: o.Names.State(), used: map[string]int{}},
		batches: o.batchReader(),
		planned: map[string]map[int32]kgo.Offset{}, met: map[string]*written{}, watcher: dangling.NewWatcher(),
	}
	s.scan = newBatchScan(s.reader, o)
	opts := append([]kgo.Opt{
		kgo.WithHooks(s.watcher),
		kgo.TransactionalID(o.transactionalID(partition)),
		kgo.TransactionTimeout(o.TransactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchIsolationLevel(o.isolation().Kgo()),
		kgo.KeepControlRecords(), // else a log that ends in markers never looks read
		kgo.FetchMaxWait(o.FetchMaxWait),
		kgo.FetchMaxBytes(int32(o.FetchBytes)),
		kgo.FetchMaxPartitionBytes(int32(o.FetchBytes)),
		kgo.ProducerLinger(linger),
		kgo.MaxBufferedRecords(1 << 20),
		kgo.ProducerBatchMaxBytesFn(s.sizes.forKgo),
		kgo.WithCompressor(o.compressor),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff),
		kgo.MetadataMaxAge(5 * time.Second),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a gap is an error; never skip it
		kgo.UnknownTopicRetries(2),
		kgo.DisableClientMetrics(),
	}, o.Kafka...)
	opts = append(opts, kgo.WithDecompressor(s.batches))
	var err error
	if s.cl, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return s, nil
}

// watch starts the watcher, which searches for transactions that Kafka left open until the
// session is closed.
func (s *session) watch(r *dangling.Resolver) {
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	go s.watcher.Run(ctx, r)
}

func (s *session) close() {
	if s.end != nil {
		s.end()
	}
	s.cl.Close()
	s.batches.Close()
}

// plan notes that follow must read a partition from an offset on.
func (s *session) plan(topic string, partition int32, offset int64) {
	s.planned[topic] = map[int32]kgo.Offset{partition: kgo.NewOffset().At(offset)}
}

// follow begins to read all planned partitions, in one fetch. kgo has one fetch under way.
// A partition that is not in it waits up to FetchMaxWait, until the broker answers that
// fetch. Unread commands hold the barrier. kgo fetches as soon as the first partition is
// ready, so follow lets none go before kgo knows them all.
func (s *session) follow(ctx context.Context) {
	all := map[string][]int32{}
	for topic, ps := range s.planned {
		all[topic] = slices.Collect(maps.Keys(ps))
	}
	s.cl.PauseFetchPartitions(all)
	s.cl.AddConsumePartitions(s.planned)
	for until := time.Now().Add(followWithin); !s.knows(all) && time.Now().Before(until) && ctx.Err() == nil; {
		wait.For(ctx, time.Millisecond)
	}
	wait.For(ctx, time.Millisecond) // kgo can fetch them right after it has learned of them
	s.cl.ResumeFetchPartitions(all)
}

// followWithin is how long follow waits for metadata. After that, kgo reports the
// partitions that it does not find.
const followWithin = time.Second

func (s *session) knows(all map[string][]int32) bool {
	for topic, ps := range all {
		for _, p := range ps {
			if leader, _, _ := s.cl.PartitionLeader(topic, p); leader < 0 {
				return false
			}
		}
	}
	return true
}

// poll returns the records that kgo has. It waits for the first one at most within.
func (s *session) poll(ctx context.Context, within time.Duration, most int) ([]*kgo.Record, error) {
	s.batches.Begin() // the turn of the last poll's records is over
	defer s.batches.End()
	var fs kgo.Fetches
	if within <= 0 {
		fs = s.cl.PollRecords(nil, most) //nolint:staticcheck // nil: do not wait
	} else {
		pctx, cancel := context.WithTimeout(ctx, within)
		if s.watcher.Poll(&cancel); s.watcher.Due() {
			time.AfterFunc(time.Millisecond, cancel) // not at once, because callers wait for time to pass
		}
		fs = s.cl.PollRecords(pctx, most)
		s.watcher.Poll(nil)
		cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, fe := range fs.Errors() {
		if errors.Is(fe.Err, context.DeadlineExceeded) || errors.Is(fe.Err, context.Canceled) ||
			errors.Is(fe.Err, decompress.ErrLater) {
			continue
		}
		if s.scan.suspect(kafkapart.TopicPartition{Topic: fe.Topic, Partition: fe.Partition}, fe.Err) {
			continue // unreadable.go finds the cause
		}
		return nil, &kafkapart.FetchError{
			At:  kafkapart.TopicPartition{Topic: fe.Topic, Partition: fe.Partition},
			Err: fe.Err,
		}
	}
	records := fs.Records()
	if len(records) == 0 && len(s.scan.suspects) > 0 {
		wait.For(ctx, 10*time.Millisecond) // kgo may repeat the same error at once
	}
	return records, nil
}

func (s *session) begin() error {
	s.err = nil
	for _, r := range s.new { // of an aborted transaction
		delete(s.met, r.Topic)
	}
	s.new = s.new[:0]
	return s.cl.BeginTransaction()
}

// produce buffers a record of the transaction. An error shows in commit.
func (s *session) produce(ctx context.Context, r *kgo.Record) {
	w := s.met[r.Topic]
	if w == nil {
		w = &written{}
		w.promise = func(r *kgo.Record, err error) { w.unheard.Add(-1); s.promise(r, err) }
		s.met[r.Topic] = w
		s.new = append(s.new, &kgo.Record{Topic: r.Topic, Partition: r.Partition}) // r belongs to kgo from now on
	}
	w.unheard.Add(1)
	s.cl.Produce(ctx, r, w.promise)
}

func (s *session) promise(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = &produceError{r.Topic, r.Partition, s.sizes.refused(r, err)}
	}
}

// produceError names the topic that refused a record.
type produceError struct {
	topic     string
	partition int32
	err       error
}

func (e *produceError) Error() string {
	return fmt.Sprintf("produce to %s/%d: %v", e.topic, e.partition, e.err)
}
func (e *produceError) Unwrap() error { return e.err }

// flush waits until the broker has every record of the transaction. It does not wait for
// ever for topics for which sparable is true. kgo retries some errors until they pass, such
// as a partition without a leader, and they last until a broker comes back.
func (s *session) flush(ctx context.Context, sparable func(topic string) bool) error {
	for {
		step, cancel := context.WithTimeout(ctx, output.AnswerTimeout)
		err := producer.Flush(step, s.cl, s.new...)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil || step.Err() == nil {
			return fmt.Errorf("flush: %w", err)
		}
		if topic, only := s.unheard(sparable); only {
			return &produceError{topic, s.part, output.ErrSilent}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// unheard names a topic that has not answered. only is true if all such topics may be
// spared.
func (s *session) unheard(sparable func(topic string) bool) (topic string, only bool) {
	for name, w := range s.met {
		switch {
		case w.unheard.Load() == 0:
		case !sparable(name):
			return "", false
		case topic == "" || name < topic:
			topic = name
		}
	}
	return topic, topic != ""
}

func (s *session) commit(ctx context.Context) error {
	if err := producer.EndTransaction(ctx, s.cl, kgo.TryCommit, s.new...); err != nil {
		return fmt.Errorf("end transaction: %w", err)
	}
	s.new = s.new[:0]
	return nil
}

// abort aborts a turn cleanly. So a known failure does not leave the transaction open until
// its timeout.
func (s *session) abort(ctx context.Context) {
	if err := s.cl.AbortBufferedRecords(ctx); err == nil {
		_ = s.cl.EndTransaction(ctx, kgo.TryAbort)
	}
}
