package node

import (
	"fmt"
	"os"
	"slices"
	"syscall"
)

// mayAdopt says whether a directory that is there may become, or is, our data
// directory. It is asked before anything in it is touched: a directory of somebody
// else's must not be locked away from them, and what they put into one must not be
// taken for ours.
func mayAdopt(dir string, self int) error {
	about, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("cannot look at the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	if !about.IsDir() {
		return fmt.Errorf("%s is no directory. Choose another with --data-dir", dir)
	}
	owner := self
	if stat, ok := about.Sys().(*syscall.Stat_t); ok {
		owner = int(stat.Uid)
	}
	// A volume that is mounted for us may be root's: then our group may write it.
	if owner != self && owner != 0 {
		return fmt.Errorf("the data directory %s belongs to user %d, and this process runs as user %d. "+
			"Run as its owner, give it away with chown, or choose another with --data-dir", dir, owner, self)
	}
	return neverForeign(dir)
}

// neverForeign refuses a directory with files that no version of ours wrote.
func neverForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	var others []string
	for _, e := range entries {
		if name := e.Name(); name != "lock" && name != "lost+found" { // of a start that was cut short; of a file system
			others = append(others, name)
		}
	}
	if len(others) == 0 || slices.Contains(others, "VERSION") {
		return nil
	}
	return fmt.Errorf("the directory %s has files that are not ours (%s), and no VERSION. "+
		"Choose an empty or a new one with --data-dir", dir, others[0])
}
