// Package sim lets faults loose on a simulated world (pipeline/pipelinetest) and
// holds what came of it against the contract: kgo, kfake and Pebble run inside one
// testing/synctest bubble, over a network and disks in memory. A day passes in
// seconds, time-outs cost nothing, and a process can be killed, frozen, cut off
// or lose its power at any line.
//
// # Use
//
//	synctest.Test(t, func(t *testing.T) {
//		w := sim.New(t, sim.Options{Seed: 42})
//		w.Start("a")
//		w.Register("rent", time.Now().Add(time.Hour))
//		w.Kill("a")
//		w.Start("a")
//		time.Sleep(2 * time.Hour)
//		w.RequireDelivered("rent", 1)
//		w.CheckInvariants()
//	})
//
// # Lives
//
// Live goes through a whole life by itself: a Plan says how long, with how many
// triggers and with which Faults; visits in which nodes run, commands come
// (load.go) and faults strike (faults.go), and days in between. `waterclock sim`
// lives seed after seed (Bubble), tells how often one fails (Rate) and looks for
// a smaller one that does (Shrink).
//
// # What is real and what is not
//
// Everything above the sockets, the disk and the clock is what runs in
// production. The network has next to no latency, so the broker's clock and
// ours are the same, unless Node.Storm makes answers late; Options.Change can set a node's
// clock wrong. Goroutines are scheduled as the runtime likes: a seed repeats the
// faults, not every interleaving.
//
// # Who is right
//
// The log is. CheckInvariants reads every topic back, in both isolation levels,
// and compares with what the world's own client was acknowledged; it never asks
// the engine what it thinks it did, but for the contents of its stores, which
// must equal the fold of topic state.
package sim
