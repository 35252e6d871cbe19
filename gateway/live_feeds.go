package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/trigger"
)

// liveFeeds asks the owners of all partitions what happens to the tenants that somebody watches,
// and gives it to their streams. However many streams there are, each partition is asked four times
// a second, and not at all while nobody watches.
type liveFeeds struct {
	router     *peer.Router
	partitions int32
	now        func() time.Time
	onStop     func(func()) (undo func() bool)

	mu     sync.Mutex
	feeds  map[string]*liveFeed // by tenant; live.Nameless is for all who see all tenants
	silent []bool               // by partition
	states []peer.LiveState     // the same
	stop   func()               // nil: nobody is asked
	kick   chan struct{}        // closed when a new feed is to be asked for at once
}

// These are how often owners are asked for facts, and for their state.
const (
	liveEvery  = 250 * time.Millisecond
	stateEvery = time.Second
)

func newLiveFeeds(o *Options, c *common) *liveFeeds {
	return &liveFeeds{
		router: c.router, partitions: o.Partitions, now: o.Now, onStop: c.onStop, feeds: map[string]*liveFeed{},
		silent: make([]bool, o.Partitions), states: make([]peer.LiveState, o.Partitions), kick: make(chan struct{}),
	}
}

// subscribe makes a reader of a tenant's feed. It waits until the facts of every partition that
// answers are followed: what happens from then on is in the stream.
func (s *liveFeeds) subscribe(ctx context.Context, tenant string, all bool, after string, drop func()) (
	*liveReader, error,
) {
	for {
		feeds := []*liveFeed{s.feed(tenant)}
		if all {
			feeds = append(feeds, s.feed(live.Nameless))
		}
		for _, f := range feeds {
			select {
			case <-f.begun:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		r := &liveReader{feed: feeds[0], all: all, messages: make(chan liveMessage, slowMessages), drop: drop}
		if s.join(r, after) {
			return r, nil
		}
	}
}

// feed finds or makes the feed of a tenant.
func (s *liveFeeds) feed(tenant string) *liveFeed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[tenant]
	if f == nil {
		f = newLiveFeed(tenant, fmt.Sprintf("%016x", rand.Uint64()), s.partitions)
		s.feeds[tenant] = f
		s.start()
		close(s.kick)
		s.kick = make(chan struct{})
	}
	f.unread = 0
	return f
}

// join gives a reader the state, what it has missed, and from then on all facts. False: its feed
// has ended.
func (s *liveFeeds) join(r *liveReader, after string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := r.feed
	nameless := s.feeds[live.Nameless]
	if s.feeds[f.tenant] != f || r.all && nameless == nil {
		return false
	}
	if r.all {
		nameless.readers[r] = true
	}
	of := s.state()
	facts, at, known := f.after(after)
	of.Missed = after != "" && (!known || r.all && nameless.since(at)) // facts of that feed have no id
	f.readers[r] = true
	f.giveState(r, f.state(&of, s.states, r.all))
	for _, fact := range facts {
		f.give(r, liveMessage{text: fact.text})
	}
	return true
}

func (s *liveFeeds) unsubscribe(r *liveReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(r.feed.readers, r)
	if nameless := s.feeds[live.Nameless]; nameless != nil {
		delete(nameless.readers, r)
	}
}

// start asks the owners from now on.
func (s *liveFeeds) start() {
	if s.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	undo := s.onStop(cancel)
	s.stop = func() { undo(); cancel() }
	for p := range s.partitions {
		go s.follow(ctx, p)
	}
	go s.tick(ctx)
}

// follow asks the owner of one partition, until nobody watches. One that does not answer delays no
// other.
func (s *liveFeeds) follow(ctx context.Context, p int32) {
	var stated time.Time
	for ctx.Err() == nil {
		s.mu.Lock()
		kick := s.kick
		asks, unasked := s.asks(p)
		s.mu.Unlock()
		state := unasked || time.Since(stated) >= stateEvery
		for part := range slices.Chunk(asks, peer.MostAsked) {
			q := peer.LiveQuery{Now: trigger.At(s.now()), State: state}
			for _, one := range part {
				q.Asked = append(q.Asked, one.at)
			}
			a, err := s.router.Live(ctx, p, &q)
			s.take(ctx, p, part, &a, err)
		}
		if state {
			stated = time.Now()
		}
		select {
		case <-time.After(liveEvery):
		case <-kick:
		case <-ctx.Done():
		}
	}
}

// liveAsk is what is asked for a feed. Another one may have its name when the answer comes.
type liveAsk struct {
	feed *liveFeed
	at   live.Asked
}

// asks is how far all feeds are in a partition, and whether one begins there.
func (s *liveFeeds) asks(p int32) (all []liveAsk, begins bool) {
	for _, f := range s.feeds {
		all = append(all, liveAsk{f, f.parts[p].at})
		begins = begins || !f.parts[p].asked
	}
	return all, begins
}

// take adds what a partition has answered to the feeds that asked. Once nobody is asked under ctx any more,
// an answer says nothing.
func (s *liveFeeds) take(ctx context.Context, p int32, asks []liveAsk, a *peer.LiveAnswer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if s.silent[p] = err != nil; err != nil {
		s.states[p] = peer.LiveState{}
	} else if a.State != nil {
		s.states[p] = *a.State
	}
	for i, ask := range asks {
		f := ask.feed
		if s.feeds[f.tenant] != f {
			continue
		}
		switch {
		case err != nil:
			f.parts[p].late = lateness.Histogram{}
		default:
			f.take(p, ask.at, &a.News[i])
			if a.State != nil && i < len(a.State.Late) {
				f.parts[p].late = a.State.Late[i]
			}
		}
		f.answered(p)
	}
}

// tick gives all streams the state each second. It ends when nobody has watched for some time.
func (s *liveFeeds) tick(ctx context.Context) {
	every := time.NewTicker(stateEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		if s.round() {
			return
		}
	}
}

// round gives all streams the state. It reports whether there are no feeds any more.
func (s *liveFeeds) round() (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var nameless LiveState // what those who see all tenants have beside their own
	if f := s.feeds[live.Nameless]; f != nil {
		nameless.count(f)
		f.begin()
	}
	for tenant, f := range s.feeds {
		if f.unread++; len(f.readers) > 0 {
			f.unread = 0
		}
		if f.unread > unreadStates {
			delete(s.feeds, tenant)
			continue
		}
		if tenant == live.Nameless { // its readers have the state of their tenant
			continue
		}
		of := s.state()
		of.count(f)
		f.begin()
		all := of
		all.Facts, all.Missed = of.Facts+nameless.Facts, of.Missed || nameless.Missed
		var text []byte             // for tenants
		texts := map[int64][]byte{} // for those who see all, by how many were left out
		for r := range f.readers {
			if !r.all {
				if text == nil {
					text = f.state(&of, s.states, false)
				}
				f.giveState(r, text)
				continue
			}
			all.Omitted = of.Omitted + nameless.Omitted + r.omitted
			if texts[all.Omitted] == nil {
				texts[all.Omitted] = f.state(&all, s.states, true)
			}
			f.giveState(r, texts[all.Omitted])
		}
	}
	if len(s.feeds) > 0 {
		return false
	}
	s.stop()
	s.stop = nil
	return true
}

// state is how the partitions are.
func (s *liveFeeds) state() LiveState {
	of := LiveState{At: trigger.At(s.now()).String(), Partitions: int(s.partitions), Silent: []int32{}}
	for p := range s.states {
		if s.states[p].Ready {
			of.Ready++
		}
		if s.silent[p] {
			of.Silent = append(of.Silent, int32(p)) //nolint:gosec // a number of a partition
		}
	}
	return of
}
