//go:build !nextformat

package topics

// Newest is the newest format that this version reads.
const (
	Newest       = DecidedNames
	alwaysNewest = false
)
