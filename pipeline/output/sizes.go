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

// MaxBatchBytes is what we put into one batch, whatever a topic would take.
const MaxBatchBytes = 1 << 20

// Sizes knows max.message.bytes of topics. One for the process.
type Sizes struct {
	adm *kadm.Client

	mu    sync.Mutex
	known map[string]size

	asking atomic.Bool // beside a turn
}

type size struct {
	bytes int
	at    time.Time
	// guessed: the brokers do not say (DescribeConfigs is denied), and have
	// refused a record: about half of what was sent is tried next.
	guessed bool
}

// How long an answer serves who opens a partition, and who puts a trigger off.
const (
	SizesFor      = time.Minute
	sizesForRetry = time.Second
)

func newSizes(adm *kadm.Client) *Sizes {
	return &Sizes{adm: adm, known: map[string]size{}}
}

// Of is what a record of a topic may take at most (topics.RecordBytes). A topic
// nobody has heard of takes what Kafka's default allows.
func (s *Sizes) Of(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.known[topic]; ok {
		return k.bytes
	}
	return MaxBatchBytes
}

// Learn asks for topics that were not asked for within age. What is not
// answered stays as it is: nobody may stop for want of this.
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

// Refused notes that a record was too large for a topic, of which we thought
// that it takes used. It returns false if there is nothing to be learned: the
// topic says that it takes as much, or it takes next to nothing. One of our own
// topics must take what we write, whatever it says: brokers may compress it
// anew, and a proxy may have a bound of its own.
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

// LearnBeside asks what a topic takes, while the turn goes on.
func (s *Sizes) LearnBeside(topic string) {
	if !s.asking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.asking.Store(false)
		_ = s.Learn(context.Background(), sizesForRetry, topic)
	}()
}
