package gateway

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Bounds of one read of a topic from its end: records and bytes.
const (
	backwardRecords = 20_000
	backwardBytes   = 32 << 20
)

// backward reads a partition from its end to its beginning, some offsets at a time.
type backward struct {
	partition   int32
	first, from int64 // [first, from) is not read yet

	visited, bytes int64
}

// readRecords is how the records of [from, until) of a partition are read.
type readRecords func(ctx context.Context, partition int32, from, until int64, f func(*kgo.Record) error) error

// more calls f for the records of the next n offsets towards the beginning, the oldest of them first.
func (b *backward) more(ctx context.Context, n int64, read readRecords, f func(*kgo.Record)) error {
	until := b.from
	from := max(b.first, until-n)
	err := read(ctx, b.partition, from, until, func(r *kgo.Record) error {
		b.visited++
		b.bytes += int64(len(r.Key) + len(r.Value))
		if r.Offset >= from { // a batch may begin before it
			f(r)
		}
		return nil
	})
	b.from = from
	return err
}
