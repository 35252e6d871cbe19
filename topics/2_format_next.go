//go:build nextformat

package topics

// Newest is that of the version after this one, for the tests of rolling
// upgrades (test/e2e): this version must refuse what a binary built with this
// tag writes once every member reads it.
const (
	Newest       Format = 4
	alwaysNewest        = true
)
