package gateway

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Channels are all channels, by name.
type Channels struct {
	Items []Channel `json:"items"`
}

// Channel is where due events go.
type Channel struct {
	Name       string  `json:"name"`
	Topic      string  `json:"topic" doc:"Of its due events"`
	Partitions int     `json:"partitions" doc:"Of the topic; 0: nothing has fired yet, and the topic does not exist"`
	Removable  bool    `json:"removable" doc:"A command created it; settings do not name it"`
	Waiting    *int64  `json:"waiting,omitempty" doc:"Due events that the group of its worker has not read, at most: markers of transactions count. For operators, up to 5 s old; absent if the group has read nothing"`
	PutOff     []int32 `json:"put_off,omitempty" doc:"Partitions that put due events of the channel off, because its topic has refused records. For operators, up to 5 s old, and as watermarks say: not known while watermarks.interval is off"`
}

const channelsPath = "/v1/channels"

// channelAdmin lists channels, and removes those that nobody needs.
type channelAdmin struct {
	configured map[string]string
	known      *shared[map[string]Channel] // what lists show
	answers    *sharedAnswers              // of lists
	waiting    *waitingCounts
	putOff     *putOffTopics
	kafka      *producer.Producer
	names      topics.Names
	readWithin time.Duration
	router     *peer.Router
}

// listChannels lists the channels that settings name, those that always exist, and
// every one that has a due topic.
func (s *channelAdmin) listChannels(w http.ResponseWriter, r *request) error {
	known, err := s.known.get(r.Context(), s.allChannels)
	var waiting map[string]int64
	if err == nil && s.waiting.group != nil && r.who.May(auth.Operate) {
		ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
		defer cancel()
		waiting, err = s.waiting.counts(ctx, known)
	}
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	var putOff map[string][]int32
	if r.who.May(auth.Operate) {
		putOff = s.putOff.get(r.Context())
	}
	list := Channels{Items: []Channel{}}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		c := known[name]
		if n, counted := waiting[name]; counted && c.Partitions > 0 {
			c.Waiting = &n
		}
		c.PutOff = slices.Concat(putOff[c.Topic], putOff[topics.HighLane(c.Topic)])
		slices.Sort(c.PutOff)
		c.PutOff = slices.Compact(c.PutOff)
		list.Items = append(list.Items, c)
	}
	return sendJSON(w, http.StatusOK, list)
}

func (s *channelAdmin) allChannels(ctx context.Context) (map[string]Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readWithin)
	defer cancel()
	// All topics, asked of the brokers, because kadm would answer from its cache.
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, s.kafka.Client())
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, t := range resp.Topics {
		if t.Topic != nil && t.ErrorCode == 0 {
			found[*t.Topic] = len(t.Partitions)
		}
	}
	all := map[string]Channel{}
	for name, topic := range s.configured {
		all[name] = Channel{Name: name, Topic: topic, Partitions: found[topic]}
	}
	for topic, n := range found {
		name := s.names.Channel(topic)
		if _, known := all[name]; known || name == "" || strings.HasSuffix(name, ".high") {
			continue
		}
		all[name] = Channel{Name: name, Topic: topic, Partitions: n, Removable: true}
	}
	return all, nil
}

// deleteChannel removes a channel that a command created and no trigger names, with the due
// events on its topic. A register that comes meanwhile may create it anew.
func (s *channelAdmin) deleteChannel(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), deleteWithin)
	defer cancel()
	all, err := s.allChannels(ctx)
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	c, ok := all[r.names["name"]]
	switch {
	case !ok:
		return problem.New(http.StatusNotFound, trigger.CodeNotFound, "name", "no such channel")
	case !c.Removable:
		return problem.New(http.StatusConflict, trigger.CodeConflict, "name",
			"the channel always exists, or settings name it: remove channels."+c.Name+" from them first")
	}
	u, err := usersWithinBounds(ctx, r, c.Name, s.router.ChannelUse)
	if err != nil {
		return cannotSay(err, "the channel")
	}
	if u.Triggers > 0 {
		p := problem.New(http.StatusConflict, trigger.CodeConflict, "name",
			"triggers that have not ended name the channel: cancel them, or register them on another")
		p.Triggers, p.TriggerCount = u.IDs, u.Triggers
		return p
	}
	if err := s.removeTopics(ctx, c.Topic, topics.HighLane(c.Topic)); err != nil {
		return problem.Unavailable(err, "Kafka has not removed the channel's topic; repeat the request")
	}
	s.known.forget()
	s.answers.forget(channelsPath)
	return sendJSON(w, http.StatusOK, c)
}

func (s *channelAdmin) removeTopics(ctx context.Context, names ...string) error {
	answers, err := kadm.NewClient(s.kafka.Client()).DeleteTopics(ctx, names...)
	for _, a := range answers {
		if !errors.Is(a.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, a.Err)
		}
	}
	return err
}
