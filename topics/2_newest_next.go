//go:build nextformat

package topics

// Newest is the format of the next version, for the tests of rolling upgrades (test/e2e). A
// binary with this build tag writes it once every member reads it, and this version must then
// refuse it.
const (
	Newest       Format = 7
	alwaysNewest        = true
)
