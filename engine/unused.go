package engine

import (
	"context"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/recovery"
)

// unusedChecks is how often, within MaxAway, this process checks which stores nobody uses.
const unusedChecks = 12

// removeUnused removes stores that this process has not used for MaxAway: those that are put
// aside, and those of partitions that it neither owns nor is standby for. They would be rebuilt,
// not resumed, and they hold what was erased since.
func (e *Engine) removeUnused(ctx context.Context) {
	since := map[string]time.Time{}
	wait.Every(ctx, e.process.MaxAway/unusedChecks, func() { e.checkUnused(since) })
}

// checkUnused is one check. since holds when each directory was first found unused.
func (e *Engine) checkUnused(since map[string]time.Time) {
	c := e.process.Recovery()
	for _, d := range c.Directories() {
		first, known := since[d.Name]
		switch {
		case !d.Aside && e.uses(d.Partition):
			delete(since, d.Name)
		case !known:
			since[d.Name] = time.Now()
		case time.Since(first) >= e.process.MaxAway:
			delete(since, d.Name)
			if err := e.remove(c, d); err != nil {
				e.process.Logger.Warn("an unused store could not be removed", "store", d.Name, "error", err)
			}
		}
	}
}

func (e *Engine) uses(partition int32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.usesLocked(partition)
}

func (e *Engine) usesLocked(partition int32) bool {
	return e.owned[partition] != nil || e.tails[partition] != nil
}

// remove removes a store, unless the partition came back meanwhile. No partition comes while e.mu
// is held, so only the rename happens then.
func (e *Engine) remove(c *recovery.Config, d recovery.Directory) (err error) {
	if !d.Aside {
		e.mu.Lock()
		used := e.usesLocked(d.Partition)
		if !used {
			d, err = c.PutAside(d)
		}
		e.mu.Unlock()
		if used || err != nil {
			return err
		}
	}
	return c.Remove(d)
}
