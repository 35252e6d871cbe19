package engine

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
)

// A standby is a store of a partition that another member owns, kept near the end of topic
// state. The next owner opens it like any other store: fence, nonce, then the rest of topic
// state, which is short. It trusts nothing about a standby but what the store itself
// records (package recovery).
//
// Every member computes alone who is standby for what, from the group's description of its
// members. All get the same answer, so nothing has to be agreed. For a moment two members
// may disagree; then a partition has one standby too many or too few.

// standbyInterval is the time between two checks of who is standby for what, which formats the
// members read, and which partitions have no owner.
const standbyInterval = 2 * time.Second

// standBy keeps the standbys of this member until ctx ends. It alone uses the members that it
// receives.
func (e *Engine) standBy(ctx context.Context, groups <-chan group) {
	for {
		select {
		case <-ctx.Done():
			return
		case g := <-groups:
			if !e.standbysRest() {
				e.tailOnly(standbyFor(g.me, g.members, e.process.Partitions, e.process.Standby))
			}
		}
	}
}

// member is the group's description of one member. The name of a static member is its
// instance id, which outlives its process.
type member struct {
	name  string
	owns  []int32
	reads topics.Format // newest format of topic state
}

// describeGroup returns our name and the members; no members while the group is not stable.
func (e *Engine) describeGroup(ctx context.Context) (me string, members []member, err error) {
	ctx, cancel := context.WithTimeout(ctx, standbyInterval)
	defer cancel()
	id, _ := e.cl.GroupMetadata()
	if me = e.process.InstanceID; me == "" {
		me = id
	}
	if e.process.ServerAssigns {
		members, err = e.serverMembers(ctx)
		return me, members, err
	}
	all, err := e.adm.DescribeGroups(ctx, e.process.Group)
	if err != nil {
		return "", nil, err
	}
	g := all[e.process.Group]
	if g.Err != nil {
		return "", nil, g.Err
	}
	if g.State != "Stable" {
		return me, nil, nil
	}
	var identities []Identity
	for _, m := range g.Members {
		members = append(members, e.memberOf(&m))
		if i, ok := identityOf(&m); ok {
			identities = append(identities, i)
		}
	}
	e.leaveForeign(identities)
	return me, members, nil
}

func (e *Engine) memberOf(m *kadm.DescribedGroupMember) member {
	out := member{name: m.MemberID, reads: readsOf(m)}
	if m.InstanceID != nil {
		out.name = *m.InstanceID
	}
	if a, ok := m.Assigned.AsConsumer(); ok {
		for _, t := range a.Topics {
			if t.Topic == e.process.Names.Commands() {
				out.owns = append(out.owns, t.Partitions...)
			}
		}
	}
	return out
}

// serverMembers is describeGroup for a group that the brokers balance.
func (e *Engine) serverMembers(ctx context.Context) (members []member, err error) {
	all, err := e.adm.DescribeConsumerGroups(ctx, e.process.Group)
	if err != nil {
		return nil, err
	}
	g := all[e.process.Group]
	if g.Err != nil || g.State != "Stable" {
		return nil, g.Err
	}
	var identities []Identity
	for _, m := range g.Members {
		if i, ok := identityOfTopics(m.SubscribedTopics); ok {
			identities = append(identities, i)
		}
		owns := slices.Collect(maps.Keys(m.Assignment[e.process.Names.Commands()]))
		members = append(members, member{m.MemberID, owns, readsOfClient(m.ClientID)})
	}
	e.leaveForeign(identities)
	return members, nil
}

// standbyFor returns the partitions that member me is standby for. It spreads the
// partitions of each owner over the others. So each of them can take its share, and the
// group stays in balance. Rendezvous hashing decides which partition goes where, so few of
// them move.
func standbyFor(me string, members []member, partitions int32, copies int) map[int32]bool {
	mine := map[int32]bool{}
	if len(members) < 2 {
		return mine
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	// what each member owns after one of them has gone, rounded up
	share := (int(partitions) + len(members) - 2) / (len(members) - 1)
	for o, owner := range members {
		room := make([]int, len(members))
		for i, m := range members {
			room[i] = max(0, share-len(m.owns)) * copies
		}
		slices.Sort(owner.owns)
		for _, p := range owner.owns {
			taken := map[int]bool{o: true}
			for range min(copies, len(members)-1) {
				best := pickStandby(p, members, room, taken)
				taken[best] = true
				room[best]--
				if members[best].name == me {
					mine[p] = true
				}
			}
		}
	}
	return mine
}

// pickStandby returns the member with room whose hash is highest. If none has room, all
// count.
func pickStandby(p int32, members []member, room []int, taken map[int]bool) int {
	best := -1
	better := func(i int) bool {
		if best < 0 || (room[i] > 0) != (room[best] > 0) {
			return best < 0 || room[i] > 0
		}
		return rendezvous(p, members[i].name) > rendezvous(p, members[best].name)
	}
	for i := range members {
		if !taken[i] && better(i) {
			best = i
		}
	}
	return best
}

func rendezvous(p int32, name string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", name, p)
	x := h.Sum64() // FNV alone spreads short inputs badly
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// tailOnly starts and stops tails until they are those of want.
func (e *Engine) tailOnly(want map[int32]bool) {
	e.mu.Lock()
	var gone []int32
	for id := range e.tails {
		if !want[id] {
			gone = append(gone, id)
		}
	}
	e.mu.Unlock()
	for _, id := range gone {
		e.hold(id)
		if st := e.stopTail(id); st != nil {
			_ = st.Close()
		}
		e.release(id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range want {
		if e.owned[id] == nil && e.tails[id] == nil && !e.stopping {
			e.tails[id] = e.startTail(id)
		}
	}
}

// stopTail ends a standby and returns its open store; nil if there is none. Its caller holds the
// partition until that is closed.
func (e *Engine) stopTail(id int32) *statestore.Store {
	e.mu.Lock()
	t := e.tails[id]
	delete(e.tails, id)
	e.mu.Unlock()
	if t == nil {
		return nil
	}
	t.cancel()
	<-t.done
	e.release(id)
	return t.store
}

// stopTails ends all.
func (e *Engine) stopTails() { e.tailOnly(nil) }

// StandbyStatus describes one standby of this process.
type StandbyStatus struct {
	Partition int32
	Lag       int64 // records of topic state still to read
	Pending   int64 // triggers in its store
	Warm      bool  // it can take over now without a restore
}

// Standbys lists the standbys of this process.
func (e *Engine) Standbys() []StandbyStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]StandbyStatus, 0, len(e.tails))
	for id, t := range e.tails {
		out = append(out, StandbyStatus{
			Partition: id, Lag: t.lag.Load(), Pending: t.pending.Load(),
			Warm: t.warm.Load(),
		})
	}
	slices.SortFunc(out, func(a, b StandbyStatus) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}
