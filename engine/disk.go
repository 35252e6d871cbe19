package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/wait"
)

// A member whose disk is full gives its partitions away. It stays a member but subscribes
// to nothing, so the group gives the partitions to members that have room, in one
// rebalance. If there is no other member, nobody owns them. When there is room, the member
// subscribes as before.

// DiskStatus describes the disk that holds the stores.
type DiskStatus struct {
	Free, Total int64 // bytes; Total is 0 if not known
	Reserve     int64 // bytes that must stay free
	Full        bool  // this process owns nothing until there is room
	Why         string
}

// room decides whether the disk counts as full.
type room struct {
	full  bool
	why   string
	since time.Time
}

// seen is the result of one check of the disk.
type seen struct {
	free, total, reserve int64
	failed               error // a write that found no room since the last check
	takes                func() error
}

// A full disk counts as full for at least fullFor, and until roomMore times the reserve is
// free: a partition that comes and goes is restored each time.
const (
	fullFor  = 10 * time.Second
	roomMore = 2
)

// next returns the state of the disk after a check.
func (r room) next(now time.Time, s seen) room {
	short := s.total > 0 && s.free < s.reserve
	switch {
	case s.failed != nil:
		return room{true, fmt.Sprintf("a write failed: %v", s.failed), now}
	case short && !r.full:
		return room{true, fmt.Sprintf("%d MiB are free, and disk.reserve is %d MiB", s.free>>20, s.reserve>>20), now}
	case !r.full || now.Sub(r.since) < fullFor || s.total > 0 && s.free < roomMore*s.reserve:
		return r
	}
	if err := s.takes(); err != nil {
		return room{true, fmt.Sprintf("a write failed: %v", err), now}
	}
	return room{}
}

// diskState is what the engine knows about its disk.
type diskState struct {
	failed atomic.Pointer[error] // newest, until the next check
	woken  chan struct{}
	status atomic.Pointer[DiskStatus]
}

// noRoom notes a failed write. Stores call it in the middle of a write.
func (d *diskState) noRoom(err error) {
	d.failed.Store(&err)
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// Disk returns the result of the last check.
func (e *Engine) Disk() DiskStatus {
	if s := e.disk.status.Load(); s != nil {
		return *s
	}
	return DiskStatus{}
}

// diskEvery is the time between two checks of the disk.
const diskEvery = time.Second

// watchDisk gives partitions away while the disk is full, until ctx ends.
func (e *Engine) watchDisk(ctx context.Context) {
	var r room
	for ctx.Err() == nil {
		s := e.seeDisk()
		was := r
		r = r.next(e.process.Now(), s)
		e.disk.status.Store(&DiskStatus{s.free, s.total, s.reserve, r.full, r.why})
		commands := e.process.Names.Commands()
		switch {
		case r.full && !was.full:
			e.process.Logger.Error("the disk of the stores is full; giving every partition to members that have room",
				"dir", e.process.Dir, "why", r.why, "free", s.free, "total", s.total)
			e.keepShowing()
			e.cl.PurgeTopicsFromConsuming(commands)
			e.tailOnly(nil)
		case !r.full && was.full:
			e.process.Logger.Info("the disk of the stores has room again; rejoining the group", "free", s.free)
			e.onRejoined()
			e.cl.AddConsumeTopics(commands)
		case r.full:
			e.forgetTaken(ctx)
		}
		tick := time.NewTimer(diskEvery)
		select {
		case <-ctx.Done():
		case <-e.disk.woken:
		case <-tick.C:
		}
		tick.Stop()
	}
}

// reserveShare bounds the reserve on a small disk, which would otherwise always count as
// full.
const reserveShare = 10

// seeDisk checks the disk.
func (e *Engine) seeDisk() seen {
	s := seen{reserve: e.process.DiskReserve, takes: e.tryDisk}
	if err := e.disk.failed.Swap(nil); err != nil {
		s.failed = *err
	}
	if u, err := e.storeFS().GetDiskUsage(e.process.Dir); err == nil {
		s.free, s.total = int64(u.AvailBytes), int64(u.TotalBytes)
		s.reserve = min(s.reserve, s.total/reserveShare)
	}
	return s
}

func (e *Engine) storeFS() vfs.FS {
	if e.process.StoreFS != nil {
		return e.process.StoreFS
	}
	return vfs.Default
}

// tryBytes is the size of the test write.
const tryBytes = 1 << 20

// tryDisk writes to the disk, because the number of free bytes shows neither a quota nor a
// read-only disk.
func (e *Engine) tryDisk() error {
	fs := e.storeFS()
	name := fs.PathJoin(e.process.Dir, ".room")
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, tryBytes))
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if removed := fs.Remove(name); err == nil {
		err = removed
	}
	return err
}

// keepShowing keeps given-away partitions in Partitions until other members own them.
func (e *Engine) keepShowing() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, own := range e.owned {
		e.lost[id] = own
	}
}

// forgetTaken removes those that other members own by now.
func (e *Engine) forgetTaken(ctx context.Context) {
	e.mu.Lock()
	n := len(e.lost)
	e.mu.Unlock()
	if n == 0 {
		return
	}
	_, members, err := e.describeGroup(ctx)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range e.lost {
		if slices.ContainsFunc(members, func(m member) bool { return slices.Contains(m.owns, id) }) {
			delete(e.lost, id)
		}
	}
}

// standbysRest reports whether standbys must not write.
func (e *Engine) standbysRest() bool { return e.Disk().Full }

// awaitRoom waits while the disk is full. It runs before a partition is opened.
func (e *Engine) awaitRoom(ctx context.Context) {
	for e.Disk().Full && ctx.Err() == nil {
		wait.For(ctx, roomPoll)
	}
}

const roomPoll = 200 * time.Millisecond
