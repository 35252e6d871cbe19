package pipeline

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/pipeline/watermark"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// An opening reads its partition's last watermark, which was committed with the turn that wrote
// it. It waits at most lastWatermarkWithin for that, and reads at most lastWatermarkRange
// offsets, because watermarks are not worth a delay: without an answer, package watermark takes
// the latest that the record can say.
const (
	lastWatermarkWithin = 2 * time.Second
	lastWatermarkRange  = 256
)

// readLastWatermark reads beside the restore. The last owner must be fenced, and its transactions
// ended.
func (o *opening) readLastWatermark(ctx context.Context) <-chan watermark.Last {
	answer := make(chan watermark.Last, 1)
	at := kafkapart.TopicPartition{Topic: o.watermarks.topic, Partition: o.id}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, lastWatermarkWithin)
		defer cancel()
		last, err := o.lastWatermark(ctx, at)
		if err != nil {
			last = watermark.Last{Unknown: true}
			o.log.Warn("nobody can say what the last watermark is; the next one says at least what it can have said",
				"topic", at.Topic, "error", err)
		}
		answer <- last
	}()
	return answer
}

func (o *opening) lastWatermark(ctx context.Context, at kafkapart.TopicPartition) (last watermark.Last, err error) {
	list := func(isolation kafkapart.Isolation, which int64) int64 {
		var offset int64
		if err == nil {
			offset, err = kafkapart.ListOffset(ctx, o.opts.asker, at.Topic, at.Partition, isolation, which)
		}
		return offset
	}
	start := list(kafkapart.ReadUncommitted, kafkapart.Earliest)
	end := list(kafkapart.ReadUncommitted, kafkapart.Latest)
	stable := list(kafkapart.ReadCommitted, kafkapart.Latest)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return watermark.Last{NoTopic: true}, nil
	case err != nil:
		return last, err
	case stable < end: // somebody's transaction is open, and hides what follows
		return watermark.Last{Unknown: true}, nil
	}
	batches := o.opts.batchReader()
	defer batches.Close()
	from := max(start, end-lastWatermarkRange)
	last.Unknown = from > start // unless there is a record
	for offset := from; offset < end; {
		batches.Begin()
		fs, next, err := o.kafka.reader.ReadFrom(ctx, at, offset, kafkapart.ReadCommitted, batches)
		batches.End()
		if err != nil {
			return last, err
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Attrs.IsControl() || !bytes.Equal(r.Key, topics.WatermarkKey(at.Partition)) {
				return
			}
			if m, err := topics.DecodeWatermark(r.Key, r.Value); err == nil {
				last = watermark.Last{Record: m, Withdrawn: m == nil}
			}
		})
		offset = next
	}
	return last, nil
}

// resumeWatermarks takes what was read. Earlier builds kept it in progress, and format 4 with it.
func (o *opening) resumeWatermarks(last watermark.Last) {
	if was := o.progress.FiredThrough; was != 0 {
		last = watermark.Last{Record: &topics.Watermark{FiredThrough: was}}
	}
	o.progress.FiredThrough, o.progress.PutOff = 0, nil
	w := &o.watermarks
	w.store, w.rouse = o.store, o.kafka.watcher.Rouse
	w.published, w.inForce = last.Published(o.progress.At), last.InForce()
	w.start(&o.progress, o.fenced)
}

// Time between two questions: for the ends of topics, growing while some are unknown, and for a topic
// that is missing.
const (
	endsPause  = time.Second
	topicPause = 30 * time.Second
)

// watermarkSearch runs beside the turns, so that no opening waits for it.
type watermarkSearch struct {
	opts  *Process
	id    int32
	since time.Time // what is written to later, this owner's own turns tell
}

// run finds what a ledger must know before it says anything: where topics end, and what due
// topics have put off. While it cannot tell the ends of some topics, it asks again, and says all
// anew: a topic that was just created has no leader yet. It returns when all is known, or ctx ends.
func (s watermarkSearch) run(
	ctx context.Context, sn *statestore.Snapshot, until trigger.Instant, found func(*watermark.Found),
) {
	putOff, err := countPutOff(ctx, sn, until)
	sn.Close()
	if err != nil {
		return // the partition is being closed, or will be
	}
	s.awaitTopic(ctx)
	for pause := endsPause; ctx.Err() == nil; wait.For(ctx, pause) {
		ends := s.ends(ctx)
		s.since = time.Now() // a topic may be gone by the next time
		if ends == nil || ctx.Err() != nil {
			continue
		}
		found(&watermark.Found{Ends: *ends, PutOff: putOff})
		if len(ends.Unknown) == 0 {
			return
		}
		pause = min(2*pause, topicPause)
	}
}

// awaitTopic waits until the topic exists: clusters that are older than it may not have
// it yet. A record for a topic that is missing would cost a turn.
func (s watermarkSearch) awaitTopic(ctx context.Context) {
	topic := s.opts.Names.Watermarks()
	for ; ; wait.For(ctx, topicPause) {
		_, err := kafkapart.Metadata(ctx, s.opts.asker, topic)
		if ctx.Err() != nil || !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return
		}
		s.opts.noWatermarks.Do(func() {
			s.opts.Logger.Warn("the topic for watermarks is missing, so none are written; "+
				"create it with: waterclock topics apply", "topic", topic)
		})
	}
}

// ends asks for the ends of the topics that owners of this partition write to. Everything
// that an earlier owner has emitted stands below them, because it was fenced before. It returns
// nil if Kafka does not answer.
func (s watermarkSearch) ends(ctx context.Context) *watermark.Offsets {
	events, err := kafkapart.ListOffset(ctx, s.opts.asker, s.opts.Names.Events(), s.id, kafkapart.ReadUncommitted,
		kafkapart.Latest)
	if err != nil {
		return nil
	}
	due, err := s.opts.due.All(ctx, s.since)
	if err != nil {
		return nil
	}
	found := &watermark.Offsets{Events: events, Due: map[string]map[int32]int64{}}
	for i := range due {
		if ends := s.endsOf(ctx, &due[i]); ends != nil {
			found.Due[due[i].Name] = ends
		} else {
			found.Unknown = append(found.Unknown, due[i].Name)
		}
	}
	return found
}

// endsOf asks for the ends of one due topic. It returns nil if one of them is not known.
func (s watermarkSearch) endsOf(ctx context.Context, due *output.Topic) map[int32]int64 {
	ends := map[int32]int64{}
	for _, at := range due.WrittenBy(s.id) {
		end, err := kafkapart.ListOffset(ctx, s.opts.asker, at.Topic, at.Partition, kafkapart.ReadUncommitted,
			kafkapart.Latest)
		if err != nil {
			return nil
		}
		ends[at.Partition] = end
	}
	return ends
}
