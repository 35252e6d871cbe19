package sim

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// CheckInvariants reads everything back. It fails the test for every wish that was not granted
// exactly: never early, never twice, never lost, and a cancel respected. It also fails for every
// incomplete transaction, every gap in the history, and every store that is not the fold of topic
// state. All due times must have passed and the nodes must be idle.
func (w *World) CheckInvariants() {
	w.T.Helper()
	for _, v := range w.Violations() {
		w.T.Error(v)
	}
}

// Violations is CheckInvariants for tests that expect violations.
func (w *World) Violations() []string {
	w.T.Helper()
	found, _ := w.violations()
	return found
}

// violations returns those that the world and the history checker find, and the checker's report.
func (w *World) violations() ([]string, *check.Report) {
	w.T.Helper()
	c := &audit{w: w}
	c.seen = pipelinetest.Flat(w.Read(kgo.ReadCommitted(), w.Topics()...))
	c.due = c.seen[w.Names.Due("default")]
	c.readEvents()
	c.wishes()
	c.unique()
	if !w.compacted {
		c.transactions()
	}
	c.stores()
	r := w.Verify()
	c.found = append(c.found, verified(r)...)
	c.found = append(append(c.found, Stalls(c.seen[w.Names.Watermarks()])...), w.stalled...)
	if len(c.found) > 20 {
		c.found = append(c.found[:20], fmt.Sprintf("and %d more", len(c.found)-20))
	}
	return c.found, r
}

// audit is one reading of all topics.
type audit struct {
	w      *World
	seen   map[string][]*kgo.Record // records of all topics that a read-committed reader sees
	due    []*kgo.Record
	events map[string][]topics.Event // by trigger, in order
	found  []string
}

func (c *audit) violation(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// readEvents decodes the history. seq must have no gap per trigger, and event_us must increase
// per partition (C8).
func (c *audit) readEvents() {
	c.events = map[string][]topics.Event{}
	last := map[int32]int64{}
	for _, r := range c.seen[c.w.Names.Events()] {
		e, err := topics.DecodeEvent(r.Value)
		if err != nil {
			c.violation("event at %d/%d: %v", r.Partition, r.Offset, err)
			continue
		}
		if e.EventUS <= last[r.Partition] {
			c.violation("event_us %d at %d/%d does not increase", e.EventUS, r.Partition, r.Offset)
		}
		last[r.Partition] = e.EventUS
		named := c.events[e.Trigger]
		if len(named) > 0 && e.Seq != named[len(named)-1].Seq+1 && e.Seq > 1 {
			c.violation("%s: event %s has seq %d after %d", e.Trigger, e.Type, e.Seq, named[len(named)-1].Seq)
		}
		c.events[e.Trigger] = append(named, e)
	}
}

// wishes compares what was acknowledged with what fired (C2-C5, C7).
func (c *audit) wishes() {
	fired := map[string][]*kgo.Record{}
	for _, r := range c.due {
		fired[string(r.Key)] = append(fired[string(r.Key)], r)
		if c.w.wishes[string(r.Key)] == nil && c.w.series[string(r.Key)] == nil && !c.w.free[string(r.Key)] {
			c.violation("%s fired, but nobody registered it", r.Key)
		}
	}
	keys := make([]string, 0, len(c.w.wishes))
	for key := range c.w.wishes {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		c.wish(key, c.w.wishes[key], fired[key])
	}
	c.promises(fired)
}

// evidence returns what the topics have on a trigger: its commands, which of them a
// read-committed reader sees, and the events.
func (c *audit) evidence(key string) string {
	var out []string
	visible := map[[2]int64]bool{}
	for _, r := range c.seen[c.w.Names.Commands()] {
		visible[[2]int64{int64(r.Partition), r.Offset}] = true
	}
	for _, r := range c.w.DumpAll(c.w.Names.Commands()) {
		if string(r.Key) == key {
			out = append(out, fmt.Sprintf("command at %d/%d, %s, of producer %d epoch %d, committed: %v",
				r.Partition, r.Offset, r.Timestamp.Format(time.TimeOnly), r.ProducerID, r.ProducerEpoch,
				visible[[2]int64{int64(r.Partition), r.Offset}]))
		}
	}
	for i := range c.events[key] {
		out = append(out, "told "+c.events[key][i].Type)
	}
	return strings.Join(out, "; ")
}

func (c *audit) wish(key string, x *wish, fired []*kgo.Record) {
	eps := c.w.Epsilon
	for _, r := range fired {
		if early := x.due.Sub(r.Timestamp); early > eps {
			c.violation("%s fired %v early, at %v", key, early, r.Timestamp.Format(time.TimeOnly))
		}
	}
	if late := c.w.MaxLate; late > 0 && len(fired) > 0 && fired[0].Timestamp.Sub(x.due) > late {
		c.violation("%s fired %v late", key, fired[0].Timestamp.Sub(x.due))
	}
	if len(fired) > 1 {
		c.violation("%s fired %d times", key, len(fired))
	}
	cancelled, tooLate := c.named(key, trigger.CancelledFact), c.named(key, trigger.CancelTooLate)
	switch {
	case x.doubtful:
	case x.cancelled.IsZero():
		if len(fired) == 0 {
			c.violation("%s was lost: due %v, nothing came; %s", key, x.due.Format(time.TimeOnly), c.evidence(key))
		}
	case len(fired) > 0 && !x.astray && x.cancelled.Before(x.due.Add(-eps)) && !c.w.held(c.w.Home(key), x.cancelled):
		c.violation("%s fired although its cancel was acknowledged %v before; %s", key, x.due.Sub(x.cancelled),
			c.evidence(key))
	case len(fired) > 0 && (cancelled || !tooLate):
		c.violation("%s fired after its cancel, and the cancel was not told that it came too late", key)
	case len(fired) == 0 && !cancelled:
		c.violation("%s did not fire and is not told as cancelled: due %v; %s", key, x.due.Format(time.TimeOnly),
			c.evidence(key))
	}
}

func (c *audit) named(key string, what trigger.FactType) bool {
	for _, e := range c.events[key] {
		if e.Type == string(what) {
			return true
		}
	}
	return false
}

// unique checks that there is one committed record per ce_id and attempt (C4).
func (c *audit) unique() {
	seen := map[string]bool{}
	for _, r := range c.due {
		id := pipelinetest.Header(r, "ce_id") + " attempt " + pipelinetest.Header(r, "ce_wcattempt")
		if seen[id] {
			c.violation("%s is there twice", id)
		}
		seen[id] = true
	}
}

// transactions compares turns with their manifests (C10, C11).
func (c *audit) transactions() {
	n := c.w.Names
	dumps := map[string][]*kgo.Record{}
	written := []string{n.State(), n.Events(), n.Rejected(), n.DeadLetter(), n.Due("default")}
	for _, channel := range c.w.opts.Channels {
		written = append(written, n.Due(channel))
	}
	for _, topic := range written {
		dumps[topic] = c.seen[topic]
	}
	c.found = append(c.found, Turns(n, dumps)...)
}

// stores compares every owner's store with the fold of topic state (C9). Series go on firing. What fired between the
// reading of the topic and that of the store shows as a difference, so it reads both again.
func (c *audit) stores() {
	state := c.seen[c.w.Names.State()]
	for range 5 {
		before := len(c.found)
		c.storesAre(state)
		if len(c.found) == before {
			return
		}
		c.found = c.found[:before]
		state = pipelinetest.Flat(c.w.Read(kgo.ReadCommitted(), c.w.Names.State()))[c.w.Names.State()]
	}
	c.storesAre(state)
}

// storesAre compares every owner's store with the fold of what was read of topic state.
func (c *audit) storesAre(state []*kgo.Record) {
	fold := map[int32]map[string][]byte{}
	for _, r := range state {
		if topics.IsReserved(r.Key) {
			continue
		}
		if fold[r.Partition] == nil {
			fold[r.Partition] = map[string][]byte{}
		}
		if r.Value == nil {
			delete(fold[r.Partition], string(r.Key))
		} else {
			fold[r.Partition][string(r.Key)] = r.Value
		}
	}
	for p := range c.w.P {
		if n := c.w.Owner(p); n != nil {
			c.store(n, p, fold[p])
		}
	}
}

func (c *audit) store(n *Node, partition int32, want map[string][]byte) {
	found := 0
	err := n.Scan(c.w.Context(), partition, true, "", func(s *trigger.State) bool {
		found++
		topic, err := topics.DecodeState(s.Key, want[string(s.Key)])
		if err != nil || !reflect.DeepEqual(s, topic) {
			c.violation("partition %d: the store of %s has another state of %s than topic state (%v)", partition,
				n.Name, s.Key, err)
		}
		return true
	})
	if err != nil || found != len(want) {
		c.violation("partition %d: the store of %s holds %d triggers, topic state %d (%v)", partition, n.Name, found,
			len(want), err)
	}
}

// RequireDelivered fails unless a trigger has fired so many times.
func (w *World) RequireDelivered(key string, times int) {
	w.T.Helper()
	n := 0
	for _, r := range w.Dump(w.Names.Due("default")) {
		if string(r.Key) == key {
			n++
		}
	}
	if n != times {
		w.T.Errorf("%s was delivered %d times, want %d", key, n, times)
	}
}
