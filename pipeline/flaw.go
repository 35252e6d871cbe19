package pipeline

import (
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// flaw is a way to build the engine wrong. Only tests of this package can set
// one, and a binary built with failpoints, to see that the suites would notice
// (DESIGN section 10).
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

// transactionalID is the lock of a partition: whoever initialises it last is
// the owner.
func (o *Options) transactionalID(partition int32) string {
	id := fmt.Sprintf("%s-%d", o.Group, partition)
	if o.flaw == noFence {
		id += "-" + rand.Text()
	}
	return id
}

func (o *Options) isolation() kgo.IsolationLevel {
	if o.flaw == readUncommittedLogs {
		return kgo.ReadUncommitted()
	}
	return kgo.ReadCommitted()
}
