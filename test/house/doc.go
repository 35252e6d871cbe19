// Package house has the rules of this tree that a machine can check: which
// package may import which (layers.txt), which words no name may have, and how
// long a line is. `make check` runs it.
package house
