package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
)

// tailFlags set where reading starts and when it ends.
type tailFlags struct {
	fromBeginning, noFollow bool
	partition               int32
	n                       int
	last                    int64 // without fromBeginning: start this many offsets before the end
}

func (f *tailFlags) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.fromBeginning, "from-beginning", false, "start at the beginning, not at the present end")
	fs.BoolVar(&f.noFollow, "no-follow", false, "stop at the present end")
	fs.Int32Var(&f.partition, "partition", -1, "only this partition")
	fs.IntVarP(&f.n, "number", "n", 0, "stop after this many; 0 for no end")
}

// since tells the user that a tail skips existing records, and how to include them.
func (f *tailFlags) since() string {
	if f.fromBeginning {
		return ""
	}
	return ", from now on; --from-beginning starts with the oldest record"
}

// tail reads committed records of topics and passes each to show, which reports whether the
// record counts. It ends after n records that count, at the end of the log with noFollow, or when
// the user interrupts. An interrupt is not an error.
func (a *app) tail(ctx context.Context, c *config.Config, topics []string, f *tailFlags,
	show func(*kgo.Record) (bool, error),
) error {
	cl, err := a.kafkaReader(ctx, c)
	if err != nil {
		return err
	}
	defer cl.Close()
	span, err := f.span(ctx, kadm.NewClient(cl), topics)
	if err != nil {
		return err
	}
	cl.AddConsumePartitions(span.start)
	a.note("reading %s%s", span, f.since())
	seen := 0
	for !f.noFollow || !span.done() {
		fetches := cl.PollFetches(ctx)
		if interrupted(ctx) {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", span, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			span.passed(r)
			if r.Attrs.IsControl() || f.noFollow && !span.within(r) {
				continue
			}
			counted, err := show(r)
			if err != nil {
				return err
			}
			if counted {
				seen++
			}
			if f.n > 0 && seen >= f.n {
				return nil
			}
		}
	}
	return nil
}

// span is the range of offsets that a tail reads. With noFollow it ends at the last stable offset
// at the time the tail began.
type span struct {
	topics []string
	start  map[string]map[int32]kgo.Offset
	end    map[string]map[int32]int64
	next   map[string]map[int32]int64
}

func (s *span) String() string {
	n := 0
	for _, ps := range s.start {
		n += len(ps)
	}
	return fmt.Sprintf("%v, %d partitions", s.topics, n)
}

func (f *tailFlags) span(ctx context.Context, admin *kadm.Client, topics []string) (*span, error) {
	first, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("find the start of %v: %w", topics, err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("find the end of %v: %w", topics, err)
	}
	s := &span{
		topics: topics, start: map[string]map[int32]kgo.Offset{}, end: map[string]map[int32]int64{},
		next: map[string]map[int32]int64{},
	}
	found := false
	for _, topic := range topics {
		s.start[topic], s.end[topic], s.next[topic] = map[int32]kgo.Offset{}, map[int32]int64{}, map[int32]int64{}
		for p, end := range ends[topic] {
			if f.partition >= 0 && p != f.partition {
				continue
			}
			if end.Err != nil {
				return nil, &failure{Exit: exitNotFound, Msg: fmt.Sprintf("there is no topic %s", topic), Err: end.Err}
			}
			found = true
			from := end.Offset
			if low, ok := first.Lookup(topic, p); ok && f.fromBeginning {
				from = low.Offset
			} else if ok && f.last > 0 {
				from = max(low.Offset, end.Offset-f.last)
			}
			s.start[topic][p], s.end[topic][p], s.next[topic][p] = kgo.NewOffset().At(from), end.Offset, from
		}
	}
	if !found {
		return nil, &failure{Exit: exitNotFound, Msg: fmt.Sprintf("%v has no such partition", topics)}
	}
	return s, nil
}

func (s *span) passed(r *kgo.Record)      { s.next[r.Topic][r.Partition] = r.Offset + 1 }
func (s *span) within(r *kgo.Record) bool { return r.Offset < s.end[r.Topic][r.Partition] }

// done reports whether every partition has been read to its end.
func (s *span) done() bool {
	for topic, ps := range s.end {
		for p, end := range ps {
			if s.next[topic][p] < end {
				return false
			}
		}
	}
	return true
}

// readWhole passes every committed record of a topic to visit, from the beginning to the current
// end, in order within each partition. what is the label of the progress bar; "" shows none.
func (a *app) readWhole(ctx context.Context, c *config.Config, topic, what string, visit func(*kgo.Record)) error {
	cl, err := a.kafkaReader(ctx, c)
	if err != nil {
		return err
	}
	defer cl.Close()
	f := &tailFlags{fromBeginning: true, partition: -1}
	s, err := f.span(ctx, kadm.NewClient(cl), []string{topic})
	if err != nil {
		return err
	}
	bar := a.progress(what, s.length())
	defer bar.end()
	return s.read(ctx, cl, func() { bar.set(s.length()) }, visit)
}

// read passes every committed record of the span to visit, and calls step after each fetch. The
// client must keep control records: the last offset of a partition may be a transaction marker.
func (s *span) read(ctx context.Context, cl *kgo.Client, step func(), visit func(*kgo.Record)) error {
	cl.AddConsumePartitions(s.start)
	for !s.done() {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", strings.Join(s.topics, ", "), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if s.passed(r); s.within(r) && !r.Attrs.IsControl() {
				visit(r)
			}
		})
		step()
	}
	return nil
}

// length estimates from offsets how many records are left to read. It includes markers.
func (s *span) length() (n int64) {
	for topic, ps := range s.end {
		for p, end := range ps {
			n += max(0, end-s.next[topic][p])
		}
	}
	return n
}
