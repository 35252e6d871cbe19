package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Watermarks say up to which instant everything that was due is out.
type Watermarks struct {
	FiredThrough string      `json:"fired_through,omitempty" format:"date-time" doc:"The least of all partitions; absent while one is missing"`
	Items        []Watermark `json:"items" doc:"By partition"`
	Missing      []int32     `json:"missing,omitempty" doc:"Partitions without a watermark"`
}

// Watermark is the last watermark of a partition: the value of its record on topic watermarks.
type Watermark struct {
	Partition      int32                       `json:"partition"`
	Term           int64                       `json:"term" doc:"Of the owner that wrote it"`
	At             string                      `json:"at" format:"date-time" doc:"When it was written, by the engine's clock"`
	FiredThrough   string                      `json:"fired_through" format:"date-time" doc:"Everything due up to here is out, but for what held names"`
	CommandsOffset *int64                      `json:"commands_offset,omitempty" doc:"Commands below it are decided; operators alone see offsets"`
	EventsOffset   *int64                      `json:"events_offset,omitempty" doc:"Of topic events"`
	Due            map[string]map[string]int64 `json:"due,omitempty" doc:"Offsets by due topic and its partition"`
	Held           []string                    `json:"held" doc:"Due topics that refuse records; clock, barrier or lag: why fired_through falls behind"`
}

func watermarkRoutes(p *parts) []route {
	return []route{{
		method: http.MethodGet, pattern: "/v1/watermark", right: auth.Read, handle: p.watermarks.getWatermark,
		costly: true, doc: operation{
			id:      "getWatermark",
			summary: "Read up to which instant everything due has been emitted; 404 while no partition reports it",
			query: []parameter{{
				name: "channel", doc: "due and held have the topics of this channel alone", kind: of[string](),
			}},
			answers: answers{200: of[Watermarks]()},
		},
	}}
}

// watermarks shows topic watermarks.
type watermarks struct {
	channels   *channelAdmin
	log        *watermarkLog
	readWithin time.Duration
}

func (s *watermarks) getWatermark(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	ofChannel, err := s.topicsOf(ctx, r)
	if err != nil {
		return err
	}
	last, err := s.log.read(ctx)
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	answer := watermarksOf(last, ofChannel, r.who.May(auth.Operate))
	if len(answer.Items) == 0 {
		return problem.New(http.StatusNotFound, trigger.CodeNotFound, "",
			"no partition writes watermarks: set watermarks.interval of the engines, such as 1s")
	}
	return sendJSON(w, http.StatusOK, answer)
}

// topicsOf are the due topics of the channel asked for; nil if none is.
func (s *watermarks) topicsOf(ctx context.Context, r *request) ([]string, error) {
	if !r.query.Has("channel") {
		return nil, nil
	}
	all, err := s.channels.allChannels(ctx)
	if err != nil {
		return nil, problem.Unavailable(err, "Kafka does not answer")
	}
	c, ok := all[r.query.Get("channel")]
	if !ok { // a misspelt name must not be complete
		return nil, problem.New(http.StatusNotFound, trigger.CodeNotFound, "channel",
			"no such channel, or nothing has fired on it yet")
	}
	return []string{c.Topic, topics.HighLane(c.Topic)}, nil
}

// watermarksOf is the answer about the last records of all partitions; nil is none. ofChannel
// are the only due topics to name; nil means all. Offsets count what all tenants do, so only an
// operator gets them.
func watermarksOf(last []*topics.Watermark, ofChannel []string, operator bool) Watermarks {
	shown := func(topic string) bool { return ofChannel == nil || slices.Contains(ofChannel, topic) }
	answer := Watermarks{Items: []Watermark{}}
	var least trigger.Instant
	for p, m := range last {
		if m == nil {
			answer.Missing = append(answer.Missing, int32(p))
			continue
		}
		one := Watermark{
			Partition: int32(p), Term: m.Term, At: m.At.String(), FiredThrough: m.FiredThrough.String(),
			Held: []string{},
		}
		for _, held := range m.Held {
			if topics.IsHeldReason(held) || shown(held) {
				one.Held = append(one.Held, held)
			}
		}
		if operator {
			one.CommandsOffset, one.EventsOffset = &m.CommandsOffset, &m.EventsOffset
			one.Due = map[string]map[string]int64{}
			for topic, ends := range m.Due {
				if shown(topic) {
					one.Due[topic] = offsetsJSON(ends)
				}
			}
		}
		if len(answer.Items) == 0 || m.FiredThrough < least {
			least = m.FiredThrough
		}
		answer.Items = append(answer.Items, one)
	}
	if len(answer.Missing) == 0 && len(answer.Items) > 0 {
		answer.FiredThrough = least.String()
	}
	return answer
}

func offsetsJSON(ends map[int32]int64) map[string]int64 {
	out := make(map[string]int64, len(ends))
	for partition, end := range ends {
		out[strconv.Itoa(int(partition))] = end
	}
	return out
}

// watermarkLog is topic watermarks, read up to the last request.
type watermarkLog struct {
	topic      *topicReader
	partitions int32

	mu   sync.Mutex
	next []int64 // by partition; 0: not read yet
	last []*topics.Watermark
}

// watermarksAtOnce bounds the partitions that are read at the same time.
const watermarksAtOnce = 16

// read returns the last watermark of each partition; nil is none. It asks for the ends first, so
// the answer is as of the request.
func (l *watermarkLog) read(ctx context.Context) ([]*topics.Watermark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.next, l.last = make([]int64, l.partitions), make([]*topics.Watermark, l.partitions)
	}
	all := make([]kafkapart.TopicPartition, l.partitions)
	for p := range l.partitions {
		all[p] = kafkapart.TopicPartition{Topic: l.topic.topic, Partition: p}
	}
	ends, missing := kafkapart.Ends(ctx, l.topic.kafka.Client(), all, kafkapart.ReadCommitted)
	for p := range l.partitions { // before any is read: a reader that goes on after us would write behind the lock
		if err := missing[all[p]]; err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("find the end of %s/%d: %w", l.topic.topic, p, err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(watermarksAtOnce)
	for p := range l.partitions {
		if missing[all[p]] != nil { // nobody has made it yet
			l.next[p], l.last[p] = 0, nil
			continue
		}
		g.Go(func() error { return l.catchUp(ctx, p, ends[all[p]]) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Clone(l.last), nil
}

// catchUp finds the last record below end. It reads from the end to the beginning, because
// compaction comes late and only the last record counts.
func (l *watermarkLog) catchUp(ctx context.Context, partition int32, end int64) error {
	floor := l.next[partition]
	if floor == 0 || end < floor { // the first time, or the topic was made anew
		start, err := startOf(ctx, l.topic.kafka.Client(), l.topic.topic, partition)
		if err != nil {
			return err
		}
		floor, l.last[partition] = start, nil
	}
	until := end
	for _, step := range slices.Concat(progressSteps, []int64{end}) {
		from := max(floor, end-step)
		found := false
		err := l.topic.read(ctx, partition, from, until, func(r *kgo.Record) error {
			// A record that is not a watermark of this partition says nothing: anybody with the right can write one.
			if !bytes.Equal(r.Key, topics.WatermarkKey(partition)) {
				return nil
			}
			if m, err := topics.DecodeWatermark(r.Key, r.Value); err == nil {
				l.last[partition], found = m, true
			}
			return nil
		})
		if err != nil {
			return err
		}
		if until = from; found || from == floor {
			break
		}
	}
	l.next[partition] = end
	return nil
}
