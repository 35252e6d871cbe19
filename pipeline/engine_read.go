package pipeline

import (
	"context"
	"errors"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Get reads a trigger as every command acknowledged so far left it.
func (e *Engine) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	p, err := e.partition(topics.Partition([]byte(key), e.opts.Partitions))
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, e.cl); err != nil {
		return nil, err
	}
	return p.get(key)
}

func (p *Partition) get(key trigger.Key) (*trigger.State, error) {
	sn, err := p.snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	value, err := sn.Get(key, nil)
	if err != nil || value == nil {
		return nil, err
	}
	return topics.DecodeState(key, value)
}

// Outcome says what became of a command that was first appended at
// (partition, offset) with topics.HeaderAsk; it waits until the command is decided.
// ok is false when the outcome is not remembered any more.
func (e *Engine) Outcome(ctx context.Context, key trigger.Key, partition int32, offset int64) (Decided, bool, error) {
	p, err := e.partition(topics.Partition([]byte(key), e.opts.Partitions))
	if err != nil {
		return Decided{}, false, err
	}
	if p.id == partition {
		if err := p.awaitOffset(ctx, offset+1); err != nil {
			return Decided{}, false, err
		}
	}
	d, ok := p.view.decided.get(origin{partition, offset})
	return d, ok, nil
}

// Scan calls f for the triggers of one owned partition in key order until f
// returns false. It sees every command acknowledged before the call.
func (e *Engine) Scan(ctx context.Context, partition int32, after trigger.Key, f func(*trigger.State) bool) error {
	return e.look(ctx, partition, func(sn *statestore.Snapshot) error {
		var bad error
		err := sn.Scan(after, func(key trigger.Key, value []byte) bool {
			s, err := topics.DecodeState(key, value)
			if bad = errors.Join(err, ctx.Err()); bad != nil {
				return false
			}
			return f(s)
		})
		return errors.Join(bad, err)
	})
}

// ScanUser is Scan for the triggers of one user, by their next due time.
func (e *Engine) ScanUser(ctx context.Context, partition int32, tenant, user string, after statestore.UserCursor, f func(statestore.UserCursor, *trigger.State) bool) error {
	return e.look(ctx, partition, func(sn *statestore.Snapshot) error {
		var bad error
		err := sn.ScanUser(tenant, user, after, func(at statestore.UserCursor, value []byte) bool {
			s, err := topics.DecodeState(at.Key, value)
			if bad = errors.Join(err, ctx.Err()); bad != nil {
				return false
			}
			return f(at, s)
		})
		return errors.Join(bad, err)
	})
}

// look opens a snapshot of an owned partition behind the read barrier.
func (e *Engine) look(ctx context.Context, partition int32, f func(*statestore.Snapshot) error) error {
	p, err := e.partition(partition)
	if err != nil {
		return err
	}
	if err := p.await(ctx, e.cl); err != nil {
		return err
	}
	sn, err := p.snapshot()
	if err != nil {
		return err
	}
	defer sn.Close()
	return f(sn)
}
