package output

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/topics"
)

// MaxBatchBytes is the largest batch that we write, whatever a topic accepts.
const MaxBatchBytes = 1 << 20

// Sizes knows max.message.bytes of topics. A process has one.
type Sizes struct {
	adm *kadm.Client

	mu    sync.Mutex
	known map[string]size

	asking atomic.Bool // a question beside a turn is under way
}

type size struct {
	bytes int
	at    time.Time
	// guessed: the brokers do not tell the limit (DescribeConfigs is denied), and have
	// refused a record. About half of its size is tried next.
	guessed bool
}

// These are how long an answer is used when a partition opens, and when a trigger is put
// off.
const (
	SizesFor      = time.Minute
	sizesForRetry = time.Second
)

func newSizes(adm *kadm.Client) *Sizes {
	return &Sizes{adm: adm, known: map[string]size{}}
}

// Of is the largest record of a topic (topics.RecordBytes). For an unknown topic it is
// Kafka's default.
func (s *Sizes) Of(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.known[topic]; ok {
		return k.bytes
	}
	return MaxBatchBytes
}

// Learn asks for topics that were not asked for within age. Without an answer a limit stays
// as it is, because no partition may stop for that.
func (s *Sizes) Learn(ctx context.Context, age time.Duration, names ...string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Since(s.known[name].at) < age
	})
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answers, err := s.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range answers {
		if a.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.Name, a.Err))
			continue
		}
		for _, c := range a.Configs {
			if n, err := strconv.Atoi(c.MaybeValue()); c.Key == "max.message.bytes" && err == nil {
				s.set(a.Name, size{bytes: min(n, MaxBatchBytes), at: time.Now()})
			}
		}
	}
	return errors.Join(errs...)
}

func (s *Sizes) set(topic string, is size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[topic] = is
}

// Refused notes that a record of size used was too large for a topic, although our limit
// allowed it. It returns false if nothing can be learned: the topic claims to accept that
// size, or it accepts almost nothing. Our own topics must accept what we write, whatever
// they claim. A broker may compress anew, and a proxy may have a limit of its own.
func (s *Sizes) Refused(ctx context.Context, topic string, used int, own bool) bool {
	err := s.Learn(ctx, 0, topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, known := s.known[topic]
	if err == nil && known && !k.guessed && (k.bytes < used || !own) {
		return k.bytes < used
	}
	if used/2 < topics.MinRecordBytes {
		return false
	}
	s.known[topic] = size{bytes: used / 2, at: time.Now(), guessed: true}
	return true
}

// LearnBeside asks for the limit of a topic while the turn goes on.
func (s *Sizes) LearnBeside(topic string) {
	if !s.asking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.asking.Store(false)
		_ = s.Learn(context.Background(), sizesForRetry, topic)
	}()
}
