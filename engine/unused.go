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
		used, until := e.used(d)
		switch {
		case used:
			delete(since, d.Name)
		case until.After(first): // also between two checks
			since[d.Name] = until
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

// use is what this process does with a partition's store.
type use struct {
	now   int       // ownerships and standbys that have it, or are still closing it
	until time.Time // when the last one ended
}

// hold notes that an ownership or a standby has the store of a partition, and release that its store
// is closed.
func (e *Engine) hold(partition int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holdLocked(partition)
}

func (e *Engine) holdLocked(partition int32) {
	u := e.uses[partition]
	if u == nil {
		u = &use{}
		e.uses[partition] = u
	}
	u.now++
}

func (e *Engine) release(partition int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.uses[partition]
	u.now--
	u.until = time.Now()
}

// used reports whether a store is in use, and until when it was.
func (e *Engine) used(d recovery.Directory) (now bool, until time.Time) {
	if d.Aside {
		return false, until
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if u := e.uses[d.Partition]; u != nil {
		until = u.until
	}
	return e.usesLocked(d.Partition), until
}

func (e *Engine) usesLocked(partition int32) bool {
	u := e.uses[partition]
	return u != nil && u.now > 0 || e.owned[partition] != nil || e.tails[partition] != nil
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
