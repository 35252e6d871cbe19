package attack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// victim registers a trigger each interval, due a moment later, and notes how long
// each PUT took and how late each fired.
type victim struct {
	*tenant
	mu     sync.Mutex
	begun  map[int]time.Time // PUTs that have no answer yet
	puts   []time.Duration
	late   []time.Duration
	failed []string
	peak   int64

	undecided int
}

const (
	interval = 50 * time.Millisecond
	ahead    = 400 * time.Millisecond
)

// figures are what a phase measured.
type figures struct {
	puts, late time.Duration // p99
	n, fired   int
	peak       int64 // bytes
	failed     []string
	answered   int // PUTs that were taken, at once or later
	undecided  int // PUTs that were answered before the engine had decided: late, and not refused
}

func (f figures) String() string {
	return fmt.Sprintf("PUT p99 %s, lateness p99 %s (%d, %d), %d MB", f.puts.Round(time.Millisecond),
		f.late.Round(time.Millisecond), f.n, f.fired, f.peak>>20)
}

// watch begins the victim's life, until the test ends.
func watch(t *testing.T, n *node) *victim {
	t.Helper()
	v := &victim{tenant: n.as("victim", victimKey), begun: map[int]time.Time{}}
	v.must(t, 201, "PUT", "/v1/triggers/first", `{"delay":"0s"}`)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { v.register(ctx, &all) })
	all.Go(func() { v.consume(ctx, t) })
	all.Go(func() {
		for ctx.Err() == nil {
			rss := n.rss(t)
			v.mu.Lock()
			v.peak = max(v.peak, rss)
			v.mu.Unlock()
			pause(ctx, 50*time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	return v
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// register sends at a steady rate whatever the server does: a PUT that waits holds
// no other back.
func (v *victim) register(ctx context.Context, all *sync.WaitGroup) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		all.Go(func() {
			begun := time.Now()
			v.mu.Lock()
			v.begun[i] = begun
			v.mu.Unlock()
			a := v.try(ctx, "PUT", fmt.Sprintf("/v1/triggers/v%d", i%1000), fmt.Sprintf(`{"fire_at":%q,"payload":%d}`,
				begun.Add(ahead).UTC().Format(time.RFC3339Nano), i))
			if ctx.Err() != nil {
				return
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.begun, i)
			v.puts = append(v.puts, time.Since(begun))
			switch a.status {
			case http.StatusOK, http.StatusCreated:
			case http.StatusAccepted:
				v.undecided++
			default:
				v.failed = append(v.failed, a.String())
			}
		})
	}
}

// consume reads the victim's due events. Lateness is the broker's time of the due
// event less the time that was asked for: it needs no clock of ours.
func (v *victim) consume(ctx context.Context, t *testing.T) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.n.kafka), kgo.ConsumeTopics("waterclock.due.default"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			at, victims := dueOf(r)
			if !victims {
				return
			}
			v.mu.Lock()
			v.late = append(v.late, r.Timestamp.Sub(at))
			v.mu.Unlock()
		})
	}
}

func dueOf(r *kgo.Record) (at time.Time, victims bool) {
	for _, h := range r.Headers {
		switch h.Key {
		case "ce_subject":
			victims = len(h.Value) > 8 && string(h.Value[:8]) == "victim/v"
		case "ce_time":
			at, _ = time.Parse(time.RFC3339, string(h.Value))
		}
	}
	return at, victims
}

// phase measures for a time.
func (v *victim) phase(ctx context.Context, d time.Duration) figures {
	v.mu.Lock()
	v.puts, v.late, v.failed, v.peak, v.undecided = nil, nil, nil, 0, 0
	v.mu.Unlock()
	pause(ctx, d)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, begun := range v.begun { // at least so long
		v.puts = append(v.puts, time.Since(begun))
	}
	return figures{
		puts: p99(v.puts), late: p99(v.late), n: len(v.puts), fired: len(v.late), peak: v.peak, failed: v.failed,
		answered: len(v.puts) - len(v.begun) - len(v.failed), undecided: v.undecided,
	}
}

// p99 is the 99th percentile of at least a hundred; of fewer the largest but one,
// so that one hiccup of the machine decides nothing.
func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[max(0, len(all)-1-max(1, len(all)/100))]
}
