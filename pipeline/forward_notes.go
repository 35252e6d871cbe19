package pipeline

import (
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Progress notes what is still to be forwarded, so that a successor sends it. The turn that
// reads a misplaced record notes it. That it was sent is noted later, with another turn.

// forwardInterval is how often progress notes what was forwarded, if no other turn does. A
// successor sends at most what was forwarded since then.
const forwardInterval = 5 * time.Second

// owed returns what progress says about forwarding.
func (f *forwarder) owed() (owed map[int32]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.owed(func(key route, before int64) {
		if owed == nil {
			owed = map[int32]int64{}
		}
		owed[f.opts.mapKey(key.topic, key.target)] = before
	})
	return owed
}

// noted reports whether progress needs no note now of what was forwarded. forwarded is the last
// note, and since is how long ago it was committed.
func (f *forwarder) noted(forwarded map[int32]int64, since time.Duration) bool {
	return since < forwardInterval || !f.hasStuck() && maps.Equal(f.owed(), forwarded)
}

// untilNote is how long a partition may wait before it asks noted; wait if nothing is owed.
func untilNote(forwarded map[int32]int64, since, wait time.Duration) time.Duration {
	if len(forwarded) == 0 {
		return wait
	}
	return min(wait, forwardInterval-since%forwardInterval)
}

// hasStuck reports whether a turn must record a lost or refused record (takeStuck).
func (f *forwarder) hasStuck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.hasStuck()
}

// takeStuck returns what can never be forwarded, because its topic refuses it or the log
// dropped it (retention, DeleteRecords). A turn must record it.
func (f *forwarder) takeStuck() (refused []*kgo.Record, lost []lostRange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lost, refused = f.out.takeLost(), f.out.takeRefused()
	return refused, lost
}

// rejection is what topic rejected says about records that the log of a partition dropped. Only
// their offsets can be named.
func (l *lostRange) rejection(partition int32) (*topics.Record, *trigger.Error) {
	msg := fmt.Sprintf("the log of %s/%d no longer holds offsets %d to %d: its records of the keys of "+
		"partition %d were not forwarded to it", l.topic, partition, l.from, l.to-1, l.target)
	return &topics.Record{Topic: l.topic, Partition: partition, Offset: l.from},
		&trigger.Error{Code: trigger.CodeMisrouted, Msg: msg}
}

// warnLost logs the same for the operator, after the turn has committed.
func (f *forwarder) warnLost(lost []lostRange) {
	for _, l := range lost {
		f.log.Warn("records were dropped from the log before they could be forwarded to their correct partition",
			"topic", l.topic, "target", l.target, "first_offset", l.from, "last_offset", l.to-1)
		f.opts.Listener.Command(trigger.Op(0).String(), string(trigger.CodeMisrouted))
	}
}

// trimBelow is the lowest offset of commands that a successor may need: of the first that
// is not applied, or not yet forwarded.
func (o *Options) trimBelow(p *topics.Progress) int64 {
	_, from := o.unforwarded(p.Forwarded, o.Names.Commands(), p.NextCommand)
	return from
}

// unforwarded returns the part of progress.Forwarded about one topic, and the offset of the
// first record that may still be owed.
func (o *Options) unforwarded(forwarded map[int32]int64, topic string, next int64) (through map[int32]int64,
	from int64,
) {
	through, from = map[int32]int64{}, next
	for key, last := range forwarded {
		t, target := o.fromKey(key)
		if t == topic {
			through[target] = last
			from = min(from, last+1)
		}
	}
	return through, from
}

// mapKey is the key of a partition in the maps of progress. Commands and receipts share
// these maps: receipts have the keys below zero.
func (o *Options) mapKey(topic string, partition int32) int32 {
	if topic == o.Names.Receipts() {
		return -1 - partition
	}
	return partition
}

func (o *Options) fromKey(key int32) (topic string, partition int32) {
	if key < 0 {
		return o.Names.Receipts(), -1 - key
	}
	return o.Names.Commands(), key
}
