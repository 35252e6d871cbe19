package sim

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// truncated is the last fault of a world: a partition's log loses its end. The engine must refuse
// that partition, whichever node opens it, and no other.
func (l *life) truncated() {
	if l.Node("last") == nil {
		l.Start("last")
	}
	for _, n := range l.Nodes() {
		if n.Name != "last" {
			_ = l.Stop(n.Name)
		}
	}
	l.AwaitOwners()
	p := l.rng.Int32N(l.P)
	topic, from := l.Names.Commands(), l.tailOf(p)
	if l.rng.IntN(2) == 0 {
		topic, from = l.Names.State(), l.lastTurn(p)
	}
	_ = l.Stop("last") // not a kill: its disk must have the last turn, to detect the loss
	l.Note("%s/%d has lost its end, from %d on", topic, p, from)
	l.Truncate(topic, p, from)
	l.struck("truncated-log")
	if topic == l.Names.Commands() {
		for range l.rng.IntN(3) { // producers append to it meanwhile
			l.refill(p)
		}
	}
	n := l.Start("last")
	time.Sleep(90 * time.Second)
	for _, s := range n.Partitions() {
		switch {
		case s.Partition == p && (s.Refused != "gap" || s.Ready):
			l.T.Errorf("%s/%d has lost its end from %d on, and the engine goes on: %+v", topic, p, from, s)
		case s.Partition != p && !s.Ready:
			l.T.Errorf("partition %d does not fire, and it was %s/%d that lost its end: %+v", s.Partition, topic, p, s)
		}
	}
}

// tailOf sends a last command to a partition, and returns its offset.
func (l *life) tailOf(p int32) int64 {
	r := l.refill(p)
	time.Sleep(10 * time.Second) // until it is read, and written to disk
	return r.Offset
}

// refill appends a command to a partition that only the checker judges.
func (l *life) refill(p int32) *kgo.Record {
	for i := l.oneShot; ; i++ {
		if key := fmt.Sprint("z", i); l.Home(key) == p {
			l.oneShot = i + 1
			return l.Send(key, `{"op":"register","delay":"1s"}`)
		}
	}
}

// lastTurn makes a partition commit a turn, and returns the offset at which its records of topic
// state begin: after the marker of the previous turn.
func (l *life) lastTurn(p int32) (from int64) {
	l.tailOf(p)
	all := l.Read(kgo.ReadUncommitted(), l.Names.State())[l.Names.State()][p]
	last := len(all) - 1
	for last >= 0 && string(all[last].Key) != string(topics.KeyProgress) {
		last--
	}
	for _, r := range all[:max(last, 0)] {
		if r.Attrs.IsControl() {
			from = r.Offset + 1
		}
	}
	return from
}
