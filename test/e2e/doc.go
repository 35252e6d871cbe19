// Package e2e runs the built binary as its users do: real processes, real
// brokers, kill -9, SIGSTOP, lost disks, foreign clients; and judges them by
// what a read_committed reader finds in the topics afterwards.
package e2e
