package loadtest

import (
	"errors"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the bench itself sends is not the engine's, nor is what was sent before or could not be sent.
func TestRequestsOfTheEngine(t *testing.T) {
	var all, own requests
	send := func(r *requests, key kmsg.Key, bytes int, err error) {
		r.OnBrokerWrite(kgo.BrokerMetadata{}, int16(key), bytes, 0, 0, err)
	}
	now := func() sent { return all.sent().minus(own.sent()) }
	send(&all, kmsg.EndTxn, 50, nil)
	before := now()
	for range 3 {
		send(&all, kmsg.Produce, 1000, nil)
		send(&all, kmsg.Fetch, 70, nil)
	}
	send(&own, kmsg.Produce, 1000, nil)
	send(&all, kmsg.EndTxn, 50, nil)
	send(&all, kmsg.ListOffsets, 60, errors.New("connection reset"))
	send(&all, kmsg.Key(kmsg.MaxKey+1), 60, nil) // of a later Kafka
	got := now().minus(before)
	if got.produced != 2000 {
		t.Errorf("%d bytes produced, want 2000", got.produced)
	}
	want := map[string]float64{"Produce": 0.5, "Fetch": 0.75, "EndTxn": 0.25}
	if per := got.perLife(4); !maps.Equal(per, want) {
		t.Errorf("requests of a life: %v, want %v", per, want)
	}
}
