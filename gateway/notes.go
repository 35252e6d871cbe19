package gateway

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// notes say what may surprise the caller of a write that was obeyed.
func (c *command) notes(v *verdict) (notes []string) {
	repeat := v.told(trigger.Duplicate)
	if c.opens && !repeat {
		notes = append(notes, "channel "+c.channel+" is new")
	}
	if v.state == nil || c.patch && !v.told(trigger.Rescheduled) {
		return notes
	}
	return append(notes, topics.Notes(&c.when, c.sent, v.state.Nominal(), repeat)...)
}

// opens says whether a channel is new: nothing has fired on it, so its due topic
// is yet to be made. Where Kafka does not say, it is not.
func (s *Server) opens(ctx context.Context, channel string) bool {
	if channel == "" || channel == defaultChannel || s.opts.KnownChannel(channel) {
		return false
	}
	if _, known := s.channels.Load(channel); known {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.ReadWithin)
	defer cancel()
	topic := s.opts.Names.Due(channel)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	resp, err := req.RequestWith(ctx, s.kafka.Client())
	if err != nil || len(resp.Topics) != 1 {
		return false
	}
	if resp.Topics[0].ErrorCode == 0 {
		s.channels.Store(channel, true) // of topics that are there: channels are bounded
	}
	return resp.Topics[0].ErrorCode == kerr.UnknownTopicOrPartition.Code
}

// defaultChannel is the channel of a register that names none.
const defaultChannel = "default"
