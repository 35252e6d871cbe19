package engine

import (
	"context"
	"slices"

	"github.com/waterclock/waterclock/internal/wait"
)

// A cooperative rebalance has two rounds (KIP-429): in the first, members give
// partitions up; in the second, which begins when one of those joins again, the
// group gives them away. A static member (KIP-345) whose process is replaced
// between the two comes back with what it has left, and begins no second round:
// what it gave up would belong to nobody until a member comes or goes. So
// members look, and the first of them by name asks for the second round; if it
// does not, the next one does.

// orphanChecks is in how many looks on end a partition must belong to nobody. Two
// rounds are closer together.
const orphanChecks = 3

// adoptOrphans has partitions that belong to nobody given away, until ctx ends.
func (e *Engine) adoptOrphans(ctx context.Context) {
	seen := 0
	wait.Every(ctx, standbyInterval, func() {
		me, members, err := e.describeGroup(ctx)
		orphans := unassigned(members, e.process.Partitions)
		if err != nil || len(orphans) == 0 || e.Disk().Full {
			seen = 0
			return
		}
		if seen++; seen < orphanChecks*(1+rankOf(me, members)) {
			return
		}
		seen = 0
		e.process.Logger.Warn("partitions belong to nobody; asking the group to give them away", "partitions", orphans)
		e.rounds.Add(1) // a follower that joins with what the coordinator knows begins no round
		e.cl.ForceRebalance()
	})
}

// unassigned are the partitions that no member has; none where nothing is known
// of the members.
func unassigned(members []member, partitions int32) (orphans []int32) {
	if len(members) == 0 {
		return nil
	}
	for p := range partitions {
		if !slices.ContainsFunc(members, func(m member) bool { return slices.Contains(m.owns, p) }) {
			orphans = append(orphans, p)
		}
	}
	return orphans
}

// rankOf is how many members have a name before ours.
func rankOf(me string, members []member) (rank int) {
	for _, m := range members {
		if m.name < me {
			rank++
		}
	}
	return rank
}
