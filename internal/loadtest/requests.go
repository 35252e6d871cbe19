package loadtest

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requests counts what clients send: requests by kind, and the bytes of produce requests.
type requests struct {
	produced atomic.Int64
	kinds    [kmsg.MaxKey + 1]atomic.Int64 // by the protocol's key
}

// OnBrokerWrite is called by kgo for each request that it has written, or tried to.
func (r *requests) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, err error) {
	if key == int16(kmsg.Produce) {
		r.produced.Add(int64(n))
	}
	if err == nil && key >= 0 && int(key) < len(r.kinds) {
		r.kinds[key].Add(1)
	}
}

// sent is a count of requests by kind, and the bytes of produce requests, at one moment.
type sent struct {
	produced int64
	kinds    [kmsg.MaxKey + 1]int64
}

func (r *requests) sent() (s sent) {
	s.produced = r.produced.Load()
	for key := range r.kinds {
		s.kinds[key] = r.kinds[key].Load()
	}
	return s
}

// minus returns what was sent beside other.
func (s sent) minus(other sent) sent {
	s.produced -= other.produced
	for key := range s.kinds {
		s.kinds[key] -= other.kinds[key]
	}
	return s
}

// perLife names the requests as Kafka's protocol does, and divides their numbers by that of lives.
func (s sent) perLife(lives float64) map[string]float64 {
	per := map[string]float64{}
	for key, n := range s.kinds {
		if n > 0 {
			per[kmsg.NameForKey(int16(key))] = float64(n) / lives
		}
	}
	return per
}
