package webhook

import (
	"context"
	"time"

	"github.com/waterclock/waterclock/topics"
)

// Publisher publishes the state of endpoints, for example to topic endpoints.
type Publisher interface {
	// Publish writes the states in now, and marks those in gone as gone. States whose write fails
	// are written again later.
	Publish(ctx context.Context, now []Status, gone []Status) error
}

// How often the state of an endpoint is published: breaker changes at once, counts now and then,
// and everything periodically, so that readers can detect a process that is gone.
const (
	publishEvery  = time.Second
	publishCounts = 5 * time.Second
	publishAlways = topics.EndpointEvery
	// publishMost bounds the states in one round.
	publishMost   = 1000
	publishWithin = 5 * time.Second
)

// publishLoop publishes until ctx ends, and then publishes all as gone.
func (w *Worker) publishLoop(ctx context.Context) {
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.publishEnd()
			return
		case <-tick.C:
			w.endpoints.sweep()
			w.publish(ctx)
		}
	}
}

func (w *Worker) publish(ctx context.Context) {
	if w.opts.Publish == nil {
		w.endpoints.takeGone()
		return
	}
	now := w.opts.Now()
	var changed []*endpoint
	var states []Status
	for _, e := range w.endpoints.all() {
		if s := e.status(now); e.newsworthy(s, now) && len(states) < publishMost {
			changed, states = append(changed, e), append(states, s)
		}
	}
	gone := w.endpoints.takeGone()
	if len(states)+len(gone) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	if err := w.opts.Publish.Publish(ctx, states, gone); err != nil {
		if ctx.Err() == nil {
			w.opts.Logger.Warn("the state of endpoints could not be published; will retry", "error", err)
		}
		return
	}
	for i, e := range changed {
		e.noted(states[i], now)
	}
}

// publishEnd publishes the end of this process.
func (w *Worker) publishEnd() {
	if w.opts.Publish == nil {
		return
	}
	gone := w.endpoints.takeGone()
	for _, e := range w.endpoints.all() {
		gone = append(gone, Status{Tenant: e.tenant, Origin: e.origin})
	}
	if len(gone) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishWithin)
	defer cancel()
	_ = w.opts.Publish.Publish(ctx, nil, gone) // on an error, readers detect the end themselves
}

// newsworthy reports whether a status must be published.
func (e *endpoint) newsworthy(s Status, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	since := now.Sub(e.at)
	was := e.published
	s.Until, was.Until = time.Time{}, time.Time{} // it is recomputed each time
	return e.at.IsZero() || since >= publishAlways || s.State != was.State || s != was && since >= publishCounts
}

// noted stores what was published.
func (e *endpoint) noted(s Status, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.published, e.at = s, now
}
