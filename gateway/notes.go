package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// notes say what may surprise the caller of a write that was obeyed.
func (c *command) notes(v *verdict) (notes []string) {
	repeat := v.told(trigger.Duplicate)
	if c.opens && !repeat {
		notes = append(notes, topics.NoteNewChannel(c.channel))
	}
	if v.state == nil || c.patch && !v.told(trigger.Rescheduled) {
		return notes
	}
	return append(notes, topics.Notes(&c.when, c.sent, v.state.Nominal(), repeat)...)
}

// opens says whether a channel is new: nothing has fired on it, so its due topic
// is yet to be made. Where Kafka does not say, it is not.
func (s *Server) opens(ctx context.Context, channel string) bool {
	if channel == "" || channel == topics.DefaultChannel || s.opts.KnownChannel(channel) {
		return false
	}
	if was, known := s.channels.get(channel); known {
		return was
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.ReadWithin)
	defer cancel()
	topic := s.opts.Names.Due(channel)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	code := kerr.UnknownServerError.Code
	if resp, err := req.RequestWith(ctx, s.kafka.Client()); err == nil && len(resp.Topics) == 1 {
		code = resp.Topics[0].ErrorCode
	}
	opens := code == kerr.UnknownTopicOrPartition.Code
	s.channels.keep(channel, opens, code == 0)
	return opens
}

// channelLooks remembers which channels are new. That one is not stays so; what
// else was found counts for a second, so that a batch does not ask for each line.
type channelLooks struct {
	mu  sync.Mutex
	all map[string]channelLook
}

type channelLook struct {
	opens bool
	until time.Time // zero: for ever
}

const (
	channelLookFor  = time.Second
	maxChannelLooks = 1000 // names are the callers' to choose
)

func (l *channelLooks) get(channel string) (opens, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known := l.all[channel]
	return was.opens, known && (was.until.IsZero() || time.Now().Before(was.until))
}

func (l *channelLooks) keep(channel string, opens, forGood bool) {
	found := channelLook{opens: opens}
	if !forGood {
		found.until = time.Now().Add(channelLookFor)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil || len(l.all) >= maxChannelLooks {
		l.all = map[string]channelLook{}
	}
	l.all[channel] = found
}
