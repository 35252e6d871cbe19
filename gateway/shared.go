package gateway

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// shared is what Kafka has answered to a question that every open console repeats. One answer serves all who ask
// within its age, and at most one question is under way.
type shared[T any] struct {
	within time.Duration // for one question
	now    func() time.Time

	flight singleflight.Group
	mu     sync.Mutex
	known  *T
	at     time.Time // when known was asked for
	round  int       // grows with forget
}

// sharedAge and the answerAge of an answer make the five seconds that the documents promise.
const sharedAge = 5*time.Second - answerAge

// get is a recent answer, or else what read answers now. read may go on after ctx has ended, for others who wait.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (answer T, err error) {
	known, round := s.recent()
	if known != nil {
		return *known, nil
	}
	flight := s.flight.DoChan("", func() (any, error) {
		if known, _ := s.recent(); known != nil { // the question before has just ended
			return *known, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.within)
		defer cancel()
		at := s.now()
		answer, err := read(ctx)
		if err == nil {
			s.keep(answer, at, round)
		}
		return answer, err
	})
	select {
	case a := <-flight:
		if a.Err != nil {
			return answer, a.Err
		}
		return a.Val.(T), nil
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// recent is what is known, or nil if that is too old.
func (s *shared[T]) recent() (known *T, round int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.now().Sub(s.at); age < 0 || age >= sharedAge {
		return nil, s.round
	}
	return s.known, s.round
}

func (s *shared[T]) keep(answer T, at time.Time, round int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if round == s.round {
		s.known, s.at = &answer, at
	}
}

// forget makes whoever asks from now on ask anew: what is known, or under way, is no longer so.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = nil
	s.round++
	s.flight.Forget("")
}
