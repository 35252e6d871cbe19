// Package sim injects faults into a simulated world (pipeline/pipelinetest) and checks the result
// against the contract. kgo, kfake and Pebble run inside one testing/synctest bubble, with
// network and disks in memory. A simulated day takes seconds, and time-outs cost nothing. A
// process can be killed, frozen, partitioned or lose its power at any line.
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
// Live runs a whole life. A Plan has its length, its number of triggers and its Faults. A life
// consists of visits, in which nodes run, commands arrive (load.go) and faults strike
// (faults.go), and of days between them. `waterclock sim` runs seed after seed (Bubble), measures
// how often one fails (Rate), and searches for a smaller plan that fails (Shrink).
//
// # What is real and what is not
//
// Everything above the sockets, the disk and the clock is the production code. The network has
// almost no latency, so the broker's clock and ours agree, unless Node.Storm delays answers.
// Options.Change can set a node's clock wrong. The Go runtime schedules goroutines freely, so a
// seed repeats the faults, but not every interleaving.
//
// # Source of truth
//
// The log. CheckInvariants reads every topic back, in both isolation levels, and compares it with
// what Kafka acknowledged to the world's own client. It does not ask the engine for its state,
// except for the contents of its stores, which must equal the fold of topic state.
package sim
