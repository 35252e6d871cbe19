package worker

import (
	"cmp"
	"context"
	"slices"
)

// item is one due event in memory, from the poll until its receipt is acknowledged.
type item struct {
	mark
	event    *DueEvent
	part     *partition
	group    *group
	bytes    int64
	nextSame *item // the next event with the same record key
	polled   int64 // when it came: our time, Unix ns
	slow     bool  // taken out by thin: the answer is Bulkhead.Slow
	started  int64 // when its handler was called: our time, Unix ns; 0 if it was not called yet
	cancel   context.CancelCauseFunc
}

// partition is one assigned partition of the due topic or its high lane. If the same partition is
// assigned again later, that creates a new value.
type partition struct {
	topic string
	num   int32
	lane  int

	tracker tracker
	held    []*item          // polled before the memory was loaded
	tails   map[string]*item // the last unhandled event of each record key
	running map[*item]struct{}
	loaded  bool // the memory is loaded
	gone    bool // revoked, or the worker is ending: nothing new starts
	full    bool // too many events in memory; polling waits for room
	paused  bool // not fetched, because it was full for too long

	records int   // polled but not done
	bytes   int64 // bytes of these
	pending int   // receipts that are not acknowledged yet
	end     int64 // the end of its log at the last request …
	asked   int64 // … and our time of that request, Unix ns; 0 if never
}

func newPartition(topic string, num int32, lane int) *partition {
	return &partition{
		topic: topic, num: num, lane: lane, tails: map[string]*item{}, running: map[*item]struct{}{},
		tracker: tracker{committed: -1, next: noOffset},
	}
}

// The lanes, in order of precedence.
const (
	laneHigh = iota
	laneNormal
	lanes
)

// tenant takes turns with others. Without that, one with a thousand groups would get a thousand times
// the handlers of one with a single group.
type tenant struct {
	name   string
	groups int
	turns  [lanes]fifo[*group] // groups that have ready events and room
	queued [lanes]bool         // whether it is in queue.turns
}

// group is the events that share a bulkhead.
type group struct {
	name    string
	tenant  *tenant // of its first event
	running int
	waiting int
	ready   [lanes]fifo[*item]
	queued  [lanes]bool // whether it is in tenant.turns
}

// queue decides which event is handled next. It has no clock, no lock and no goroutine.
//
//	record key   of one tenant: one after the other, in the order of offsets
//	lane         high before normal
//	tenant       tenants take turns
//	group        of a tenant: groups take turns; at most inFlight run at a time
type queue struct {
	groupOf  func(*DueEvent) string // nil: all events are one group
	inFlight int                    // bound per group; 0 means no bound
	maxWait  int                    // bound of the waiting events per group; the rest overflows. 0 means no bound

	groups   map[string]*group
	tenants  map[string]*tenant
	turns    [lanes]fifo[*tenant] // tenants that have groups with a turn
	overflow []*item              // to be answered without calling the handler
	waiting  int                  // total number of ready events
}

func newQueue() *queue {
	return &queue{groups: map[string]*group{}, tenants: map[string]*tenant{}}
}

// add adds an event, behind those with the same key.
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

// orderKey returns the record key together with the event's tenant. A target_key may be any text,
// so without the tenant one tenant could make another's events wait. Every due event has a record
// key. If somebody copied one without it, the trigger key serves as well.
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

// groupFor adds an event to its group.
func (q *queue) groupFor(it *item) *group {
	name := q.nameOf(it.event)
	g := q.groups[name]
	if g == nil {
		g = &group{name: name, tenant: q.tenantOf(it.event.Tenant)}
		g.tenant.groups++
		q.groups[name] = g
	}
	it.group = g
	return g
}

func (q *queue) tenantOf(name string) *tenant {
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		q.tenants[name] = t
	}
	return t
}

// shed takes out the events that wait behind an event of the same key whose handler started
// before a time (Unix ns) and still runs. Many events behind a handler that hangs would fill the
// buffer of their partition, and block all others on it.
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
			q.groupFor(it).running++ // finish decrements it
			q.overflow = append(q.overflow, it)
		}
	}
}

// trim takes the newest events out of a group that has no room for them, starting with the last
// lane.
func (q *queue) trim(g *group) {
	if q.maxWait == 0 || g.running < q.inFlight {
		return
	}
	for lane := lanes - 1; lane >= 0; lane-- {
		for g.waiting > q.maxWait && g.ready[lane].len() > 0 {
			it := g.ready[lane].popLast()
			g.waiting--
			q.waiting--
			g.running++ // finish decrements it
			q.overflow = append(q.overflow, it)
		}
	}
}

// thin makes room in a partition. It takes out most of the events that wait, also of those behind others
// of their key: the newest ones of the tenants that have the most, if the oldest event of such a tenant
// came before a time (Unix ns). Behind a tenant whose handlers are slow there may be another tenant's
// events, which can only be read if there is room. A tenant that has many events, but none that waits for
// long, makes room by itself.
func (q *queue) thin(p *partition, before int64) {
	heads := q.headsOf(p)
	waiting, total := waitingOf(heads)
	level := levelOf(waiting, total/thinTo)
	some := false
	for _, items := range waiting {
		if len(items) <= level || !anyBefore(items, before) {
			continue
		}
		slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.offset, b.offset) })
		for _, it := range items[level:] {
			q.takeSlow(it)
			some = true
		}
	}
	if !some {
		return
	}
	for _, g := range q.groups {
		g.ready[p.lane].filter(func(it *item) bool { return !it.slow })
	}
	for _, head := range heads {
		cutChain(head)
	}
}

// takeSlow lets an event that waits be answered as one of a slow tenant.
func (q *queue) takeSlow(it *item) {
	it.slow = true
	if it.group != nil { // it was ready
		it.group.waiting--
		q.waiting--
	} else {
		q.groupFor(it)
	}
	it.group.running++ // finish decrements it
	q.overflow = append(q.overflow, it)
}

// cutChain unlinks the events behind another one of their key that are taken out. Those are the newest
// ones of their tenant, so if one is taken out, all behind it are.
func cutChain(head *item) {
	last := head
	for last.nextSame != nil && !last.nextSame.slow {
		last = last.nextSame
	}
	if last.nextSame == nil {
		return
	}
	for it := last; it != nil; {
		it, it.nextSame = it.nextSame, nil
	}
	last.part.tails[last.orderKey()] = last
}

// anyBefore reports whether one of some events came before a time (Unix ns).
func anyBefore(items []*item, before int64) bool {
	return slices.ContainsFunc(items, func(it *item) bool { return it.polled < before })
}

// thinTo is the part of the events that wait, 1 in so many, that thin leaves.
const thinTo = 4

// headsOf returns the events of a partition that are ready or running. Others of their keys may wait
// behind them.
func (q *queue) headsOf(p *partition) (heads []*item) {
	for _, g := range q.groups {
		for _, it := range g.ready[p.lane].all() {
			if it.part == p {
				heads = append(heads, it)
			}
		}
	}
	for it := range p.running {
		heads = append(heads, it)
	}
	return heads
}

// waitingOf returns the events that are ready, or behind others of their key, by tenant.
func waitingOf(heads []*item) (waiting map[string][]*item, total int) {
	waiting = map[string][]*item{}
	for _, it := range heads {
		if _, runs := it.part.running[it]; runs {
			it = it.nextSame
		}
		for ; it != nil; it = it.nextSame {
			waiting[it.event.Tenant] = append(waiting[it.event.Tenant], it)
			total++
		}
	}
	return waiting, total
}

// levelOf returns how many events each tenant may keep, so that all of them keep at most so many. It is at
// least 1, also if there are more tenants than that: no tenant waits for ever.
func levelOf(waiting map[string][]*item, keep int) (level int) {
	counts := make([]int, 0, len(waiting))
	for _, items := range waiting {
		counts = append(counts, len(items))
	}
	slices.Sort(counts)
	for i, n := range counts {
		if level = keep / (len(counts) - i); n >= level {
			break
		}
		keep -= n
	}
	return max(level, 1)
}

// nameOf returns the group of an event. If the caller's function panics, it is the group "".
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
		g.tenant.turns[lane].push(g)
		q.line(g.tenant, lane)
	}
}

// line lets a tenant wait for its turn if it has a group for it.
func (q *queue) line(t *tenant, lane int) {
	if !t.queued[lane] && t.turns[lane].len() > 0 {
		t.queued[lane] = true
		q.turns[lane].push(t)
	}
}

// next returns the event to handle next, or nil if there is none that may run.
func (q *queue) next() *item {
	for lane := range lanes {
		for q.turns[lane].len() > 0 {
			t := q.turns[lane].pop()
			t.queued[lane] = false
			it := q.nextOf(t, lane)
			q.line(t, lane)
			if it != nil {
				return it
			}
		}
	}
	return nil
}

// nextOf returns the event of a tenant to handle next, or nil.
func (q *queue) nextOf(t *tenant, lane int) *item {
	for t.turns[lane].len() > 0 {
		g := t.turns[lane].pop()
		g.queued[lane] = false
		if g.ready[lane].len() == 0 || q.inFlight > 0 && g.running >= q.inFlight {
			continue // its ready events are gone, or the other lane took the room
		}
		it := g.ready[lane].pop()
		g.waiting--
		q.waiting--
		g.running++
		q.giveTurn(g, lane)
		q.trim(g)
		return it
	}
	return nil
}

// finish is called when the handler of an event from next or overflow has ended, or was not
// called. The next event of its key may then start.
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

// drop deletes a group that is empty, and its tenant with the last one.
func (q *queue) drop(g *group) {
	if g.running != 0 || g.waiting != 0 || q.groups[g.name] != g {
		return
	}
	delete(q.groups, g.name)
	if g.tenant.groups--; g.tenant.groups == 0 {
		delete(q.tenants, g.tenant.name)
	}
}

// purge removes the waiting events of revoked partitions.
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

// takeOverflow returns the events to answer without calling the handler.
func (q *queue) takeOverflow() []*item {
	items := q.overflow
	q.overflow = nil
	return items
}
