package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// eventLog reads what happened to a trigger, from the history and behind it from topic
// events.
type eventLog struct {
	history History // nil: there is none
	kafka   *producer.Producer
	opts    []kgo.Opt // how to reach the brokers
	topic   string
	router  *peer.Router
	within  time.Duration
	fetch   int32 // bytes of a fetch of a stream
	records *topicReader
}

// eventsAtOnce is how many bytes of events are in memory at once where no page of them is kept.
const eventsAtOnce = 1 << 20

// page reads at most limit events of a trigger after a cursor from the history, and no more once they
// have most bytes. more: there are further ones.
func (h *eventLog) page(ctx context.Context, key trigger.Key, after EventCursor, limit int, most int64) (
	list []topics.Event, more bool, err error,
) {
	if h.history == nil {
		return nil, false, noHistory(errNoHistory)
	}
	ctx, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	list, more, err = h.history.Events(ctx, key.Tenant(), key, after, limit, most)
	if err != nil {
		return nil, false, noHistory(err)
	}
	return list, more, nil
}

// noHistory is the answer to a read that needs a history, where it gave err.
func noHistory(err error) error {
	if errors.Is(err, errNoHistory) {
		return problem.Unavailable(nil, "no history is kept here: run the role history, or set cassandra.hosts")
	}
	return problem.Unavailable(err, "the history does not answer")
}

// last reads the newest events of a trigger from the history, in order, without their payloads.
func (h *eventLog) last(ctx context.Context, key trigger.Key, limit int) ([]topics.Event, error) {
	if h.history == nil {
		return nil, errNoHistory
	}
	return h.history.LastEvents(ctx, key.Tenant(), key, limit)
}

// awaitNewest waits up to a second until the history has the trigger's newest event, if that is not number seen. It
// reports whether it waited. Events that have expired never come, so the wait ends once the history has read the
// partition.
func (h *eventLog) awaitNewest(ctx context.Context, key trigger.Key, seen int64) bool {
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	if st, err := h.router.Peek(ctx, key); err != nil || st == nil || st.Seq == seen {
		return false
	}
	_ = h.caughtUp(ctx, key) // a list that is behind is better than none
	return true
}

// newestSeq is the number of the newest event of a list that has one. Numbers begin anew with a key that was forgotten.
func newestSeq(list []topics.Event) int64 {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Seq > 0 {
			return list[i].Seq
		}
	}
	return 0
}

// replay sends what the history has, and pays for it. After an error, or one of out, something is missing behind the
// last event.
func (h *eventLog) replay(
	ctx context.Context, key trigger.Key, out *eventStream, pay func(events int) error, mayGoOn func() bool,
) error {
	if h.history == nil {
		return nil
	}
	for admitted := time.Now(); ; {
		list, more, err := h.page(ctx, key, out.after, maxPage, eventsAtOnce)
		if err != nil {
			return err
		}
		for i := range list {
			out.send(&list[i])
		}
		if err := pay(len(list)); err != nil {
			return err
		}
		if !more || out.err != nil {
			return nil
		}
		if time.Since(admitted) < admitEvery {
			continue
		}
		if admitted = time.Now(); !mayGoOn() {
			return errNoLongerAdmitted
		}
	}
}

// tail reads the trigger's partition of topic events from where the history ends; without a
// history from its present end, or for a caller that comes back, from some time before.
func (h *eventLog) tail(ctx context.Context, key trigger.Key, resumes bool) (*kgo.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	partition := h.router.PartitionOf(key)
	from, err := h.end(ctx, partition, resumes)
	if err != nil {
		return nil, err
	}
	opts := append([]kgo.Opt{}, h.opts...)
	cl, err := kgo.NewClient(append(opts,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{h.topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.FetchMaxBytes(h.fetch), kgo.FetchMaxPartitionBytes(h.fetch),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableClientMetrics())...)
	return cl, noKafka(err)
}

// historyBegins is how far back the tail begins if the history has nothing of a partition
// yet. What the history has still to read is newer, unless nobody keeps it. Without a history, it is
// for how long a caller may have been away that comes back.
const historyBegins = time.Minute

func (h *eventLog) end(ctx context.Context, partition int32, resumes bool) (offset int64, err error) {
	if h.history == nil {
		if resumes {
			return h.recent(ctx, partition)
		}
		offset, err = stableEnd(ctx, h.kafka.Client(), h.topic, partition)
		return offset, noKafka(err)
	}
	next, err := h.history.Next(ctx, partition)
	switch {
	case err != nil:
		return 0, noHistory(err)
	case next > 0:
		return next, nil
	}
	return h.recent(ctx, partition)
}

func (h *eventLog) recent(ctx context.Context, partition int32) (int64, error) {
	since := trigger.At(time.Now().Add(-historyBegins))
	offset, err := offsetSince(ctx, h.kafka.Client(), h.topic, partition, since)
	return offset, noKafka(err)
}

// noKafka is the answer where Kafka gave err; nil if there is none.
func noKafka(err error) error {
	if err == nil {
		return nil
	}
	return problem.Unavailable(err, "Kafka does not answer")
}
