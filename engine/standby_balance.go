package engine

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// warmBalancer is the cooperative-sticky balancer with one change. Partitions that have to
// move go to members that have their store: first to a standby, then to any disk that they
// were on. Each member writes what it has behind the user data of its join, where other
// readers stop. The leader then exchanges partitions one for one among those that sticky
// gave away, so balance and stickiness stay the same. It keeps the name of the plain
// balancer, so members with and without it form one group.
type warmBalancer struct {
	kgo.GroupBalancer
	sticky kgo.ConsumerBalancerBalance
	topic  string
	have   func() map[int32]warmth
	rounds *atomic.Uint32 // how many rebalances this member has asked for
	means  func() Identity
}

// warmth says how soon a member could run a partition.
type warmth byte

const (
	cold    warmth = iota
	onDisk         // a store from an earlier ownership
	standby        // a store near the end of topic state
)

func newWarmBalancer(topic string, have func() map[int32]warmth, rounds *atomic.Uint32,
	means func() Identity,
) *warmBalancer {
	b := kgo.CooperativeStickyBalancer()
	return &warmBalancer{
		GroupBalancer: b, sticky: b.(kgo.ConsumerBalancerBalance), topic: topic, have: have, rounds: rounds,
		means: means,
	}
}

// JoinGroupMetadata adds the stores that this member has.
func (w *warmBalancer) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	raw := w.GroupBalancer.JoinGroupMetadata(interests, current, generation)
	var m kmsg.ConsumerMemberMetadata
	if m.ReadFrom(raw) != nil {
		return raw
	}
	have := maps.Clone(w.have())
	if have == nil {
		have = map[int32]warmth{}
	}
	have[formatsAt] = newestFormat
	if n := w.rounds.Load(); n > 0 {
		have[roundsAt] = warmth(n)
	}
	m.UserData = appendWarmth(appendIdentity(slices.Clip(m.UserData), w.means()), have)
	return m.AppendTo(nil)
}

// MemberBalancer is called on the leader.
func (w *warmBalancer) MemberBalancer(
	members []kmsg.JoinGroupResponseMember,
) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(w, members)
	if err != nil {
		return nil, nil, err
	}
	return b, b.MemberTopics(), nil
}

// Balance returns the sticky plan with exchanges.
func (w *warmBalancer) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	into := w.sticky.Balance(b, topics)
	plan, ok := into.(*kgo.BalancePlan)
	if !ok {
		return into
	}
	g := newGiving(b, plan.AsMemberIDMap(), w.topic)
	g.exchange()
	g.retake()
	for id, list := range g.plan {
		slices.Sort(list)
		plan.AsMemberIDMap()[id][w.topic] = list
	}
	return into
}

// warmMagic ends with the version of the layout. Pairs of partition (4 bytes, big endian)
// and warmth (1 byte) follow. One of them holds the format that the member reads.
const warmMagic = "waterclock\x01"

func appendWarmth(b []byte, have map[int32]warmth) []byte {
	b = append(b, warmMagic...)
	ids := make([]int32, 0, len(have))
	for id := range have {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		b = append(b, byte(id>>24), byte(id>>16), byte(id>>8), byte(id), byte(have[id]))
	}
	return b
}

// readWarmth reads what follows the user data of the sticky balancer; an empty map if
// nothing follows. It searches for the magic, because the sticky balancer omits the
// generation on a first join, and its own data cannot be parsed then.
func readWarmth(userData []byte) map[int32]warmth {
	out := readMember(userData)
	delete(out, formatsAt)
	delete(out, roundsAt)
	return out
}

// readMember is readWarmth with the format and the rounds.
func readMember(userData []byte) map[int32]warmth {
	out := map[int32]warmth{}
	_, rest, found := bytes.Cut(userData, []byte(warmMagic))
	for ; found && len(rest) >= 5; rest = rest[5:] {
		out[int32(binary.BigEndian.Uint32(rest))] = warmth(rest[4])
	}
	return out
}

// giving is the plan while the leader changes it. In the round in which live members give
// partitions up, those are not in the plan; the next round gives them away.
type giving struct {
	plan  map[string][]int32          // partitions of our topic, by member
	owned map[string]map[int32]bool   // what members own now and may keep
	have  map[string]map[int32]warmth // what stores members have
	ids   []string
}

func newGiving(b *kgo.ConsumerBalancer, plan map[string]map[string][]int32, topic string) *giving {
	g := &giving{plan: map[string][]int32{}, owned: map[string]map[int32]bool{}, have: map[string]map[int32]warmth{}}
	b.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		if _, ok := plan[m.MemberID]; !ok || !slices.Contains(meta.Topics, topic) { // or a full disk
			return
		}
		g.ids = append(g.ids, m.MemberID)
		g.plan[m.MemberID] = slices.Clone(plan[m.MemberID][topic])
		g.have[m.MemberID] = readWarmth(meta.UserData)
		g.owned[m.MemberID] = map[int32]bool{}
		for _, o := range meta.OwnedPartitions {
			for _, p := range o.Partitions {
				if o.Topic == topic {
					g.owned[m.MemberID][p] = true
				}
			}
		}
	})
	return g
}

// exchange makes every change of the plan that lets more stores be used. Two new partitions
// change places, or one goes from a member with more to one with less. It ends, because
// each change makes the plan warmer.
func (g *giving) exchange() {
	for changed := true; changed; {
		changed = false
		for _, from := range g.ids {
			for i := range g.plan[from] {
				if !g.owned[from][g.plan[from][i]] && g.improve(from, i) {
					changed = true
					break
				}
			}
		}
	}
}

// improve finds a better member for the i-th partition of member from.
func (g *giving) improve(from string, i int) bool {
	p := g.plan[from][i]
	for _, to := range g.ids {
		gain := int(g.have[to][p]) - int(g.have[from][p])
		if to == from || gain <= 0 {
			continue
		}
		for j, q := range g.plan[to] {
			if !g.owned[to][q] && gain+int(g.have[from][q])-int(g.have[to][q]) > 0 {
				g.plan[from][i], g.plan[to][j] = q, p
				return true
			}
		}
		if len(g.plan[to]) < len(g.plan[from]) {
			g.plan[from] = slices.Delete(g.plan[from], i, i+1)
			g.plan[to] = append(g.plan[to], p)
			return true
		}
	}
	return false
}

// retake chooses which partitions a live member gives up. It prefers those whose store the
// members with the fewest partitions have; sticky chooses any.
func (g *giving) retake() {
	fewest := g.poorest()
	for _, owner := range g.ids {
		for _, p := range g.givenUp(owner) {
			best, gain := -1, warmth(0)
			for i, q := range g.plan[owner] {
				if have := g.best(fewest, q); g.owned[owner][q] && have > g.best(fewest, p) && have > gain {
					best, gain = i, have
				}
			}
			if best >= 0 {
				g.plan[owner][best] = p
			}
		}
	}
}

// givenUp lists the partitions that only this owner claims and that the plan of this round
// gives to nobody.
func (g *giving) givenUp(owner string) (out []int32) {
	for p := range g.owned[owner] {
		kept := false
		for _, id := range g.ids {
			kept = kept || slices.Contains(g.plan[id], p) || (id != owner && g.owned[id][p])
		}
		if !kept {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (g *giving) poorest() (ids []string) {
	for _, id := range g.ids {
		if len(ids) > 0 && len(g.plan[id]) < len(g.plan[ids[0]]) {
			ids = ids[:0]
		}
		if len(ids) == 0 || len(g.plan[id]) == len(g.plan[ids[0]]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (g *giving) best(ids []string, p int32) (have warmth) {
	for _, id := range ids {
		have = max(have, g.have[id][p])
	}
	return have
}

// warmth lists the stores that this member has.
func (e *Engine) warmth() map[int32]warmth {
	out := map[int32]warmth{}
	for _, id := range e.process.Recovery().Stores() {
		out[id] = onDisk
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, t := range e.tails {
		if t.warm.Load() {
			out[id] = standby
		}
	}
	return out
}
