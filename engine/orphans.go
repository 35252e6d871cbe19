package engine

import "slices"

// A cooperative rebalance has two rounds (KIP-429). In the first, members give partitions
// up. The second begins when one of them joins anew, and gives those partitions away. Now
// replace the process of a static member (KIP-345) between the two rounds: it comes back
// with what it has kept, and begins no second round. What it gave up belongs to nobody
// until a member comes or goes. So every member checks for such partitions, and the first
// member by name asks for the second round. If it does not, the next one does.

// orphanChecks is the number of successive checks that must find a partition without an
// owner. Two rounds are closer together than that.
const orphanChecks = 3

// adoptOrphans has partitions without an owner given away. seen is how many checks before this
// one found some; it returns the new number.
func (e *Engine) adoptOrphans(seen int, g group) int {
	orphans := unassigned(g.members, e.process.Partitions)
	if len(orphans) == 0 || e.Disk().Full {
		return 0
	}
	if seen++; seen < orphanChecks*(1+rankOf(g.me, g.members)) {
		return seen
	}
	e.process.Logger.Warn("partitions have no owner; asking the group to assign them", "partitions", orphans)
	e.rounds.Add(1) // without a new count the coordinator begins no round for a follower
	e.cl.ForceRebalance()
	return 0
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
