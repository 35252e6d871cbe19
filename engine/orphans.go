package engine

import (
	"context"
	"slices"

	"github.com/waterclock/waterclock/internal/wait"
)

// A cooperative rebalance has two rounds (KIP-429). In the first, members give partitions
// up. The second begins when one of them joins anew, and gives those partitions away. Now
// replace the process of a static member (KIP-345) between the two rounds: it comes back
// with what it has kept, and begins no second round. What it gave up belongs to nobody
// until a member comes or goes. So every member checks for such partitions, and the first
// member by name asks for the second round. If it does not, the next one does.

// orphanChecks is the number of successive checks that must find a partition without an
// owner. Two rounds are closer together than that.
const orphanChecks = 3

// adoptOrphans has partitions without an owner given away, until ctx ends.
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
		e.process.Logger.Warn("partitions have no owner; asking the group to assign them", "partitions", orphans)
		e.rounds.Add(1) // without a new count the coordinator begins no round for a follower
		e.cl.ForceRebalance()
	})
}

// unassigned lists the partitions that no member owns; none if the members are not known.
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

// rankOf counts the members whose names sort before ours.
func rankOf(me string, members []member) (rank int) {
	for _, m := range members {
		if m.name < me {
			rank++
		}
	}
	return rank
}
