package analytics

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// Watermark says up to when the sealed files of a partition are complete: every first emission
// whose effective_at, or else its due time, is at or before FiredThrough is in the files of this
// manifest and of those before, unless Held names what kept it back. It says nothing of offsets
// that were gone before they were exported.
type Watermark struct {
	FiredThrough string   `json:"fired_through"`
	EventsOffset int64    `json:"events_offset"` // at or below the partition's next offset
	Held         []string `json:"held"`          // due topics that refuse records, or why the partition lags
}

// marks are watermarks of a partition, the oldest first. None of them is withdrawn.
type marks []*topics.Watermark

// below is the newest whose emissions stand below an offset; nil if there is none.
func (m marks) below(next int64) *Watermark {
	for _, w := range slices.Backward(m) {
		if w.EventsOffset <= next {
			return &Watermark{w.FiredThrough.String(), w.EventsOffset, append([]string{}, w.Held...)}
		}
	}
	return nil
}

// Watermarks are read backwards from the end of their topic, in steps of so many offsets. A
// record has two: its own and that of its transaction's end. So an export finds a watermark for
// files that ended at most nine hours ago, if there is one each second.
var markSteps = []int64{256, 1 << 12, 1 << 16}

// marksWithin bounds the time for it: files are worth more than their watermark.
const marksWithin = 10 * time.Second

// marksOf reads the watermarks of a partition, back to the first that stands at or below an
// offset of events. If Kafka does not give them, there are none: they are an addition, and
// events must be exported before they expire.
func (e *Exporter) marksOf(ctx context.Context, log *source, p int32, next int64) marks {
	if log.marks == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, marksWithin)
	defer cancel()
	all, err := log.marks(ctx, p, next)
	if err != nil {
		e.opts.Logger.Warn("the next manifest has no watermark of a partition", "partition", p, "error", err)
		return nil
	}
	return all
}

// readMarks is what source asks of it. It sets no consumer up: one is reading events meanwhile.
func (e *Exporter) readMarks(ctx context.Context, p int32, next int64) (all marks, err error) {
	if e.opts.Watermarks == "" {
		return nil, nil
	}
	cl, at := e.opts.Client, kafkapart.TopicPartition{Topic: e.opts.Watermarks, Partition: p}
	start, err1 := kafkapart.ListOffset(ctx, cl, at.Topic, p, kafkapart.ReadCommitted, kafkapart.Earliest)
	end, err2 := kafkapart.ListOffset(ctx, cl, at.Topic, p, kafkapart.ReadCommitted, kafkapart.Latest)
	switch err := errors.Join(err1, err2); {
	case errors.Is(err, kerr.UnknownTopicOrPartition): // a cluster that is older than watermarks
		return nil, nil
	case err != nil:
		return nil, err
	}
	reader, until := kafkapart.NewReader(cl), end
	for _, step := range markSteps {
		from := max(start, end-step)
		piece, withdrawn, err := marksBetween(ctx, reader, at, from, until)
		if err != nil {
			return nil, err
		}
		all = append(piece, all...)
		if withdrawn || from == start || len(all) > 0 && all[0].EventsOffset <= next {
			break
		}
		until = from
	}
	return all, nil
}

// marksBetween reads the committed watermarks of [from, until). A null withdraws those before it.
func marksBetween(ctx context.Context, reader *kafkapart.Reader, at kafkapart.TopicPartition, from, until int64) (
	all marks, withdrawn bool, err error,
) {
	key := topics.WatermarkKey(at.Partition)
	for from < until {
		fetches, next, err := reader.ReadFrom(ctx, at, from, kafkapart.ReadCommitted, reader.Decompressor())
		if err != nil {
			return nil, false, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Attrs.IsControl() || r.Offset >= until || !bytes.Equal(r.Key, key) {
				return
			}
			switch w, err := topics.DecodeWatermark(r.Key, r.Value); {
			case err != nil: // anybody with the right can write there
			case w == nil:
				all, withdrawn = nil, true
			default:
				all = append(all, w)
			}
		})
		from = next
	}
	return all, withdrawn, nil
}
