// Package peer reads triggers wherever they are: from the engine of this process,
// or from the instance that owns the partition now. Doors of a process ask a Router
// and need not know where a partition is.
//
//	router.go     Router: asks this process, then the owner; tries anew while a partition moves
//	owners.go     who owns a partition, as its last progress record says
//	owner.go      Owner: what an engine answers, and what a partition says of itself
//	find.go       lists: the share of each partition, pages joined
//	forecast.go   what is expected to fire    use.go   who names a calendar or a channel
//	picture.go    what is expected to fire, from pictures that owners keep
//	lateness.go   how late due events were    live.go    what is new
//	reconcile.go  what does not agree in a partition
//	reading.go    what a read may cost, and when it computes
//	loans.go      several that read at once divide a budget; those that are cut short are charged
//	decisions.go  what was decided about commands, many in one question
//	client.go     asks another instance      handler.go  answers one
//	credentials.go  secrets, certificates    sign.go    signatures of requests and answers
//	replay.go     requests are answered once wire.go, frame.go  how questions and answers are spelled
//
// # Source of truth
//
// The owner, which passes its read barrier first. Topic state says who that is. What
// is kept of it here may be old: one who is not the owner says so, and is not asked
// for that partition any more.
//
// # Promises
//
//   - A read is at least as new as every write that was acknowledged before it, unless it asks
//     for a stale list. That one leaves out partitions that do not answer, and names them.
//   - A list by pages has every trigger that is there throughout, once, in order.
//   - An answer that broke off is an error and never a short list.
//   - Nobody without the shared secret reads anything, or is taken for an owner (sign.go). What is read
//     travels over TLS.
package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Router answers for any partition: from the owner in this process, else from
// the instance that owns it now.
type Router struct {
	partitions int32
	own        Owner // nil: this process has no engine
	self       string
	owners     *ownerTable // nil: there is no other instance
	peer       *client
}

// SearchTimeout is how long a partition that has moved is searched for. Its owner is
// read from topic state every searchEvery.
const (
	SearchTimeout = time.Second
	searchEvery   = 25 * time.Millisecond
)

// Config is what a Router needs to know.
type Config struct {
	Partitions int32
	Owner      Owner        // of this process; nil where it has no engine
	Address    string       // internal address of this process, so that it does not ask itself
	Trust      *Credentials // of all instances; nil: there is no other
	// LastOwner reads from topic state who owns a partition.
	LastOwner func(ctx context.Context, partition int32) (OwnerRecord, error)
}

// NewRouter makes a router. It connects to another instance when it asks it.
func NewRouter(c Config) *Router {
	r := &Router{partitions: c.Partitions, own: c.Owner, self: c.Address}
	if c.Trust != nil {
		r.owners = &ownerTable{lookup: c.LastOwner}
		r.peer = newClient(c.Trust, c.Partitions)
	}
	return r
}

// Get is Owner.Get for any trigger.
func (r *Router) Get(ctx context.Context, key trigger.Key) (s *trigger.State, err error) {
	err = r.ask(ctx, r.PartitionOf(key), SearchTimeout,
		func() error { s, err = r.own.Get(ctx, key); return err },
		func(addr string) error { s, err = r.peer.get(ctx, addr, key); return err })
	return s, err
}

// Peek is Get without the read barrier. An owner has SearchTimeout to answer.
func (r *Router) Peek(ctx context.Context, key trigger.Key) (s *trigger.State, err error) {
	ctx, cancel := context.WithTimeout(ctx, SearchTimeout)
	defer cancel()
	err = r.ask(ctx, r.PartitionOf(key), SearchTimeout,
		func() error { s, err = r.own.Stale().Get(ctx, key); return err },
		func(addr string) error { s, err = r.peer.peek(ctx, addr, key); return err })
	return s, err
}

// Decisions asks the owner of a partition what it decided about commands
// there, in one question for all of them. It searches for the owner as long as
// ctx lasts: the commands are durable, somebody will decide them. When ctx ends
// what is decided by then has its answer; the error says why others have none.
func (r *Router) Decisions(ctx context.Context, partition int32, list []Question) error {
	return r.ask(ctx, partition, time.Hour,
		func() error { return decisions(ctx, r.own, partition, list) },
		func(addr string) error { return r.peer.decisions(ctx, addr, partition, list) })
}

// Find lists the triggers of all partitions that q asks for. Each is first
// asked for its share of the page, which is nearly always enough: keys are
// spread by their hash. Where it was not, the partition is asked anew, for as
// much as the whole page.
func (r *Router) Find(ctx context.Context, q Query) (Page, error) {
	need := q.Limit + 1 // one more tells whether there is a next page
	if q.Cost == nil {
		q.Cost = &Budget{}
	}
	q.Bytes = q.Cost.share(int(r.partitions))
	pages := make([]Page, r.partitions)
	first := q
	first.Limit = shareOf(need, int(r.partitions))
	first.shareCost(int(r.partitions))
	err := r.find(ctx, &first, pages, func(int32) bool { return true })
	if silent := len(merge(pages, need).Silent); err == nil && silent == len(pages) {
		err = ErrNoOwner
	}
	if wants, n := wanting(pages, first.Limit, need); err == nil && n > 0 {
		q.Limit = need
		q.shareCost(n)
		err = r.find(ctx, &q, pages, wants)
	}
	return merge(pages, need-1), err
}

// find replaces the pages of those partitions that wants names, where the new one goes as far.
func (r *Router) find(ctx context.Context, q *Query, pages []Page, wants func(int32) bool) error {
	cut := cutShort{began: time.Now()}
	defer cut.charge(q.Cost)
	return r.each(ctx, func(ctx context.Context, p int32) error {
		if !wants(p) {
			return nil
		}
		within := ctx
		if q.Stale {
			var cancel context.CancelFunc
			within, cancel = context.WithTimeout(ctx, SearchTimeout)
			defer cancel()
		}
		var page Page
		err := r.ask(within, p, SearchTimeout,
			func() (err error) { page, err = find(within, r.own, p, q); return err },
			func(addr string) error {
				err := cut.asking(within, ctx, func(ctx context.Context) (err error) {
					page, err = r.peer.find(ctx, addr, p, q)
					return err
				})
				q.Cost.used(page.Visited, page.Spent)
				page.Items = slices.DeleteFunc(page.Items, func(f Found) bool { // of an instance of before
					return !strings.HasPrefix(f.State.Key.ID(), q.Prefix)
				})
				return err
			})
		switch {
		case err == nil:
			if old := &pages[p]; !old.More || !page.More || page.Through.Compare(old.Through) >= 0 {
				*old = page
			}
		case q.Stale && ctx.Err() == nil && !refused(err):
			pages[p].Silent = []int32{p} // what it had answered before stays
		default:
			return err
		}
		return nil
	})
}

// refused says that a read was answered: it may not be made, or costs too much now. An owner that
// is gone, hangs or is too old has not answered.
func refused(err error) bool {
	p, is := errors.AsType[*problem.Problem](err)
	return is && p.Code != problem.CodeUnavailable
}

// forecastAtOnce bounds the partitions that one forecast is computed for side by side: they divide what is left of
// the budget.
const forecastAtOnce = 4

// Forecast adds up what all partitions expect to fire. One that meets its budget is a problem, too_large, and ends
// the others. A partition may need more than its share while others need less: it is asked again, alone. Its first
// count is in vain, so a forecast may visit up to twice its budget.
func (r *Router) Forecast(ctx context.Context, q ForecastQuery, timetable func() *trigger.Timetable) (Forecast, error) {
	if q.Cost == nil {
		q.Cost = &Budget{}
	}
	f := forecasting{Router: r, q: q, times: timetable, all: make([]Forecast, r.partitions)}
	f.cut.began = time.Now()
	defer f.cut.charge(q.Cost)
	f.left.Store(r.partitions)
	short := make([]bool, r.partitions)
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(forecastAtOnce)
	for p := range r.partitions {
		g.Go(func() (err error) {
			short[p], err = f.one(within, p, int(min(forecastAtOnce, f.left.Load())))
			f.left.Add(-1)
			return err
		})
	}
	err := g.Wait()
	for p, first := range f.all {
		if short[p] {
			q.Cost.retries(first.Visited, first.Own, first.Spent)
		}
	}
	for p := 0; p < len(short) && err == nil; p++ {
		if !short[p] {
			continue
		}
		if short[p], err = f.one(ctx, int32(p), 1); err == nil && short[p] {
			err = f.tooMuch()
		}
	}
	return addForecasts(f.all), err
}

// forecasting is one Forecast under way.
type forecasting struct {
	*Router

	q     ForecastQuery
	times func() *trigger.Timetable
	all   []Forecast
	left  atomic.Int32 // partitions that are not counted yet
	cut   cutShort
}

// one counts a partition, while atOnce of them may be counted. short: its share of the budget was too little, and
// the partitions that were counted do not use the budget up.
func (f *forecasting) one(ctx context.Context, p int32, atOnce int) (short bool, err error) {
	cost := f.q.Cost
	err = f.ask(ctx, p, SearchTimeout,
		func() error { f.all[p], err = countUpcoming(ctx, f.own, p, &f.q, f.times); return err },
		func(addr string) error {
			l, ok := cost.lend(atOnce)
			if !ok {
				f.all[p] = Forecast{Over: true}
				return nil
			}
			defer cost.repay(l)
			asked := f.q
			asked.Cost = &Budget{Visits: l.visits, Time: l.time}
			err = f.cut.asking(ctx, ctx, func(ctx context.Context) (err error) {
				f.all[p], err = f.peer.forecast(ctx, addr, p, &asked)
				return err
			})
			cost.used(f.all[p].Visited, f.all[p].Spent)
			cost.found(f.all[p].Own)
			return err
		})
	switch {
	case err != nil:
		return false, err
	case cost.over():
		return false, f.tooMuch()
	}
	return f.all[p].Over, nil
}

func (f *forecasting) tooMuch() error {
	return f.q.Cost.tooMuch("ask for fewer buckets (n), or shorter ones (bucket)")
}

// Partitions is the status of every partition; those whose owner does not
// answer are there without Ready. Every instance that owns something is asked
// once, and says what it is standby for.
func (r *Router) Partitions(ctx context.Context) []PartitionStatus {
	all := make([]PartitionStatus, r.partitions)
	if r.own != nil {
		fold(all, r.own.Partitions())
	}
	if r.owners != nil {
		r.askOwners(ctx, all)
	}
	for p := range all {
		all[p].Partition = int32(p)
	}
	return all
}

// askOwners folds in what other instances say of themselves.
func (r *Router) askOwners(ctx context.Context, all []PartitionStatus) {
	ctx, cancel := context.WithTimeout(ctx, SearchTimeout)
	defer cancel()
	var mu sync.Mutex
	asked := map[string]bool{r.self: true}
	_ = r.each(ctx, func(ctx context.Context, p int32) error {
		mu.Lock()
		ready := all[p].Ready
		mu.Unlock()
		if ready {
			return nil
		}
		who, err := r.owners.find(ctx, p, true)
		if err != nil || who.Address == "" {
			return nil
		}
		mu.Lock()
		askedBefore := asked[who.Address]
		asked[who.Address] = true
		if all[p].Owner == "" {
			all[p].Owner, all[p].Term, all[p].CommandsOffset = who.Address, who.Term, who.NextCommand
		}
		mu.Unlock()
		if askedBefore {
			return nil
		}
		if list, err := r.peer.partitions(ctx, who.Address); err == nil {
			mu.Lock()
			fold(all, list)
			mu.Unlock()
		}
		return nil
	})
}

// fold adds what one instance says to what is known.
func fold(all, list []PartitionStatus) {
	for _, s := range list {
		if s.Partition < 0 || int(s.Partition) >= len(all) {
			continue
		}
		known := &all[s.Partition]
		s.Standbys = append(known.Standbys, s.Standbys...)
		if s.Owner == "" || known.Ready {
			known.Standbys = s.Standbys
			continue
		}
		*known = s
	}
}

// PartitionOf is the partition of a key.
func (r *Router) PartitionOf(key trigger.Key) int32 {
	return topics.Partition([]byte(key), r.partitions)
}

// eachAtOnce bounds the partitions asked side by side for one list.
const eachAtOnce = 32

func (r *Router) each(ctx context.Context, f func(context.Context, int32) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(eachAtOnce)
	for p := range r.partitions {
		g.Go(func() error { return f(ctx, p) })
	}
	return g.Wait()
}

// ask tries this process, then the owner that topic state names. While all say
// that they are not the owner it asks again, for at most timeout.
func (r *Router) ask(
	ctx context.Context, partition int32, timeout time.Duration, local func() error, remote func(addr string) error,
) error {
	deadline := time.Now().Add(timeout)
	fresh := false
	for {
		err := error(ErrNoOwner)
		if r.own != nil {
			err = local()
		}
		if !Moved(err) {
			return err
		}
		if r.owners != nil {
			if err = r.askRemote(ctx, partition, fresh, remote); !Moved(err) {
				return err
			}
		}
		fresh = true
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(searchEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Router) askRemote(ctx context.Context, partition int32, fresh bool, remote func(addr string) error) error {
	who, err := r.owners.find(ctx, partition, fresh)
	switch {
	case err != nil:
		return err
	case who.Address == "" || who.Address == r.self:
		return ErrNoOwner
	}
	err = remote(who.Address)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() { // it may be frozen, and another one have it
		r.owners.forget(partition, who.Address)
	}
	return err
}

// ErrNoOwner is the answer of an instance that does not own the partition.
var ErrNoOwner = &trigger.Error{Code: trigger.CodeNotOwner, Msg: "the partition has no owner at the moment; try again"}

// Moved says that the one asked does not own the partition, or is gone.
func Moved(err error) bool {
	if e, ok := errors.AsType[*trigger.Error](err); ok {
		return e.Code == trigger.CodeNotOwner
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
