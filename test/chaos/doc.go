// Package chaos breaks a cluster of real processes for as long as it is given:
// three brokers, three engines, a history on Cassandra. Every run ends with the
// history checker (internal/check), which judges a recording that was made while
// it happened; and with a comparison of the history's tables and the event log.
//
//	make chaos CHAOS=30m                       # as long as this
//	make chaos CHAOS=30m SEED=42               # the same faults in the same order
//	make chaos ONLY='broker is killed'         # faults whose name matches
//
// # A round
//
// Each round is a fault (faults_*_test.go) in a phase of the load (phase_test.go):
//
//	idle       a trigger now and then
//	steady     some forty triggers a second, with commands of every kind
//	herd       thousands that are due in the same millisecond, while the fault lasts
//	catch-up   the fault strikes engines that come back to what has become due without them
//
// A round ends when everything has recovered: all brokers in sync, every
// partition owned and firing, nothing overdue. That it takes over two minutes is
// a failure of its own; the load ends after half a minute of it. The seed draws the order, and with
// a long enough budget every
// fault meets every phase.
//
// # The network
//
// As root, every broker and every engine has a network namespace, and packets
// are lost between them. Without root the engines reach the brokers through
// proxies in the test, of a binary built for that; faults between brokers are
// then left out, and the summary names them.
//
// # What a seed repeats
//
// The faults, their victims, their durations and the load: not the processes'
// timing. A seed that failed once fails again more often than not, and no more.
package chaos
