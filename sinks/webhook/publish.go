package webhook

import (
	"cmp"
	"context"
	"slices"
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
	// publishMost bounds the states in one round: changes of breakers first, then what was published
	// longest ago.
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
	changed := w.news(now)
	states := make([]Status, len(changed))
	for i := range changed {
		states[i] = changed[i].status
	}
	gone := w.endpoints.takeGone()
	if len(states)+len(gone) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	if err := w.opts.Publish.Publish(ctx, states, gone); err != nil {
		w.endpoints.putBack(gone)
		if ctx.Err() == nil {
			w.opts.Logger.Warn("the state of endpoints could not be published; will retry", "error", err)
		}
		return
	}
	for i := range changed {
		changed[i].endpoint.noted(states[i], now)
	}
}

// news is a status that must be published.
type news struct {
	endpoint *endpoint
	status   Status
	urgent   bool      // the breaker changed its state
	at       time.Time // when the endpoint was last published
}

// news returns what must be published now, at most publishMost.
func (w *Worker) news(now time.Time) (all []news) {
	for _, e := range w.endpoints.all() {
		if n, ok := e.newsworthy(now); ok {
			all = append(all, n)
		}
	}
	if len(all) <= publishMost {
		return all
	}
	slices.SortStableFunc(all, func(a, b news) int {
		switch {
		case a.urgent == b.urgent:
			return a.at.Compare(b.at)
		case a.urgent:
			return -1
		}
		return 1
	})
	return all[:publishMost]
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

// newsworthy returns the status of the endpoint. ok reports whether it must be published.
func (e *endpoint) newsworthy(now time.Time) (n news, ok bool) {
	n = news{endpoint: e, status: e.status(now)}
	e.mu.Lock()
	defer e.mu.Unlock()
	n.at = e.at
	is, was := n.status, e.published
	was.State = cmp.Or(was.State, Closed) // it was not published yet
	n.urgent = is.State != was.State
	is.Until, was.Until = time.Time{}, time.Time{} // it is recomputed each time
	since := now.Sub(e.at)
	return n, e.at.IsZero() || since >= publishAlways || n.urgent || is != was && since >= publishCounts
}

// noted stores what was published.
func (e *endpoint) noted(s Status, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.published, e.at = s, now
}
