package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bounds for reading the receipts topic once.
const (
	loadStall    = 30 * time.Second // give up after this long without a record
	loadFailures = 20               // give up after as many errors, a tenth of a second apart
	loadBackoff  = 5 * time.Second  // longest wait between two tries
	askWithin    = 2 * time.Second  // for the ends of the due topics, which only the clock needs
)

// memoryOf returns the memory that holds an event's receipts, or nil if it is turned off. mu is
// held.
func (w *worker) memoryOf(e *DueEvent) *memory { return w.memories[w.receiptsOf(e)] }

// receiptsOf returns the partition of the receipts topic that has an event's receipts, or -1 if it
// is not known yet. mu is held.
func (w *worker) receiptsOf(e *DueEvent) int32 {
	switch {
	case !w.byKey:
		return e.Partition
	case w.numbers == 0:
		return -1
	}
	return int32(w.murmur2.Partition(&kgo.Record{Key: []byte(e.Key)}, int(w.numbers)))
}

// loadLoop fills the memory of new partitions, however long that takes, and releases the events of
// each once its memory is there.
func (w *worker) loadLoop(ctx context.Context, parts []*partition) {
	for try := 0; ; try++ {
		if w.allGone(parts) || ctx.Err() != nil {
			return
		}
		var err error
		if parts, err = w.loadOnce(ctx, parts); len(parts) == 0 {
			return
		}
		w.failing.log(w.log, "cannot read the receipts topic; holding its due events until it can be read",
			"topic", w.options.receipts, "error", err)
		pause(ctx, min(100*time.Millisecond<<min(try, 10), loadBackoff))
	}
}

func (w *worker) allGone(parts []*partition) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		if !p.gone {
			return false
		}
	}
	return true
}

// release releases the held events of partitions.
func (w *worker) release(parts []*partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		p.loaded = true
		for _, it := range p.held {
			if !p.gone {
				w.queue.add(it)
			}
		}
		p.held = nil
	}
	signal(w.wake)
}

// loadOnce releases the partitions whose receipts can be read, and returns the others.
func (w *worker) loadOnce(ctx context.Context, parts []*partition) (left []*partition, err error) {
	select {
	case w.loading <- struct{}{}:
	case <-ctx.Done():
		return parts, ctx.Err()
	}
	defer func() { <-w.loading }()
	w.askEndsWithin(ctx, askWithin)
	if w.options.memory < 0 {
		w.release(parts)
		return nil, nil
	}
	numbers, anew, err := w.receiptPartitions(ctx)
	if err != nil {
		return parts, err
	}
	if anew {
		parts = w.assignedParts()
	}
	wanted, err := w.wanted(parts, numbers)
	if err != nil {
		return parts, err
	}
	from, to, err := w.span(ctx, wanted)
	if err := w.readReceipts(ctx, from, to); err != nil {
		return parts, err
	}
	var ready []*partition
	for _, p := range parts {
		// With ByKey, the receipts of a partition's events are on all partitions.
		if _, ok := to[p.num]; ok && !w.byKey || len(to) == len(wanted) {
			ready = append(ready, p)
		} else {
			left = append(left, p)
		}
	}
	w.release(ready)
	return left, err
}

// receiptPartitions returns how many partitions the receipts topic has, with those that have no
// leader, and whether it was made anew: then the memory of every partition must be read again.
func (w *worker) receiptPartitions(ctx context.Context) (numbers int, anew bool, err error) {
	found, err := w.admin.ListTopics(ctx, w.options.receipts)
	if err != nil {
		return 0, false, err
	}
	topic, ok := found[w.options.receipts]
	if !ok {
		return 0, false, kerr.UnknownTopicOrPartition
	}
	if topic.Err != nil {
		return 0, false, topic.Err // the topic does not exist, or we may not read it
	}
	return len(topic.Partitions), w.renew(topic.ID), nil
}

// renew forgets all receipts if the topic was made anew, and reports that: its offsets begin at 0
// again, so the old ones would seem to be newer.
func (w *worker) renew(id kadm.TopicID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	anew := w.isAnother(id)
	if anew {
		w.log.Warn("the receipts topic was made anew; reading it again", "topic", w.options.receipts)
		for num := range w.memories {
			w.memories[num] = newMemory(w.options.memory)
		}
	}
	w.topicID = id
	return anew
}

// isAnother reports whether id is not that of the topic of the memories. Old brokers give topics no
// ids. mu is held.
func (w *worker) isAnother(id kadm.TopicID) bool {
	return w.topicID != kadm.TopicID{} && id != kadm.TopicID{} && id != w.topicID
}

// checkReceipts reads the memories again if the receipts topic was made anew.
func (w *worker) checkReceipts(ctx context.Context) {
	parts := w.assignedParts()
	if w.options.memory < 0 || len(parts) == 0 {
		return
	}
	found, err := w.admin.ListTopics(ctx, w.options.receipts)
	if err != nil {
		return
	}
	w.mu.Lock()
	another := w.isAnother(found[w.options.receipts].ID)
	w.mu.Unlock()
	if another {
		w.loadLoop(ctx, parts)
	}
}

// wanted returns the partitions of the receipts topic that some partitions need.
func (w *worker) wanted(parts []*partition, numbers int) (map[int32]bool, error) {
	wanted := map[int32]bool{}
	if w.byKey {
		for num := range numbers {
			wanted[int32(num)] = true
		}
	} else {
		for _, p := range parts {
			if int(p.num) >= numbers {
				return nil, fmt.Errorf("topic %s has no partition %d, but the due topic has: "+
					"if the channel has partitioning: by_key, use worker.ByKey()", w.options.receipts, p.num)
			}
			wanted[p.num] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numbers = int32(numbers)
	return wanted, nil
}

// span returns which offsets of the receipts topic to read: at most Memory records before the end
// of each partition, without those read before. If some partitions have no leader, it returns the
// others with an error.
func (w *worker) span(ctx context.Context, wanted map[int32]bool) (from, to map[int32]int64, err error) {
	ends, endErr := w.admin.ListEndOffsets(ctx, w.options.receipts)
	starts, startErr := w.admin.ListStartOffsets(ctx, w.options.receipts)
	from, to = map[int32]int64{}, map[int32]int64{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for num := range wanted {
		end, hasEnd := ends.Lookup(w.options.receipts, num)
		start, hasStart := starts.Lookup(w.options.receipts, num)
		if !hasEnd || !hasStart || end.Err != nil || start.Err != nil {
			err = cmp.Or(end.Err, start.Err, endErr, startErr, error(kerr.LeaderNotAvailable))
			err = fmt.Errorf("partition %d: %w", num, err)
			continue
		}
		m := w.memories[num]
		if m == nil || m.next > end.Offset { // the topic was recreated
			m = newMemory(w.options.memory)
			w.memories[num] = m
		}
		from[num] = max(start.Offset, m.next, end.Offset-int64(w.options.memory))
		to[num] = end.Offset
	}
	return from, to, err
}

// readReceipts reads [from, to) of each partition into its memory.
//
// It also reads uncommitted and control records, so that it sees every offset and reaches the end
// in any case. That is safe: only the engine writes receipts in transactions, when it forwards
// one to the right partition. If it aborts the transaction, it forwards the receipt later.
func (w *worker) readReceipts(ctx context.Context, from, to map[int32]int64) error {
	offsets := map[int32]kgo.Offset{}
	for num, at := range from {
		if at < to[num] {
			offsets[num] = kgo.NewOffset().At(at)
		}
	}
	if len(offsets) > 0 {
		if err := w.consumeReceipts(ctx, offsets, to); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for num, end := range to {
		if m := w.memories[num]; m != nil {
			m.next = end
		}
	}
	return nil
}

func (w *worker) consumeReceipts(ctx context.Context, offsets map[int32]kgo.Offset, to map[int32]int64) error {
	cl, err := kgo.NewClient(append(w.common(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.options.receipts: offsets}),
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(w.fetchBytes), kgo.FetchMaxPartitionBytes(min(w.fetchBytes, 1<<20)),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.MetadataMinAge(time.Second),
	)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	closed := map[int32]bool{}
	for failures := 0; len(closed) < len(offsets); {
		stall, cancel := context.WithTimeout(ctx, loadStall)
		fetches := cl.PollFetches(stall)
		err := stall.Err()
		cancel()
		if err != nil {
			return err
		}
		readTo := func(partition int32, next int64) {
			if next >= to[partition] {
				closed[partition] = true
			}
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if n := len(p.Records); n > 0 && !closed[p.Partition] {
				w.learn(p.Partition, p.Records)
				readTo(p.Partition, p.Records[n-1].Offset+1)
			}
		})
		fetches.EachError(func(_ string, _ int32, failed error) {
			if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](failed); ok {
				w.stepOver(cl, large)
				readTo(large.Partition, large.NextOffset)
				return
			}
			err = failed
		})
		if err == nil {
			continue
		}
		if failures++; failures > loadFailures {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}

// stepOver goes on behind a batch that takes too much memory. Whoever may write receipts could else
// keep all workers from their events.
func (w *worker) stepOver(cl *kgo.Client, large *kgo.ErrDecompressTooLarge) {
	w.log.Warn("stepped over a batch of receipts that takes too much memory after decompression", "topic", large.Topic,
		"partition", large.Partition, "from", large.Offset, "to", large.NextOffset-1)
	cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{large.Topic: {
		large.Partition: {Epoch: large.Epoch, Offset: large.NextOffset},
	}})
}

// learn adds receipts to the memory of their partition.
func (w *worker) learn(num int32, records []*kgo.Record) {
	seen := make([]seenReceipt, 0, len(records))
	for _, r := range records {
		if receipt, ok := w.reader.read(r.Key, r.Value); ok && !r.Attrs.IsControl() {
			receipt.offset = r.Offset
			seen = append(seen, receipt)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.memories[num]
	if m == nil {
		return // its partition was revoked
	}
	for _, r := range seen {
		m.add(r.DueID, r.Outcome, r.Attempt, r.Postponed, r.offset)
	}
}

// askLoop asks for the ends of the due topics, for the clock, and whether topics are there and the same.
func (w *worker) askLoop(ctx context.Context) {
	every(ctx, w.askInterval, func() {
		w.askEnds(ctx)
		w.checkReceipts(ctx)
		w.checkTopic(ctx)
	})
}

// every calls f at an interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// checkTopic logs a warning if there is nothing to read: the channel is unused so far, or its
// name is wrong.
func (w *worker) checkTopic(ctx context.Context) {
	if len(w.assignedParts()) > 0 {
		return
	}
	found, err := w.admin.ListTopics(ctx, w.topic)
	if err == nil && errors.Is(found[w.topic].Err, kerr.UnknownTopicOrPartition) {
		w.log.Warn("the due topic does not exist; the channel's first trigger or `waterclock topics apply` creates "+
			"it. If that has happened, check Prefix, Topic and the channel's name", "topic", w.topic)
	}
}

// askEndsWithin asks for the ends of the due topics before their first events are released. Without
// an answer the clock knows less.
func (w *worker) askEndsWithin(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	w.askEnds(ctx)
}

// askEnds stores where the logs end. Records after these ends were appended after now. After an
// error the bounds of the clock stay as they are.
func (w *worker) askEnds(ctx context.Context) {
	topics := map[string]bool{}
	for _, p := range w.assignedParts() {
		topics[p.topic] = true
	}
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	if len(names) == 0 {
		return
	}
	asked := w.now()
	ends, _ := w.admin.ListEndOffsets(ctx, names...) // those of some, if others have no leader
	w.mu.Lock()
	defer w.mu.Unlock()
	for tp, p := range w.parts {
		if end, ok := ends.Lookup(tp.topic, tp.num); ok && end.Err == nil {
			p.end, p.asked = end.Offset, asked.UnixNano()
		}
	}
}
