// Package sim runs the real engine on a real broker in a made-up world: kgo,
// kfake and Pebble inside one testing/synctest bubble, over a network and disks
// in memory. A day passes in seconds, time-outs cost nothing, and a process can
// be killed, frozen, cut off or lose its power at any line.
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
// # What is real and what is not
//
// Everything above the sockets, the disk and the clock is what runs in
// production. The network has no latency, so the broker's clock and ours are
// the same; Options.Change can set a node's clock wrong. Goroutines are scheduled
// as the runtime likes: a seed repeats the faults, not every interleaving.
//
// # Who is right
//
// The log is. CheckInvariants reads every topic back, in both isolation levels,
// and compares with what the world's own client was acknowledged; it never asks
// the engine what it thinks it did, but for the contents of its stores, which
// must equal the fold of topic state.
package sim
