// Package pipelinetest is the world that engines are tested in: a broker, the
// topics, engines that come and go, and readers of what they wrote.
//
// # Two kinds
//
// A world is in real time, unless Options say that it is simulated.
//
//	             in real time              simulated
//	time         the machine's             a testing/synctest bubble's
//	brokers      kfake, or any real ones   kfake
//	network      TCP                       in memory, with a proxy for each node
//	disks        directories               in memory; they can be full, torn, swapped
//	engines log  to the test               not at all
//
// All else is the same: how topics are created, how an engine is configured,
// started and stopped, how records are written and read.
//
// Only nodes of a simulated world can be killed, frozen, cut off or lose their
// power. The proxy (wire.go, truncate.go) does what kfake cannot: answers that
// are late, overtake others or are lost, and a log that has lost its end.
//
// Package internal/sim lets faults, plans and checks loose on a simulated world.
package pipelinetest
