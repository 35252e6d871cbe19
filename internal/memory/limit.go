// Package memory says how much memory this process may take, shares it out, and
// says when load has to be shed.
//
//	limit.go     Limit: from the setting, GOMEMLIMIT or the container (cgroup v1 and v2)
//	share.go     Share: the table of who holds what; the only place where memory is divided
//	pressure.go  Pressure: how full memory is, with hysteresis; Watcher: reads it off the Go runtime
//
// # Promises
//
//   - Share and Pressure are pure. Whatever roles a process has, its shares are two thirds of the limit at
//     most: share_test.go. A limit that leaves the parts less than they need is in the log.
//   - Without a limit every part has the default that it has without this package.
package memory

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Percent of a container's limit is the limit of the process. The rest is for
// what the Go runtime does not count, and for pages of files being written.
const Percent = 70

// Limit is what a process may take, and who says so.
type Limit struct {
	Bytes  int64  // 0: nobody has set one
	Source string // setting, GOMEMLIMIT or container; "" without a limit
}

// Find finds the limit. A setting that is not 0 is right, then GOMEMLIMIT, then
// the container's. An error says that the container's cannot be read, which is
// no reason not to start: a host may name a cgroup that this process does not see.
func Find(setting int64) (Limit, error) {
	switch {
	case setting > 0:
		return Limit{setting, "memory.limit"}, nil
	case os.Getenv("GOMEMLIMIT") != "":
		return Limit{debug.SetMemoryLimit(-1), "GOMEMLIMIT"}, nil
	}
	return ofContainer(memlimit.FromCgroup)
}

// unlimited is from where on a limit is none: cgroup v1 writes the largest
// number of pages where nothing is set.
const unlimited = 1 << 60

func ofContainer(read memlimit.Provider) (Limit, error) {
	all, err := read()
	switch {
	case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup),
		errors.Is(err, memlimit.ErrCgroupsNotSupported), errors.Is(err, os.ErrNotExist):
		return Limit{}, nil
	case err != nil:
		return Limit{}, fmt.Errorf("read the container's memory limit: %w", err)
	case all >= unlimited:
		return Limit{}, nil
	}
	return Limit{int64(all / 100 * Percent), "container"}, nil
}

// Apply tells the Go runtime.
func (l Limit) Apply() {
	if l.Bytes > 0 {
		debug.SetMemoryLimit(l.Bytes)
	}
}
