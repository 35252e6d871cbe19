package sinks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ContentRebuildOptions configure RebuildContents.
type ContentRebuildOptions struct {
	Kafka  []kgo.Opt // connection to the brokers; see Options. The consumer is in no group
	Topics []string  // the due topics, as regular expressions of names; required

	// Into is the fresh sink, which has the events already. Required.
	Into Notifications

	MaxRecords int                   // bounds a batch. Default 2000
	Progress   func(RebuildProgress) // is called after every batch; may be nil
}

// ContentReport is the result of RebuildContents.
type ContentReport struct {
	RebuildProgress           // Events counts the emissions that had content
	Since           time.Time // the due topics are complete from then on; zero if they lost nothing
}

// String formats the report for a terminal.
func (r *ContentReport) String() string {
	if r.Since.IsZero() {
		return fmt.Sprintf("content of %d emissions; that is all of it\n", r.Events)
	}
	return fmt.Sprintf("content of %d emissions: the due topics are complete from %s on; earlier content may be "+
		"only in the tables in use\n", r.Events, r.Since.UTC().Format("2006-01-02T15:04:05Z"))
}

// RebuildContents reads the due topics from their beginnings to their current ends, and writes
// the content of notifications. It changes only the fresh sink, and may be run more than once.
func RebuildContents(ctx context.Context, o ContentRebuildOptions) (*ContentReport, error) {
	setDefault(&o.MaxRecords, 2000)
	if o.Into == nil || len(o.Topics) == 0 {
		return nil, errors.New("rebuild content: no source or no target tables")
	}
	if o.Progress == nil {
		o.Progress = func(RebuildProgress) {}
	}
	b := &contentRebuild{
		o: o, report: &ContentReport{}, started: time.Now(),
		ends: map[TopicPartition]int64{}, cut: map[TopicPartition]bool{},
	}
	if err := replay(ctx, o.Kafka, o.MaxRecords, b.plan, func() bool { return len(b.ends) > 0 }, b.take); err != nil {
		return b.report, fmt.Errorf("rebuild content: %w", err)
	}
	for _, begins := range b.begins {
		if begins.After(b.report.Since) {
			b.report.Since = begins
		}
	}
	return b.report, nil
}

type contentRebuild struct {
	o       ContentRebuildOptions
	report  *ContentReport
	started time.Time
	ends    map[TopicPartition]int64 // partitions still to be read, with their end offsets
	cut     map[TopicPartition]bool  // those of them whose first records are gone, until one is read
	begins  []time.Time              // where partitions begin whose first records are gone
}

// plan finds the topics and assigns their partitions.
func (b *contentRebuild) plan(ctx context.Context, client *kgo.Client) error {
	admin := kadm.NewClient(client)
	topics, err := b.topics(ctx, admin)
	if err != nil || len(topics) == 0 {
		return err
	}
	starts, ends, err := logBounds(ctx, admin, topics...)
	if err != nil {
		return err
	}
	kept := b.retention(ctx, admin, topics)
	assign := map[string]map[int32]kgo.Offset{}
	ends.Each(func(e kadm.ListedOffset) {
		start, ok := starts.Lookup(e.Topic, e.Partition)
		p := TopicPartition{e.Topic, e.Partition}
		if !ok || start.Offset >= e.Offset {
			if ok && start.Offset > 0 {
				b.begins = append(b.begins, b.started.Add(-kept[e.Topic]))
			}
			return
		}
		b.cut[p] = start.Offset > 0
		b.ends[p] = e.Offset
		b.report.Records += e.Offset - start.Offset
		if assign[e.Topic] == nil {
			assign[e.Topic] = map[int32]kgo.Offset{}
		}
		assign[e.Topic][e.Partition] = kgo.NewOffset().At(start.Offset)
	})
	client.AddConsumePartitions(assign)
	return nil
}

func (b *contentRebuild) topics(ctx context.Context, admin *kadm.Client) ([]string, error) {
	patterns := make([]*regexp.Regexp, len(b.o.Topics))
	for i, text := range b.o.Topics {
		var err error
		if patterns[i], err = regexp.Compile(text); err != nil {
			return nil, err
		}
	}
	all, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
	})
	return names, nil
}

// retention returns how long topics keep records. An empty partition has lost all older ones. It
// is 0 if the brokers do not say.
func (b *contentRebuild) retention(ctx context.Context, admin *kadm.Client, topics []string) map[string]time.Duration {
	kept := map[string]time.Duration{}
	configs, err := admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return kept
	}
	for _, c := range configs {
		for _, entry := range c.Configs {
			ms, err := strconv.ParseInt(entry.MaybeValue(), 10, 64)
			if entry.Key == "retention.ms" && err == nil && ms > 0 {
				kept[c.Name] = time.Duration(ms) * time.Millisecond
			}
		}
	}
	return kept
}

// take applies the fetched records below the ends.
func (b *contentRebuild) take(ctx context.Context, f kgo.Fetches) error {
	records := f.Records()
	batch := make([]ContentRecord, 0, len(records))
	for _, rec := range records {
		p := TopicPartition{rec.Topic, rec.Partition}
		end, open := b.ends[p]
		if !open || rec.Offset >= end {
			continue
		}
		if b.cut[p] { // its first remaining record
			b.begins = append(b.begins, rec.Timestamp)
			delete(b.cut, p)
		}
		one := contentRecordOf(rec)
		if one.Has {
			b.report.Events++
		}
		batch = append(batch, one)
	}
	if err := patiently(ctx, func() error { return b.o.Into.ApplyContent(ctx, batch) }); err != nil {
		return err
	}
	for i := range batch {
		b.report.Done++
		if p := batch[i].TopicPartition; batch[i].Offset+1 >= b.ends[p] {
			delete(b.ends, p)
		}
	}
	b.report.Elapsed = time.Since(b.started)
	b.o.Progress(b.report.RebuildProgress)
	return nil
}
