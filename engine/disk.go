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

// A member whose disk takes nothing more gives its partitions away: it goes on
// being a member, but subscribes to nothing, so the group gives them to members
// that have room, in one rebalance. Where nobody else is, nobody has them. Once
// there is room again it subscribes again.

// DiskStatus is the disk that the stores are on.
type DiskStatus struct {
	Free, Total int64 // bytes; Total 0: not known
	Reserve     int64 // that must be free
	Full        bool  // nothing is owned here until there is room
	Why         string
}

// room decides whether the disk counts as full.
type room struct {
	full  bool
	why   string
	since time.Time
}

// seen is one look at the disk.
type seen struct {
	free, total, reserve int64
	failed               error // a write for want of room since the last look
	takes                func() error
}

// How long a full disk stays full at least, and how much more than the reserve
// must be free: partitions that come and go restore again and again.
const (
	fullFor  = 10 * time.Second
	roomMore = 2
)

// next is what the disk is after a look.
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

// diskState is what the engine knows of its disk.
type diskState struct {
	failed atomic.Pointer[error] // newest, until the next look
	woken  chan struct{}
	status atomic.Pointer[DiskStatus]
}

// noRoom is called by stores, in the middle of a write.
func (d *diskState) noRoom(err error) {
	d.failed.Store(&err)
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// Disk is what the last look at it saw.
func (e *Engine) Disk() DiskStatus {
	if s := e.disk.status.Load(); s != nil {
		return *s
	}
	return DiskStatus{}
}

// diskEvery is how often the free bytes are asked for.
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
			e.process.Logger.Info("the disk of the stores has room again; taking part in the group", "free", s.free)
			e.rejoined()
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

// reserveShare of a small disk is enough: else it would always be full.
const reserveShare = 10

// seeDisk looks at the disk.
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

// tryBytes is what a disk with room must take.
const tryBytes = 1 << 20

// tryDisk writes to the disk: quotas and read-only disks do not show in what is
// free.
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

// keepShowing keeps partitions that are given away in Partitions, until others have
// them.
func (e *Engine) keepShowing() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, own := range e.owned {
		e.lost[id] = own
	}
}

// forgetTaken ends that for those that others have.
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

// standbysRest says that no standby may write.
func (e *Engine) standbysRest() bool { return e.Disk().Full }

// awaitRoom waits while the disk is full, before anything is opened on it.
func (e *Engine) awaitRoom(ctx context.Context) {
	for e.Disk().Full && ctx.Err() == nil {
		wait.For(ctx, roomPoll)
	}
}

const roomPoll = 200 * time.Millisecond
