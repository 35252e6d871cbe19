//go:build !nextformat

package topics

// The newest formats of State and Progress that this version writes and reads.
const (
	stateFormat    = 1
	progressFormat = 1
)
