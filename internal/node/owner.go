package node

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// engineOwner lets the gateway ask the engine. Neither package imports the other.
type engineOwner struct {
	e       *engine.Engine
	address string // address of the internal listener
	limit   int64  // limits.max_pending; 0: none
	stale   bool   // reads do not take the read barrier

	reconcile func(ctx context.Context, partition int32, dry bool) (peer.Reconciled, error)
}

func (o engineOwner) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	if o.stale {
		s, err := o.e.Peek(key)
		return s, left(err)
	}
	s, err := o.e.Get(ctx, key)
	return s, left(err)
}

func (o engineOwner) Decision(ctx context.Context, key trigger.Key, partition int32, offset int64) (peer.Decision, bool,
	error,
) {
	d, ok, err := o.e.Decision(ctx, key, partition, offset)
	return peer.Decision(d), ok, left(err)
}

func (o engineOwner) Scan(ctx context.Context, partition int32, after trigger.Key, f func(*trigger.State) bool) error {
	return left(o.e.Scan(ctx, partition, !o.stale, after, f))
}

func (o engineOwner) ScanUser(ctx context.Context, partition int32, tenant, user string, after peer.UserCursor,
	f func(peer.UserCursor, *trigger.State) bool,
) error {
	return left(o.e.ScanUser(ctx, partition, !o.stale, tenant, user, statestore.UserCursor(after), visitor(f)))
}

func (o engineOwner) ScanTimers(ctx context.Context, partition int32, after peer.TimerCursor,
	f func(peer.TimerCursor, func() (*trigger.State, error)) bool,
) error {
	return left(o.e.ScanTimers(ctx, partition, !o.stale, statestore.TimerCursor(after),
		func(at statestore.TimerCursor, state func() (*trigger.State, error)) bool {
			return f(peer.TimerCursor(at), state)
		}))
}

// visitor adapts f, which takes the gateway's cursors, to the engine's cursors.
func visitor(f func(peer.UserCursor, *trigger.State) bool) func(statestore.UserCursor, *trigger.State) bool {
	return func(at statestore.UserCursor, s *trigger.State) bool { return f(peer.UserCursor(at), s) }
}

// Stale returns the owner without its read barrier.
func (o engineOwner) Stale() peer.Owner {
	o.stale = true
	return o
}

func (o engineOwner) Lateness(
	_ context.Context, partition int32, now trigger.Instant, w lateness.Window, tenant string,
) (lateness.Report, error) {
	r, err := o.e.Lateness(partition, now, w, tenant)
	return r, left(err)
}

func (o engineOwner) Live(_ context.Context, partition int32, q *peer.LiveQuery) (a peer.LiveAnswer, err error) {
	if a.News, err = o.e.News(partition, q.Asked); err != nil || !q.State {
		return a, left(err)
	}
	s, err := o.e.Status(partition)
	if err != nil {
		return a, left(err)
	}
	a.State = &peer.LiveState{
		Ready: s.Ready, Pending: s.Pending, CommandsLag: s.CommandsLag, OverdueMS: s.OldestOverdue.Milliseconds(),
	}
	minute := lateness.Windows[0]
	late := func(tenant string) lateness.Report {
		r, failed := o.e.Lateness(partition, q.Now, minute, tenant)
		if failed != nil {
			err = failed
		}
		return r
	}
	all := late("")
	a.State.AllLate, a.State.LatePartly = all.All(), all.Incomplete
	for _, asked := range q.Asked {
		own := late(asked.Tenant)
		a.State.Late = append(a.State.Late, own.All())
	}
	return a, left(err)
}

func (o engineOwner) Forecast(_ context.Context, partition int32, q forecast.Query) (forecast.Answer, error) {
	a, err := o.e.Forecast(partition, q)
	return a, left(err)
}

func (o engineOwner) Reconcile(ctx context.Context, partition int32, dry bool) (peer.Reconciled, error) {
	r, err := o.reconcile(ctx, partition, dry)
	return r, left(err)
}

// left converts the error of a read during which the partition moved. Another instance owns it,
// or soon will.
func left(err error) error {
	if errors.Is(err, statestore.ErrClosed) || errors.Is(err, kgo.ErrClientClosed) {
		return &trigger.Error{
			Code: trigger.CodeNotOwner,
			Msg:  "the partition is moving to another owner; try again", Err: err,
		}
	}
	return err
}

// Partitions lists what this process owns, and what it is standby for.
func (o engineOwner) Partitions() []peer.PartitionStatus {
	var out []peer.PartitionStatus
	for _, s := range o.e.Partitions() {
		out = append(out, peer.PartitionStatus{
			Partition: s.Partition, Owner: s.Owner, Term: s.Term, CommandsOffset: s.CommandsOffset,
			CommandsLag:   s.CommandsLag,
			ControlOffset: s.ControlOffset,
			Pending:       s.Pending, PendingLimit: o.limit,
			Done: s.Done, FiredThrough: s.FiredThrough, OldestOverdue: s.OldestOverdue,
			Ready:    s.Ready,
			Restored: s.Restored, RestoreTotal: s.RestoreTotal, Doing: s.Doing, Refused: s.RefusedBecause,
		})
	}
	for _, s := range o.e.Standbys() {
		out = append(out, peer.PartitionStatus{
			Partition: s.Partition,
			Standbys:  []peer.StandbyStatus{{Node: o.address, Lag: s.Lag, Warm: s.Warm}},
		})
	}
	return out
}
