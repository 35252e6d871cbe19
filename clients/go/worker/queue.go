package worker

import "context"

// item is one due event in memory, from the poll until its receipt is
// acknowledged.
type item struct {
	mark
	event    *DueEvent
	part     *partition
	group    *group
	bytes    int64
	nextSame *item // the next event with the same record key
	started  int64 // when its handler was called: our time, Unix ns; 0 if it was not
	cancel   context.CancelCauseFunc
}

// partition is one assigned partition of the due topic or its high lane. A
// later assignment of the same one makes a new partition.
type partition struct {
	topic string
	num   int32
	lane  int

	tracker tracker
	held    []*item          // polled before the memory was read
	tails   map[string]*item // the last event of each record key that is not handled yet
	running map[*item]struct{}
	loaded  bool // the memory is read
	gone    bool // revoked, or the worker ends: nothing new starts
	full    bool // too much of it is in memory; polling waits for room
	paused  bool // not fetched: it was full for too long

	records int   // polled and not done
	bytes   int64 // of these
	pending int   // receipts that are not acknowledged
	end     int64 // the end of its log that was asked for …
	asked   int64 // … at this time of ours, Unix ns; 0 if never
}

func newPartition(topic string, num int32, lane int) *partition {
	return &partition{
		topic: topic, num: num, lane: lane, tails: map[string]*item{}, running: map[*item]struct{}{},
		tracker: tracker{committed: -1, next: noOffset},
	}
}

// The lanes, first one first.
const (
	laneHigh = iota
	laneNormal
	lanes
)

// group is the events that share a bulkhead.
type group struct {
	name    string
	running int
	waiting int
	ready   [lanes]fifo[*item]
	queued  [lanes]bool // in queue.turns
}

// queue decides which event is handled next. It has no clock, no lock and no
// goroutine.
//
//	record key   of one tenant: one after the other, in the order of offsets
//	lane         high before normal
//	group        in turns; at most inFlight run at a time
type queue struct {
	groupOf  func(*DueEvent) string // nil: all are one group
	inFlight int                    // of one group; 0 is no bound
	maxWait  int                    // of one group beyond inFlight; the rest overflows. 0 is no bound

	groups   map[string]*group
	turns    [lanes]fifo[*group] // groups with ready events and room
	overflow []*item             // to be answered without the handler
	waiting  int                 // ready events in all
}

func newQueue() *queue { return &queue{groups: map[string]*group{}} }

// add takes an event in, behind those with its key.
func (q *queue) add(it *item) {
	key := it.orderKey()
	tail := it.part.tails[key]
	it.part.tails[key] = it
	if tail != nil {
		tail.nextSame = it
		return
	}
	q.makeReady(it)
}

// orderKey is the record key, of the event's tenant: a target_key may be any text,
// so else a tenant could make another's events wait for its own. A due event always
// has a record key; the trigger's is as good for one that somebody copied without.
func (it *item) orderKey() string {
	key := string(it.event.RecordKey)
	if key == "" {
		key = it.event.Key
	}
	return it.event.Tenant + "\x00" + key
}

func (q *queue) makeReady(it *item) {
	g := q.groupFor(it)
	g.waiting++
	q.waiting++
	g.ready[it.part.lane].push(it)
	q.giveTurn(g, it.part.lane)
	q.trim(g)
}

// groupFor puts an event into its group.
func (q *queue) groupFor(it *item) *group {
	name := q.nameOf(it.event)
	g := q.groups[name]
	if g == nil {
		g = &group{name: name}
		q.groups[name] = g
	}
	it.group = g
	return g
}

// shed takes out what waits for an event of the same key whose handler was called
// before a moment (Unix ns), and has not ended: many behind one that hangs would
// fill the buffer of their partition, and hold back all others on it.
func (q *queue) shed(p *partition, before int64) {
	for head := range p.running {
		if head.nextSame == nil || head.started == 0 || head.started >= before {
			continue
		}
		next := head.nextSame
		head.nextSame = nil
		p.tails[head.orderKey()] = head
		for next != nil {
			it := next
			next, it.nextSame = it.nextSame, nil
			q.groupFor(it).running++ // finish takes it back
			q.overflow = append(q.overflow, it)
		}
	}
}

// trim takes the newest events out of a group that has no room for them, those
// of the last lane first.
func (q *queue) trim(g *group) {
	if q.maxWait == 0 || g.running < q.inFlight {
		return
	}
	for lane := lanes - 1; lane >= 0; lane-- {
		for g.waiting > q.maxWait && g.ready[lane].len() > 0 {
			it := g.ready[lane].popLast()
			g.waiting--
			q.waiting--
			g.running++ // finish takes it back
			q.overflow = append(q.overflow, it)
		}
	}
}

// nameOf is the group of an event; of one over which the caller's code panics,
// the nameless one.
func (q *queue) nameOf(e *DueEvent) (name string) {
	if q.groupOf == nil {
		return ""
	}
	defer func() { _ = recover() }()
	return q.groupOf(e)
}

func (q *queue) giveTurn(g *group, lane int) {
	if !g.queued[lane] && g.ready[lane].len() > 0 && (q.inFlight == 0 || g.running < q.inFlight) {
		g.queued[lane] = true
		q.turns[lane].push(g)
	}
}

// next is the event to handle next; nil if there is none, or none may run.
func (q *queue) next() *item {
	for lane := range lanes {
		for q.turns[lane].len() > 0 {
			g := q.turns[lane].pop()
			g.queued[lane] = false
			if g.ready[lane].len() == 0 || q.inFlight > 0 && g.running >= q.inFlight {
				continue // what was ready is gone, or the other lane took the room
			}
			it := g.ready[lane].pop()
			g.waiting--
			q.waiting--
			g.running++
			q.giveTurn(g, lane)
			q.trim(g)
			return it
		}
	}
	return nil
}

// finish says that the handler of an event from next or overflow has ended, or
// was not called: the next one of its key may start.
func (q *queue) finish(it *item) {
	g, part := it.group, it.part
	g.running--
	for lane := range lanes {
		q.giveTurn(g, lane)
	}
	next := it.nextSame
	it.nextSame = nil
	switch {
	case part.gone:
	case next != nil:
		q.makeReady(next)
	case part.tails[it.orderKey()] == it:
		delete(part.tails, it.orderKey())
	}
	q.drop(g)
}

// drop forgets a group that has nothing.
func (q *queue) drop(g *group) {
	if g.running == 0 && g.waiting == 0 && q.groups[g.name] == g {
		delete(q.groups, g.name)
	}
}

// purge takes out what waits of partitions that are gone.
func (q *queue) purge() {
	for _, g := range q.groups {
		before := g.waiting
		g.waiting = 0
		for lane := range lanes {
			g.ready[lane].filter(func(it *item) bool { return !it.part.gone })
			g.waiting += g.ready[lane].len()
		}
		q.waiting -= before - g.waiting
		q.drop(g)
	}
}

// takeOverflow is what has to be answered without the handler.
func (q *queue) takeOverflow() []*item {
	items := q.overflow
	q.overflow = nil
	return items
}
