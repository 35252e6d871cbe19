//go:build nextformat

package topics

// The formats of the version after this one, for the test of a rolling
// downgrade (test/e2e): a binary built with this tag writes what this version
// must refuse.
const (
	stateFormat    = 2
	progressFormat = 2
)
