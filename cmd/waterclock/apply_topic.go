package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
)

// readWhole gives visit every committed record of a topic, from its beginning
// to where it ends now, in the order of each partition. what names it on the
// progress bar; "" shows none.
func (a *app) readWhole(ctx context.Context, c *config.Config, topic, what string, visit func(*kgo.Record)) error {
	cl, err := a.kafka(ctx, c, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(time.Second))
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

// read gives visit every committed record of the span, and calls step after
// each fetch. The client keeps control records, which end transactions.
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

// length is how many records, markers included, are still to be read, as far
// as offsets tell.
func (s *span) length() (n int64) {
	for topic, ps := range s.end {
		for p, end := range ps {
			n += max(0, end-s.next[topic][p])
		}
	}
	return n
}
