package analytics

import "fmt"

// The codes of an Error.
const (
	CodeGap         = "export_gap"        // the log has dropped what is not exported yet
	CodeForeign     = "foreign_directory" // the directory is of another topic, or of other settings
	CodeDamaged     = "damaged_directory" // a file or a manifest is not what it was
	CodeNoPartition = "no_partition"      // an accepted gap is of a partition that the topic does not have
)

// Error is what only a person can decide. Trying on does not help.
type Error struct{ Code, Msg string }

func (e *Error) Error() string { return e.Code + ": " + e.Msg }

func refused(code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

func damaged(name, format string, args ...any) error {
	return refused(CodeDamaged, "%s %s. Restore the directory from a copy, or export to a new one; the log still has "+
		"what it has kept", name, fmt.Sprintf(format, args...))
}
