package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

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
	peer       *peerClient
}

// How long a moved partition is looked for, and how often.
const (
	lookFor   = time.Second
	lookEvery = 25 * time.Millisecond
)

// Get is Owner.Get for any trigger.
func (r *Router) Get(ctx context.Context, key trigger.Key) (s *trigger.State, err error) {
	err = r.ask(ctx, r.partitionOf(key), lookFor,
		func() error { s, err = r.own.Get(ctx, key); return err },
		func(addr string) error { s, err = r.peer.get(ctx, addr, key); return err })
	return s, err
}

// Outcomes asks the owner of a partition what it decided about commands
// there, in one question for all of them. It looks for the owner as long as
// ctx lasts: the commands are durable, somebody will decide them. When ctx ends
// what is decided by then has its answer; the error says why others have none.
func (r *Router) Outcomes(ctx context.Context, partition int32, asked []asked) error {
	return r.ask(ctx, partition, time.Hour,
		func() error { return outcomes(ctx, r.own, partition, asked) },
		func(addr string) error { return r.peer.outcomes(ctx, addr, partition, asked) })
}

// Find lists the triggers of all partitions that q asks for. Each is first
// asked for its share of the page, which is nearly always enough: keys are
// spread by their hash. Where it was not, the partition is asked anew, for as
// much as the whole page.
func (r *Router) Find(ctx context.Context, q Query) (Page, error) {
	need := q.Limit + 1 // one more tells whether there is a next page
	pages := make([]Page, r.partitions)
	q.Limit = shareOf(need, int(r.partitions))
	err := r.find(ctx, &q, pages, func(int32) bool { return true })
	if wants := wanting(pages, q.Limit, need); err == nil && wants != nil {
		q.Limit = need
		err = r.find(ctx, &q, pages, wants)
	}
	return merge(pages, need-1), err
}

// find replaces the pages of those partitions that wants names.
func (r *Router) find(ctx context.Context, q *Query, pages []Page, wants func(int32) bool) error {
	return r.each(ctx, func(ctx context.Context, p int32) (err error) {
		if !wants(p) {
			return nil
		}
		return r.ask(ctx, p, lookFor,
			func() error { pages[p], err = find(ctx, r.own, p, q); return err },
			func(addr string) error { pages[p], err = r.peer.find(ctx, addr, p, q); return err })
	})
}

// Forecast adds up what all partitions expect to fire.
func (r *Router) Forecast(ctx context.Context, q ForecastQuery, timetable func() *trigger.Timetable) (Forecast, error) {
	all := make([]Forecast, r.partitions)
	err := r.each(ctx, func(ctx context.Context, p int32) (err error) {
		return r.ask(ctx, p, lookFor,
			func() error { all[p], err = forecast(ctx, r.own, p, &q, timetable); return err },
			func(addr string) error { all[p], err = r.peer.forecast(ctx, addr, p, &q); return err })
	})
	return addForecasts(all), err
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
	ctx, cancel := context.WithTimeout(ctx, lookFor)
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
		if err != nil || who.addr == "" {
			return nil
		}
		mu.Lock()
		again := asked[who.addr]
		asked[who.addr] = true
		if all[p].Owner == "" {
			all[p].Owner, all[p].Term, all[p].CommandsOffset = who.addr, who.term, who.commands
		}
		mu.Unlock()
		if again {
			return nil
		}
		if list, err := r.peer.partitions(ctx, who.addr); err == nil {
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

func (r *Router) partitionOf(key trigger.Key) int32 {
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
// that they are not the owner it asks again, for at most patience.
func (r *Router) ask(ctx context.Context, partition int32, patience time.Duration, local func() error, remote func(addr string) error) error {
	deadline := time.Now().Add(patience)
	fresh := false
	for {
		err := error(errNoOwner)
		if r.own != nil {
			err = local()
		}
		if !moved(err) {
			return err
		}
		if r.owners != nil {
			if err = r.askRemote(ctx, partition, fresh, remote); !moved(err) {
				return err
			}
		}
		fresh = true
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(lookEvery):
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
	case who.addr == "" || who.addr == r.self:
		return errNoOwner
	}
	return remote(who.addr)
}

var errNoOwner = &trigger.Error{Code: trigger.CodeNotOwner, Msg: "the partition has no owner at this moment; try again"}

// moved says that the one asked does not own the partition, or is gone.
func moved(err error) bool {
	if e, ok := errors.AsType[*trigger.Error](err); ok {
		return e.Code == trigger.CodeNotOwner
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ownerTable remembers who owns which partition.
type ownerTable struct {
	lookUp func(ctx context.Context, partition int32) (owner, error)

	flight singleflight.Group // many callers miss the same owner at once
	mu     sync.Mutex
	known  map[int32]owner
}

// owner is what the last progress record of a partition says.
type owner struct {
	addr     string
	term     int64
	commands int64 // next command
}

// find is the owner of a partition, read again from topic state if fresh.
func (t *ownerTable) find(ctx context.Context, partition int32, fresh bool) (owner, error) {
	t.mu.Lock()
	who, ok := t.known[partition]
	t.mu.Unlock()
	if ok && !fresh {
		return who, nil
	}
	answer := t.flight.DoChan(strconv.Itoa(int(partition)), func() (any, error) {
		return t.read(partition)
	})
	select {
	case a := <-answer:
		if a.Err != nil {
			return owner{}, problem.Unavailable(a.Err, "the partition's owner cannot be found while Kafka does not answer")
		}
		return a.Val.(owner), nil
	case <-ctx.Done():
		return owner{}, ctx.Err()
	}
}

func (t *ownerTable) read(partition int32) (owner, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	who, err := t.lookUp(ctx, partition)
	if err != nil {
		return owner{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[int32]owner{}
	}
	t.known[partition] = who
	return who, nil
}
