// Package house has the rules of this tree that a machine can check: which
// package may import which (layers.txt), which words no name may have, how long
// a line is, and that every public package has a runnable example. `make check`
// runs it.
package house
