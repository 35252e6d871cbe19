//go:build failpoints || flaws

package pipeline

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/recovery"
)

// hooks build the engine wrong, in one way at most. Tests of
// this package with the tag flaws set one, and a binary with failpoints can.
type hooks struct{ flaw flaw }

type flaw uint8

const (
	applyBeforeCommit   flaw = iota + 1 // the store first, then Kafka
	noFence                             // a transactional id of its own for every owner
	skipRestore                         // the local disk is believed
	readUncommittedLogs                 // what was aborted counts
)

// flaws are the broken engines that every suite must catch, by name.
var flaws = map[string]flaw{
	"apply before commit": applyBeforeCommit,
	"no fence":            noFence,
	"skip restore":        skipRestore,
	"read uncommitted":    readUncommittedLogs,
}

// Spoil builds an engine wrong.
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

// restoreStore believes the local disk.
func (p *Partition) restoreStore(ctx context.Context, nonce []byte, ids recovery.TopicIDs) error {
	if p.opts.hooks.flaw != skipRestore {
		return p.restore(ctx, nonce, ids)
	}
	return p.opts.Recovery().NewReplica(p.id, p.store).WipeStale(ids, p.clock.latest(p.opts.Now()))
}
