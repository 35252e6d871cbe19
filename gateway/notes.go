package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// notes lists what may surprise the caller of a write.
func (c *command) notes(v *verdict) (notes []string) {
	repeat := v.has(trigger.Duplicate)
	for _, name := range c.opens {
		if !repeat {
			notes = append(notes, topics.NoteNewChannel(name))
		}
	}
	for i, nobody := range c.nobody {
		if nobody != nil && v.state != nil && !repeat && nobody() {
			notes = append(notes, topics.NoteNobody(c.channels[i]))
		}
	}
	if c.content != "" && v.state != nil && !repeat {
		notes = append(notes, c.content)
	}
	moved := v.has(trigger.Rescheduled) && !v.has(trigger.Replaced) // else an edit of a calendar did, before the patch
	if v.state == nil || c.patch && !moved {
		return notes
	}
	return append(notes, topics.Notes(&c.when, c.sent, v.state.Nominal(), repeat)...)
}

// channels finds which channels are new. It asks Kafka whether a channel has a due topic,
// and keeps the answer. An existing channel stays known; any other answer counts for a
// second, so that a batch does not ask for each line.
type channels struct {
	kafka  *producer.Producer
	names  topics.Names
	known  func(name string) bool // by settings
	within time.Duration

	mu  sync.Mutex
	all map[string]channelAnswer
}

type channelAnswer struct {
	opens bool
	until time.Time // zero: without end
	noted bool      // an answer has said that a command creates it
}

const (
	channelAnswerFor  = time.Second
	maxChannelAnswers = 1000 // callers choose the names
)

// opens reports whether a channel is new: nothing has fired on it, so its due topic does
// not exist. If Kafka does not answer, it returns false.
func (c *channels) opens(ctx context.Context, channel string) bool {
	if channel == "" || channel == topics.DefaultChannel || c.known(channel) {
		return false
	}
	if was, known := c.get(channel); known {
		return was
	}
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	topic := c.names.Due(channel)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	code := kerr.UnknownServerError.Code
	if resp, err := req.RequestWith(ctx, c.kafka.Client()); err == nil && len(resp.Topics) == 1 {
		code = resp.Topics[0].ErrorCode
	}
	opens := code == kerr.UnknownTopicOrPartition.Code
	c.keep(channel, opens, code == 0)
	return opens
}

func (c *channels) get(channel string) (opens, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.all[channel]
	return was.opens, known && (was.until.IsZero() || time.Now().Before(was.until))
}

// first reports whether no earlier answer said that a command creates this channel.
func (c *channels) first(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.all[channel]
	if was.noted {
		return false
	}
	was.noted = true
	c.all[channel] = was
	return true
}

func (c *channels) keep(channel string, opens, forGood bool) {
	found := channelAnswer{opens: opens}
	if !forGood {
		found.until = time.Now().Add(channelAnswerFor)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxChannelAnswers {
		c.all = map[string]channelAnswer{}
	}
	c.all[channel] = found
}
