package sinks

import (
	"context"
	"maps"
	"time"
)

// stops are the partitions P of a reader that the store refuses. Their reader holds a lock.
type stops[P comparable, W any] map[P]*stop[W]

// stop is one of them. What was fetched already waits here, in order; no more is fetched.
type stop[W any] struct {
	waiting []W
	wait    time.Duration // before the next try
	next    time.Time
}

// reportEvery is how often stopped partitions are logged.
const reportEvery = time.Minute

// pollAtLeast is the shortest time of a poll while a partition waits for a retry. A poll whose
// time is over already returns nothing, and the other partitions would starve.
const pollAtLeast = 5 * time.Millisecond

func (s stops[P, W]) add(p P, waiting []W, wait time.Duration) {
	s[p] = &stop[W]{waiting: waiting, wait: wait, next: time.Now().Add(wait)}
}

// backOff doubles the wait before the next try, up to a maximum.
func (s *stop[W]) backOff(most time.Duration) {
	s.wait = min(2*s.wait, most)
	s.next = time.Now().Add(s.wait)
}

// untilRetry bounds a poll by the next try of a stopped partition.
func (s stops[P, W]) untilRetry(ctx context.Context) (context.Context, context.CancelFunc) {
	var first time.Time
	for _, one := range s {
		if first.IsZero() || one.next.Before(first) {
			first = one.next
		}
	}
	if first.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(pollAtLeast, time.Until(first)))
}

// due returns those whose wait is over.
func (s stops[P, W]) due() stops[P, W] {
	due := maps.Clone(s)
	maps.DeleteFunc(due, func(_ P, one *stop[W]) bool { return one.next.After(time.Now()) })
	return due
}
