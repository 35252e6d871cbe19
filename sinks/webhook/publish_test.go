package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// published collects what a worker publishes: the newest state of each origin, nil if it is gone.
type published struct {
	err    error
	newest map[string]*Status
	rounds map[string][]int // in which rounds an origin was published
	round  int
}

func (p *published) Publish(_ context.Context, now, gone []Status) error {
	if p.err != nil {
		return p.err
	}
	for i := range now {
		p.newest[now[i].Origin] = &now[i]
		p.rounds[now[i].Origin] = append(p.rounds[now[i].Origin], p.round)
	}
	for i := range gone {
		p.newest[gone[i].Origin] = nil
	}
	return nil
}

func publishing(t *testing.T, change func(*Options)) (*Worker, *published) {
	t.Helper()
	p := &published{newest: map[string]*Status{}, rounds: map[string][]int{}}
	return newTestWorker(t, with(status(200)), func(o *Options) { o.Publish = p }, change), p
}

// An endpoint that was dropped and made once more is not published as gone.
func TestDroppedAndRemade(t *testing.T) {
	w, p := publishing(t, func(o *Options) { o.Concurrency, o.MaxEndpoints = 1, 1 })
	w.endpoints.get("acme", "https://a.example")
	w.publish(t.Context())
	w.endpoints.get("acme", "https://b.example")
	w.endpoints.get("acme", "https://a.example")
	w.publish(t.Context())
	if p.newest["https://a.example"] == nil {
		t.Error("a live endpoint is gone")
	}
}

// An endpoint whose end could not be published is published as gone later.
func TestGoneIsRetried(t *testing.T) {
	w, p := publishing(t, func(o *Options) { o.Concurrency, o.MaxEndpoints = 1, 1 })
	w.endpoints.get("acme", "https://a.example")
	w.publish(t.Context())
	w.endpoints.get("acme", "https://b.example")
	p.err = errors.New("no brokers")
	w.publish(t.Context())
	p.err = nil
	w.publish(t.Context())
	if s, ok := p.newest["https://a.example"]; s != nil || !ok || p.newest["https://b.example"] == nil {
		t.Errorf("%+v", p.newest)
	}
}

// More endpoints change than one round can publish. Each is still published in time, and a
// breaker that opens is published first.
func TestBusyEndpointsStarveNobody(t *testing.T) {
	now := time.Now()
	w, p := publishing(t, func(o *Options) { o.Now = func() time.Time { return now } })
	quiet := w.endpoints.get("acme", "https://quiet.example")
	var busy []*endpoint
	for i := range 6000 {
		busy = append(busy, w.endpoints.get("acme", fmt.Sprintf("https://%d.example", i)))
	}
	for p.round = range 120 {
		now = now.Add(time.Second)
		for _, e := range busy {
			e.ok++
		}
		if p.round == 50 {
			quiet.calls(t, 20, bad)
		}
		w.publish(t.Context())
	}
	rounds := p.rounds["https://quiet.example"]
	if len(rounds) == 0 || rounds[0] > 10 {
		t.Errorf("first published in round %v", rounds)
	}
	if !slices.Contains(rounds, 50) {
		t.Errorf("its breaker opened in round 50, and it was published in rounds %v", rounds)
	}
	if last := slices.Max(append(rounds, 0)); last < 120-70 {
		t.Errorf("last published in round %d", last)
	}
}
