package gateway

import (
	"context"
	"errors"

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
	most           int64 // bytes; 0: no bound
}

// errMostBytes ends a window in which there are more bytes than may be read. What was read of it is not used: its
// newest part was not read.
var errMostBytes = errors.New("too many bytes")

// cost is what was read, in visits: a record each, or a KiB.
func (b *backward) cost() int64 { return max(b.visited, b.bytes>>10) }

// readRecords is how the records of [from, until) of a partition are read.
type readRecords func(ctx context.Context, partition int32, from, until int64, f func(*kgo.Record) error) error

// more calls f for the records of the next n offsets towards the beginning, the oldest of them first.
func (b *backward) more(ctx context.Context, n int64, read readRecords, f func(*kgo.Record)) error {
	until := b.from
	from := max(b.first, until-n)
	err := read(ctx, b.partition, from, until, func(r *kgo.Record) error {
		b.visited++
		if b.bytes += int64(len(r.Key) + len(r.Value)); b.most > 0 && b.bytes > b.most {
			return errMostBytes
		}
		if r.Offset >= from { // a batch may begin before it
			f(r)
		}
		return nil
	})
	b.from = from
	return err
}
