package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStandbyFor: every partition has as many standbys as were asked for, never
// its owner, in agreement between members; and the partitions of each owner are
// spread so that its end would leave the group in balance.
func TestStandbyFor(t *testing.T) {
	for _, c := range []struct{ members, partitions, copies int }{
		{2, 4, 1},
		{3, 16, 1},
		{3, 16, 2},
		{5, 64, 1},
		{3, 1, 1},
		{1, 4, 1},
		{4, 12, 3},
		{3, 12, 9},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			var members []member
			for i := range c.members {
				members = append(members, member{name: fmt.Sprintf("node-%d", i)})
			}
			for p := range c.partitions {
				m := &members[p%c.members]
				m.owns = append(m.owns, int32(p))
			}
			copies := map[int32]int{}
			moved := map[[2]int]int{} // owner, standby → partitions
			for i, me := range members {
				for p := range standbyFor(me.name, slices.Clone(members), int32(c.partitions), c.copies) {
					copies[p]++
					moved[[2]int{int(p) % c.members, i}]++
					if slices.Contains(me.owns, p) {
						t.Errorf("%s is its own standby for %d", me.name, p)
					}
				}
			}
			for p := range c.partitions {
				if want := min(c.copies, c.members-1); copies[int32(p)] != want {
					t.Errorf("partition %d has %d standbys, want %d", p, copies[int32(p)], want)
				}
			}
			if c.copies > 1 || c.members < 3 {
				return
			}
			share := (c.partitions + c.members - 2) / (c.members - 1)
			for at, n := range moved {
				if after := len(members[at[1]].owns) + n; after > share {
					t.Errorf("without %s, %s would own %d partitions of at most %d", members[at[0]].name,
						members[at[1]].name, after, share)
				}
			}
		})
	}
}

// planWith balances members, told by what they own and what they have.
func planWith(t *testing.T, partitions int32, members ...member) map[string][]int32 {
	t.Helper()
	have := map[string]map[int32]warmth{}
	return planHaving(t, partitions, have, members...)
}

func planHaving(t *testing.T, partitions int32, have map[string]map[int32]warmth,
	members ...member,
) map[string][]int32 {
	t.Helper()
	const topic = "commands"
	var joins []kmsg.JoinGroupResponseMember
	for _, m := range members {
		w := newWarmBalancer(topic, func() map[int32]warmth { return have[m.name] }, new(atomic.Uint32), noIdentity)
		j := kmsg.NewJoinGroupResponseMember()
		j.MemberID = m.name
		j.ProtocolMetadata = w.JoinGroupMetadata([]string{topic}, map[string][]int32{topic: m.owns}, 1)
		joins = append(joins, j)
	}
	b, topics, err := newWarmBalancer(topic, nil, nil, nil).MemberBalancer(joins)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := topics[topic]; !ok || len(topics) != 1 {
		t.Fatalf("topics are %v", topics)
	}
	into, err := b.(kgo.GroupMemberBalancerOrError).BalanceOrError(map[string]int32{topic: partitions})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]int32{}
	for id, plan := range into.(*kgo.BalancePlan).AsMemberIDMap() {
		out[id] = plan[topic]
	}
	return out
}

// TestBalanceGoesWhereItIsWarm: the partitions of a member that died go to
// their standbys, in balance; what live members own stays.
func TestBalanceGoesWhereItIsWarm(t *testing.T) {
	have := map[string]map[int32]warmth{
		"a": {0: onDisk, 3: onDisk, 6: onDisk, 1: onDisk, 4: onDisk, 7: standby},
		"c": {2: onDisk, 5: onDisk, 8: onDisk, 1: standby, 4: standby},
	}
	plan := planHaving(t, 9, have, member{name: "a", owns: []int32{0, 3, 6}}, member{name: "c", owns: []int32{2, 5, 8}})
	for _, p := range []int32{0, 3, 6, 7} {
		if !slices.Contains(plan["a"], p) {
			t.Errorf("a has %v, not %d", plan["a"], p)
		}
	}
	for _, p := range []int32{2, 5, 8, 1, 4} {
		if !slices.Contains(plan["c"], p) {
			t.Errorf("c has %v, not %d", plan["c"], p)
		}
	}
}

// TestBalanceGivesBack: a member that comes back gets partitions whose stores
// it has, in two rounds, and no more of them move than have to.
func TestBalanceGivesBack(t *testing.T) {
	have := map[string]map[int32]warmth{"b": {1: onDisk, 4: onDisk, 7: onDisk}}
	a, c := member{name: "a", owns: []int32{0, 1, 3, 4, 6}}, member{name: "c", owns: []int32{2, 5, 7, 8}}
	plan := planHaving(t, 9, have, a, member{name: "b", owns: nil}, c)
	if len(plan["b"]) != 0 {
		t.Fatalf("b was given %v that others have not given up", plan["b"])
	}
	plan = planHaving(t, 9, have, member{name: "a", owns: plan["a"]}, member{name: "b", owns: nil},
		member{name: "c", owns: plan["c"]})
	if want := []int32{1, 4, 7}; !slices.Equal(plan["b"], want) {
		t.Errorf("b was given %v, has %v on disk; a %v, c %v", plan["b"], want, plan["a"], plan["c"])
	}
}

// TestBalanceIsSafe compares random plans with the plain sticky ones: every
// partition is planned at most once, the same partitions are, none that a live
// member claims goes to another, and the balance is no worse.
func TestBalanceIsSafe(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 2000 {
		n, partitions := 1+rng.IntN(5), int32(1+rng.IntN(20))
		have := map[string]map[int32]warmth{}
		members := make([]member, n)
		claims := map[int32]string{}
		for i := range members {
			members[i].name = fmt.Sprint("m", i)
			have[members[i].name] = map[int32]warmth{}
		}
		for p := range partitions {
			if who := rng.IntN(n + 1); who < n {
				members[who].owns = append(members[who].owns, p)
				claims[p] = members[who].name
			}
			have[fmt.Sprint("m", rng.IntN(n))][p] = warmth(rng.IntN(3))
		}
		plain, warm := planWith(t, partitions, members...), planHaving(t, partitions, have, members...)
		count := func(plan map[string][]int32) (all map[int32]string, most, least int) {
			all, least = map[int32]string{}, 1<<30
			for id, list := range plan {
				most, least = max(most, len(list)), min(least, len(list))
				for _, p := range list {
					if all[p] != "" {
						t.Errorf("seed %d, round %d: partition %d is planned twice", seed, round, p)
					}
					if c := claims[p]; c != "" && c != id {
						t.Errorf("seed %d, round %d: partition %d of %s is planned for %s", seed, round, p, c, id)
					}
					all[p] = id
				}
			}
			return all, most, least
		}
		was, wasMost, wasLeast := count(plain)
		is, most, least := count(warm)
		if len(is) != len(was) || most > wasMost || least < wasLeast {
			t.Errorf("seed %d, round %d: plain %v, warm %v", seed, round, plain, warm)
		}
		if t.Failed() {
			return
		}
	}
}

// TestWarmthBehindUserData: what a member has survives the join, and a member
// without it has nothing.
func TestWarmthBehindUserData(t *testing.T) {
	have := map[int32]warmth{0: standby, 7: onDisk, 70_000: standby}
	var m kmsg.ConsumerMemberMetadata
	ours := newWarmBalancer("t", func() map[int32]warmth { return have }, new(atomic.Uint32), noIdentity)
	// -1: it joins for the first time
	for generation, owns := range map[int32]map[string][]int32{-1: nil, 0: {}, 5: {"t": {1, 2}}} {
		if err := m.ReadFrom(ours.JoinGroupMetadata([]string{"t"}, owns, generation)); err != nil {
			t.Fatal(err)
		}
		if got := readWarmth(m.UserData); fmt.Sprint(got) != fmt.Sprint(have) {
			t.Errorf("generation %d: %v came back as %v", generation, have, got)
		}
	}
	for i := range m.UserData {
		readWarmth(m.UserData[:i]) // must not panic
	}
	if err := m.ReadFrom(kgo.CooperativeStickyBalancer().JoinGroupMetadata([]string{"t"}, nil, 5)); err != nil {
		t.Fatal(err)
	}
	if got := readWarmth(m.UserData); len(got) != 0 {
		t.Errorf("a plain member has %v", got)
	}
}

func noIdentity() Identity { return Identity{} }
