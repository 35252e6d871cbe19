package loadtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
)

// The life of a trigger is one command, and what the engine writes for it: two states, two events
// and a due event. This file measures what a life costs, and how fast Kafka accepts the same
// records from producers that decide nothing.

// lifeTopics are the topics of a life, by their names in the contract.
var lifeTopics = []string{"commands", "state", "events", "due.default"}

const (
	recordsOfLife = 6

	sampleLives = 20_000  // lives whose records are read back and produced anew
	rawLives    = 200_000 // the most lives that are produced anew

	// sampleQuiet is after how long without a record the lives that were read count as all. Until
	// the first record comes, patience bounds the wait: that of many partitions takes brokers seconds.
	sampleQuiet = 10 * time.Second
)

// sampled holds the command of a life, and its other records.
type sampled struct {
	command *kgo.Record
	rest    []*kgo.Record
}

// pollFor polls for at most this long.
func pollFor(ctx context.Context, cl *kgo.Client, most time.Duration) kgo.Fetches {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return cl.PollFetches(ctx)
}

// detached copies a record out of its batch. A record that is kept keeps its whole batch in memory, and the clients of
// a process may hold only so much (decompress.Shared): with many partitions they would read no further.
func detached(r *kgo.Record) *kgo.Record {
	kept := *r
	kept.Key, kept.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	kept.Headers = make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		kept.Headers[i] = kgo.RecordHeader{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)}
	}
	return &kept
}

// sample reads back the records of the first lives, by partition.
func (b *engineRun) sample(ctx context.Context) (map[int32][]*sampled, error) {
	var names []string
	for _, t := range lifeTopics {
		names = append(names, b.cfg.Topic(t))
	}
	read := append(reading(kgo.NewOffset().AtStart(), names...), kgo.WithHooks(b.stall))
	cl, err := kgo.NewClient(append(read, b.engine.Kafka()...)...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return b.readLives(ctx, func() kgo.Fetches { return pollFor(ctx, cl, 100*time.Millisecond) })
}

func (b *engineRun) readLives(ctx context.Context, poll func() kgo.Fetches) (map[int32][]*sampled, error) {
	lives, commands := map[int]*sampled{}, b.cfg.Topic("commands")
	var failed error
	for seen, last := 0, time.Now(); seen < recordsOfLife*min(b.o.Triggers, sampleLives); {
		fs := poll()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if fs.NumRecords() > 0 {
			last = time.Now()
		} else if quiet := time.Since(last); quiet > patience || seen > 0 && quiet > sampleQuiet {
			break
		}
		fs.EachError(func(topic string, partition int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				failed = fmt.Errorf("%s/%d: %w", topic, partition, err)
			}
		})
		fs.EachRecord(func(r *kgo.Record) {
			i, ok := b.index(r.Key)
			if !ok || i >= sampleLives {
				return
			}
			if lives[i] == nil {
				lives[i] = &sampled{}
			}
			if seen++; r.Topic == commands {
				lives[i].command = detached(r)
			} else {
				lives[i].rest = append(lives[i].rest, detached(r))
			}
		})
	}
	by := map[int32][]*sampled{}
	for _, l := range lives {
		if l.command != nil && len(l.rest) > 0 {
			by[l.command.Partition] = append(by[l.command.Partition], l)
		}
	}
	if len(by) > 0 {
		return by, nil
	}
	err := fmt.Errorf("no life of the run could be read back within %v; %s", patience, tooSlow)
	if failed != nil {
		err = fmt.Errorf("%w; the last answer was: %w", err, failed)
	}
	return nil, err
}

// rawLives produces the records of the run's lives anew, uncompressed. Each transaction has as
// many lives as a turn had. There is one producer per partition.
func (b *engineRun) rawLives(ctx context.Context) error {
	by, err := b.sample(ctx)
	if err != nil {
		return err
	}
	b.stall.begin("produce the records of the run anew", patience)
	n, perTurn := min(b.o.Triggers, rawLives), max(1, b.o.Triggers/int(max(b.result.Turns, 1)))
	adm := kadm.NewClient(b.produce)
	adm.SetTimeoutMillis(int32(patience.Milliseconds())) // many partitions take a broker seconds
	var raw []string
	for _, t := range lifeTopics {
		raw = append(raw, b.rawTopic(b.cfg.Topic(t)))
	}
	made, err := adm.CreateTopics(ctx, int32(b.cfg.Topics.Partitions), -1, nil, raw...)
	if err = cmp.Or(err, made.Error()); err != nil {
		return fmt.Errorf("create %s: %w", strings.Join(raw, ", "), err)
	}
	var writers sync.WaitGroup
	failed := make([]error, len(by))
	begin, k := time.Now(), 0
	for p, lives := range by {
		writers.Add(1)
		go func(k int) {
			defer writers.Done()
			failed[k] = b.writeLives(ctx, p, lives, n/len(by), perTurn)
		}(k)
		k++
	}
	writers.Wait()
	b.result.RawLivesPerS = float64(n/len(by)*len(by)) / time.Since(begin).Seconds()
	b.stall.rest()
	_, err = adm.DeleteTopics(ctx, raw...)
	return errors.Join(errors.Join(failed...), err)
}

func (b *engineRun) rawTopic(of string) string { return of + ".bench-raw" }

// writeLives produces n lives to one partition.
func (b *engineRun) writeLives(ctx context.Context, partition int32, lives []*sampled, n, perTurn int) error {
	commands, err := newProducer(b.engine, b.cfg, kgo.WithHooks(b.stall))
	if err != nil {
		return err
	}
	defer commands.Close()
	cl, err := newRawProducer(b.engine, kgo.WithHooks(b.stall),
		kgo.TransactionalID(fmt.Sprintf("bench-raw-lives-%s-%d", b.run, partition)))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed firstError // first error of the commands
	for done := 0; done < n; {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		var turn []*kgo.Record
		var last int // start of the last life, which has a record for each topic
		for range min(perTurn, n-done) {
			l := lives[done%len(lives)]
			last = len(turn)
			commands.Produce(ctx, b.rawCopy(l.command), failed.promise)
			for _, r := range l.rest {
				turn = append(turn, b.rawCopy(r))
			}
			done++
		}
		if err := produceAll(ctx, cl, len(turn), func(i int) *kgo.Record { return turn[i] }); err != nil {
			return err
		}
		if err := producer.EndTransaction(ctx, cl, kgo.TryCommit, turn[last:]...); err != nil {
			return err
		}
	}
	if err := commands.Flush(ctx); err != nil {
		return err
	}
	return failed.get()
}

// rawCopy copies a record to its raw topic.
func (b *engineRun) rawCopy(r *kgo.Record) *kgo.Record {
	return &kgo.Record{
		Topic: b.rawTopic(r.Topic), Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers,
	}
}

// atRest returns the log bytes per life of each topic, in one replica.
func (b *engineRun) atRest(ctx context.Context) (map[string]float64, error) {
	adm := kadm.NewClient(b.produce)
	all, err := adm.DescribeAllLogDirs(ctx, nil) // all topics: a request for some would need their partitions
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // contract names of a life's topics
	for _, t := range lifeTopics {
		names[b.cfg.Topic(t)] = t
	}
	type topicPartition struct {
		topic     string
		partition int32
	}
	sizes := map[topicPartition]int64{} // of the largest replica
	for _, broker := range all {
		broker.EachPartition(func(p kadm.DescribedLogDirPartition) {
			if name, ok := names[p.Topic]; ok {
				at := topicPartition{name, p.Partition}
				sizes[at] = max(sizes[at], p.Size)
			}
		})
	}
	rest := map[string]float64{}
	for at, size := range sizes {
		rest[at.topic] += float64(size) / float64(b.o.Triggers)
	}
	return rest, nil
}

// processCPU returns the CPU time of another process on this machine, from /proc.
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain spaces. utime and stime are fields 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100), nil // USER_HZ is 100 on Linux
}
