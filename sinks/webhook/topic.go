package webhook

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// TopicPublisher publishes to topic endpoints.
type TopicPublisher struct {
	topic, instance string
	client          *kgo.Client
}

// NewTopicPublisher makes the publisher of one process, which instance names. It connects when it
// publishes the first endpoint.
func NewTopicPublisher(kafka []kgo.Opt, names topics.Names, instance string) (*TopicPublisher, error) {
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, kafka...), kgo.RecordDeliveryTimeout(publishWithin))...)
	if err != nil {
		return nil, err
	}
	return &TopicPublisher{topic: names.Endpoints(), instance: instance, client: cl}, nil
}

// Publish implements Publisher.
func (p *TopicPublisher) Publish(ctx context.Context, now, gone []Status) error {
	records := make([]*kgo.Record, 0, len(now)+len(gone))
	for i := range now {
		s := p.state(&now[i])
		records = append(records, &kgo.Record{Topic: p.topic, Key: []byte(s.Key()), Value: s.Value()})
	}
	for i := range gone {
		s := p.state(&gone[i])
		records = append(records, &kgo.Record{Topic: p.topic, Key: []byte(s.Key())})
	}
	return p.client.ProduceSync(ctx, records...).FirstErr()
}

func (p *TopicPublisher) state(s *Status) *topics.EndpointState {
	return &topics.EndpointState{
		Instance: p.instance, Tenant: s.Tenant, Origin: s.Origin, State: string(s.State), InFlight: s.InFlight,
		OK: s.OK, Failed: s.Failed, LastCode: s.LastCode, Until: s.Until, CalledAt: s.CalledAt,
	}
}

// Close closes the Kafka client.
func (p *TopicPublisher) Close() { p.client.Close() }
