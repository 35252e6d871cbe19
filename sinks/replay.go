package sinks

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// replay reads the current content of topics. plan assigns partitions, and take gets the fetched
// records, as long as open returns true. The consumer is in no group.
func replay(ctx context.Context, kafka []kgo.Opt, most int, plan func(context.Context, *kgo.Client) error,
	open func() bool, take func(context.Context, kgo.Fetches) error,
) error {
	opts := append([]kgo.Opt{}, kafka...)
	opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	if err := plan(ctx, client); err != nil {
		return err
	}
	for open() {
		f := client.PollRecords(ctx, most)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.Err(); err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if err := take(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// logBounds returns the start offsets of topics, and the ends of their committed records.
func logBounds(ctx context.Context, admin *kadm.Client, topics ...string) (starts, ends kadm.ListedOffsets, err error) {
	if starts, err = admin.ListStartOffsets(ctx, topics...); err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("begin of the log: %w", err)
	}
	if ends, err = admin.ListCommittedOffsets(ctx, topics...); err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("end of the log: %w", err)
	}
	return starts, ends, nil
}
