package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Get reads a trigger. The answer includes every command acknowledged before the call.
func (e *Engine) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	p, err := e.partition(topics.Partition([]byte(key), e.process.Partitions))
	if err != nil {
		return nil, err
	}
	if err := p.Await(ctx, e.barriers); err != nil {
		return nil, err
	}
	return p.Get(key)
}

// Peek is Get without the read barrier: it does not wait for commands that were acknowledged shortly before.
func (e *Engine) Peek(key trigger.Key) (*trigger.State, error) {
	p, err := e.partition(topics.Partition([]byte(key), e.process.Partitions))
	if err != nil {
		return nil, err
	}
	return p.Get(key)
}

// Decision returns the outcome of the command that was first appended at (partition,
// offset) with topics.HeaderAsk. It waits until the command is decided. ok is false if the
// outcome is not kept any more.
func (e *Engine) Decision(
	ctx context.Context, key trigger.Key, partition int32, offset int64,
) (d pipeline.Decided, ok bool, err error) {
	p, err := e.partition(topics.Partition([]byte(key), e.process.Partitions))
	if err != nil {
		return pipeline.Decided{}, false, err
	}
	d, ok, err = p.Decision(ctx, partition, offset)
	d.Behind = p.Behind(key.Tenant())
	return d, ok, err
}

// Scan calls f for the triggers of one owned partition, in key order, until f returns false. If
// fresh is set, it includes every command acknowledged before the call. Otherwise it does not wait
// for those that were acknowledged shortly before.
func (e *Engine) Scan(
	ctx context.Context, partition int32, fresh bool, after trigger.Key, f func(*trigger.State) bool,
) error {
	return e.snapshot(ctx, partition, fresh, func(sn *statestore.Snapshot) error {
		var bad error
		err := sn.Scan(after, func(key trigger.Key, value []byte) bool {
			s, err := topics.DecodeState(key, value)
			if bad = errors.Join(err, ctx.Err()); bad != nil {
				return false
			}
			return f(s)
		})
		return errors.Join(cmp.Or(bad, ctx.Err()), err) // f may have ended the scan because of ctx
	})
}

// ScanUser is Scan for the triggers of one user, in the order of their next due time.
func (e *Engine) ScanUser(
	ctx context.Context, partition int32, fresh bool, tenant, user string, after statestore.UserCursor,
	f func(statestore.UserCursor, *trigger.State) bool,
) error {
	return e.snapshot(ctx, partition, fresh, func(sn *statestore.Snapshot) error {
		var bad error
		err := sn.ScanUser(tenant, user, after, func(at statestore.UserCursor, value []byte) bool {
			s, err := topics.DecodeState(at.Key, value)
			if bad = errors.Join(err, ctx.Err()); bad != nil {
				return false
			}
			return f(at, s)
		})
		return errors.Join(cmp.Or(bad, ctx.Err()), err)
	})
}

// ScanTimers is Scan for each instant at which a trigger has timers, in the order in which they
// fire. state may be called during f.
func (e *Engine) ScanTimers(
	ctx context.Context, partition int32, fresh bool, after statestore.TimerCursor,
	f func(at statestore.TimerCursor, state func() (*trigger.State, error)) bool,
) error {
	return e.snapshot(ctx, partition, fresh, func(sn *statestore.Snapshot) error {
		err := sn.ScanTimers(after, func(at statestore.TimerCursor, encoded func() ([]byte, error)) bool {
			return ctx.Err() == nil && f(at, func() (*trigger.State, error) {
				value, err := encoded()
				if err != nil {
					return nil, err
				}
				return topics.DecodeState(at.Key, value)
			})
		})
		return errors.Join(ctx.Err(), err)
	})
}

// Lateness reports how late the due events of an owned partition were: of one tenant, or of
// all if it is empty.
func (e *Engine) Lateness(
	partition int32, now trigger.Instant, w lateness.Window, tenant string,
) (lateness.Report, error) {
	p, err := e.partition(partition)
	if err != nil {
		return lateness.Report{}, err
	}
	return p.Lateness(now, w, tenant)
}

// News answers who watches tenants on an owned partition.
func (e *Engine) News(partition int32, asked []live.Asked) ([]live.News, error) {
	p, err := e.partition(partition)
	if err != nil {
		return nil, err
	}
	return p.News(asked)
}

// Status describes one partition that this process owns, and that is open.
func (e *Engine) Status(partition int32) (pipeline.Status, error) {
	p, err := e.partition(partition)
	if err != nil {
		return pipeline.Status{}, err
	}
	s := p.Status()
	e.mu.Lock()
	defer e.mu.Unlock()
	setLag(&s, e.ends[partition])
	return s, nil
}

// snapshot opens a snapshot of an owned partition, behind the read barrier if it is fresh.
func (e *Engine) snapshot(ctx context.Context, partition int32, fresh bool, f func(*statestore.Snapshot) error) error {
	p, err := e.partition(partition)
	if err != nil {
		return err
	}
	if fresh {
		if err := p.Await(ctx, e.barriers); err != nil {
			return err
		}
	}
	sn, err := p.Snapshot()
	if err != nil {
		return err
	}
	defer sn.Close()
	return f(sn)
}
