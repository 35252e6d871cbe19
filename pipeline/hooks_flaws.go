//go:build failpoints || flaws

package pipeline

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// hooks break the engine in one way at most. Tests with the tag flaws set one, and so can a
// binary with failpoints.
type hooks struct{ flaw flaw }

type flaw uint8

const (
	applyBeforeCommit   flaw = iota + 1 // the store is written before Kafka commits
	noFence                             // every owner has a transactional id of its own
	skipRestore                         // the local disk is trusted
	readUncommittedLogs                 // aborted records count
)

// flaws names the broken engines that every suite must catch.
var flaws = map[string]flaw{
	"apply before commit": applyBeforeCommit,
	"no fence":            noFence,
	"skip restore":        skipRestore,
	"read uncommitted":    readUncommittedLogs,
}

// Spoil breaks the engine in the named way.
func (o *Options) Spoil(name string) error {
	f, ok := flaws[name]
	if !ok {
		return fmt.Errorf("no flaw is called %q", name)
	}
	o.hooks.flaw = f
	return nil
}

func (h hooks) transactionalID(id string) string {
	if h.flaw == noFence {
		id += "-" + rand.Text()
	}
	return id
}

func (h hooks) isolation() kafkapart.Isolation {
	if h.flaw == readUncommittedLogs {
		return kafkapart.ReadUncommitted
	}
	return kafkapart.ReadCommitted
}

// beforeEnd stores the turn before Kafka has it.
func (p *Partition) beforeEnd(t *turn, last *kgo.Record) error {
	if p.opts.hooks.flaw != applyBeforeCommit {
		return nil
	}
	return p.storeTurn(t, last)
}

// restoreStore trusts the local disk.
func (o *opening) restoreStore(ctx context.Context, nonce []byte) error {
	if o.opts.hooks.flaw != skipRestore {
		return o.restore(ctx, nonce)
	}
	return o.opts.Recovery().NewReplica(o.id, o.store).WipeStale(o.ids, o.clock.latest(o.opts.Now()))
}
