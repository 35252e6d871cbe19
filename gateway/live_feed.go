package gateway

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
)

// liveFeed is what happens to the triggers of one tenant, for all its streams. liveFeeds holds its
// lock.
type liveFeed struct {
	tenant  string
	epoch   string // of its ids; another feed has another one
	made    time.Time
	readers map[*liveReader]bool
	unread  int // states since the last reader left

	seq     int64
	recent  []liveFact // the last ones, for readers that come back
	room    int        // facts that may be sent before the next state
	facts   int64      // since the last state
	omitted int64
	missed  bool
	last    time.Time // when it had a fact, or may have missed one

	parts   []livePart // by partition
	waiting int        // partitions that have not been asked yet
	begun   chan struct{}
}

// livePart is what a feed knows of one partition.
type livePart struct {
	asked bool
	at    live.Asked // how far it is
	late  lateness.Histogram
}

type liveFact struct {
	seq  int64
	at   time.Time
	text []byte
}

// liveMessage is a part of a stream.
type liveMessage struct {
	text  []byte
	state bool
}

// liveReader is one stream of a feed.
type liveReader struct {
	feed     *liveFeed
	all      bool // sees the state of all tenants
	messages chan liveMessage
	dropped  atomic.Bool
	drop     func()

	// One that sees all tenants has facts of two feeds. They share its room.
	room    int   // facts that it may be sent before the next state
	omitted int64 // facts for which a feed had room, and it had none
}

func (r *liveReader) isDropped() bool { return r.dropped.Load() }

// These bound what is kept for a reader that comes back, and for one that is slow: some seconds.
const (
	recentFacts  = 100
	slowMessages = 2 * recentFacts
	// factsPerState is how many facts a stream has between two states.
	factsPerState = 20
	// unreadStates is how long a feed goes on without a reader, in states: one may come back.
	unreadStates = 10
)

func newLiveFeed(tenant, epoch string, partitions int32) *liveFeed {
	f := &liveFeed{
		tenant: tenant, epoch: epoch, made: time.Now(), readers: map[*liveReader]bool{}, room: factsPerState,
		parts: make([]livePart, partitions), waiting: int(partitions), begun: make(chan struct{}),
	}
	for p := range f.parts {
		f.parts[p].at.Tenant = tenant
	}
	return f
}

// answered notes that a partition was asked, whether or not it has answered.
func (f *liveFeed) answered(p int32) {
	if f.parts[p].asked {
		return
	}
	f.parts[p].asked = true
	if f.waiting--; f.waiting == 0 {
		close(f.begun)
	}
}

// take adds what a partition has answered.
func (f *liveFeed) take(p int32, asked live.Asked, news *live.News) {
	part := &f.parts[p]
	switch {
	case news.Life == 0: // the owner keeps no more tenants
		f.miss()
		return
	case asked.Life == news.Life:
		n := news.Next - asked.Next
		if f.facts += n; n > 0 {
			f.last = time.Now()
		}
		f.omitted += n - int64(len(news.Facts))
		for _, fact := range news.Facts {
			f.add(fact)
		}
	case asked.Life != 0: // another owner, or it began anew
		f.miss()
	}
	part.at.Life, part.at.Next = news.Life, news.Next
}

func (f *liveFeed) miss() { f.missed, f.last = true, time.Now() }

// since says that it may have had facts after an instant.
func (f *liveFeed) since(at time.Time) bool { return f.made.After(at) || f.last.After(at) }

// add sends a fact, while there is room before the next state.
func (f *liveFeed) add(data []byte) {
	if f.room == 0 {
		f.omitted++
		return
	}
	f.room--
	f.seq++
	id := f.epoch + "-" + strconv.FormatInt(f.seq, 10)
	if f.tenant == live.Nameless { // it goes to streams of other feeds, which cannot go on behind it
		id = ""
	}
	text := serverSent(id, "fact", data)
	if len(f.recent) == recentFacts {
		f.recent = append(f.recent[:0], f.recent[recentFacts/2:]...)
	}
	f.recent = append(f.recent, liveFact{f.seq, time.Now(), text})
	for r := range f.readers {
		if r.room == 0 {
			r.omitted++
			continue
		}
		r.room--
		f.give(r, liveMessage{text: text})
	}
}

// giveState gives a reader a state, and room for facts behind it.
func (f *liveFeed) giveState(r *liveReader, text []byte) {
	r.room, r.omitted = factsPerState, 0
	f.give(r, liveMessage{text, true})
}

// give gives a reader a message. One that has too many unread loses its stream.
func (f *liveFeed) give(r *liveReader, m liveMessage) {
	select {
	case r.messages <- m:
	default:
		delete(f.readers, r)
		r.dropped.Store(true)
		r.drop()
	}
}

// after is the facts after the one with this id, and when that one was; zero if that is not known any more. False: they
// are not known, or not any more.
func (f *liveFeed) after(id string) (facts []liveFact, at time.Time, known bool) {
	epoch, number, _ := strings.Cut(id, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || epoch != f.epoch || seq > f.seq || f.seq-seq > int64(len(f.recent)) {
		return nil, at, false
	}
	i := int64(len(f.recent)) - (f.seq - seq)
	if i > 0 {
		at = f.recent[i-1].at
	}
	return f.recent[i:], at, true
}

// count notes in a state what a feed has had since the state before.
func (s *LiveState) count(f *liveFeed) { s.Facts, s.Omitted, s.Missed = f.facts, f.omitted, f.missed }

// begin begins to count anew, behind a state.
func (f *liveFeed) begin() { f.facts, f.omitted, f.missed, f.room = 0, 0, false, factsPerState }

// lateMS is how long what is due may wait before Late says so.
const lateMS = 5000

// state says how the partitions are, and what the feed has had since it said so last.
func (f *liveFeed) state(of *LiveState, states []peer.LiveState, all bool) []byte {
	s := *of
	var late lateness.Histogram
	var pending, lag, overdue int64
	for p := range states {
		if all {
			late.Add(&states[p].AllLate)
		} else {
			late.Add(&f.parts[p].late)
			s.Incomplete = s.Incomplete || states[p].LatePartly
		}
		pending, lag = pending+states[p].Pending, lag+states[p].CommandsLag
		overdue = max(overdue, states[p].OverdueMS)
	}
	s.LatenessOf, s.Late = latenessOf(&late), overdue > lateMS
	if all {
		seconds := float64(overdue) / 1000
		s.Pending, s.CommandsLag, s.Overdue = &pending, &lag, &seconds
	}
	data, _ := json.Marshal(s) // it always can be encoded
	return serverSent("", "state", data)
}
