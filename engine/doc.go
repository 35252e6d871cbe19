// Package engine says who owns which partition, and runs what this process owns.
//
//	engine.go           Run: takes part in the consumer group until its context ends
//	ownership.go        a partition as long as the group says that it is ours: opened, run, opened anew
//	group.go            the group client; group offsets for lag tools; leaving
//	cluster.go          members of one group mean the same topics
//	disk.go             a full disk gives its partitions away
//	orphans.go          partitions that a broken-off rebalance has left to nobody
//	standby.go          which member is standby for what
//	standby_tail.go     a standby: topic state, read into a store
//	standby_balance.go  partitions that move go to members that have their store
//	unused.go           removes the stores that this process has not used for long
//	formats.go          the newest format of topic state that every member reads
//	watchdog.go         a partition that hangs on this machine ends the process
//	read.go             reads for gateways, behind the read barrier
//
// # Source of truth
//
// The group only hints at who should own what. Whoever initialised the partition's
// transactional id last owns it (package pipeline).
//
// # Promises
//
//   - A partition is closed here before the group gives it to somebody else, unless
//     it hangs.
//   - One partition's failure does not hold up the others.
package engine
