package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/room"
	"github.com/waterclock/waterclock/internal/wait"
)

// A disk that takes nothing more is not damaged. With Options.AwaitRoom the broker then
// closes its connections, waits until there is room, and starts again in place, as it does
// to compact. Nothing that was acknowledged is lost: the answer that could not be kept was
// not sent, and the start repairs what was written in part.

// stopped notes why the node serves no more; first is false if it had stopped before.
func (b *node) stopped(err error) (first bool) {
	switch {
	case b.noRoom.get() != nil:
		return false // what fails behind a full disk, the next start repairs
	case b.opts.AwaitRoom && b.data != "" && room.Lacking(err):
		return b.noRoom.set(fmt.Errorf("the disk of the embedded broker is full: %w", err))
	}
	return b.fatal.set(err)
}

// failure is why the node serves no more, or nil.
func (b *node) failure() error { return errors.Join(b.noRoom.get(), b.fatal.get()) }

// NoRoom is why the broker does not serve for now: its disk takes nothing more. It is nil
// while it serves.
func (b *Broker) NoRoom() error {
	if why := b.waiting.Load(); why != nil {
		return *why
	}
	return nil
}

// The broker starts again when leastRoom is free, or a share of a small disk, and a test
// write of tryRoom bytes succeeds: the number of free bytes does not show a quota.
const (
	leastRoom  = 64 << 20
	shareRoom  = 20 // one twentieth
	tryRoom    = 1 << 20
	roomChecks = time.Second
)

// resume waits for room and starts kfake again. It is false if stop ended first, or the
// start failed for another reason.
func (b *Broker) resume(stop context.Context) bool {
	b.mu.Lock()
	why := b.node.noRoom.get()
	b.waiting.Store(&why)
	begun := time.Now()
	b.opts.Logger.Error("the broker serves nothing until there is room; free some space or enlarge the volume",
		"dir", b.opts.Dir, "error", why)
	_ = b.node.close() // what it cannot save, the start repairs
	b.mu.Unlock()
	for {
		if wait.For(stop, roomChecks); stop.Err() != nil {
			return false
		}
		if !b.hasRoom() {
			continue
		}
		b.mu.Lock()
		err := b.startAnew(stop, before{})
		b.mu.Unlock()
		switch {
		case err == nil:
			b.waiting.Store(nil)
			b.opts.Logger.Info("the disk has room again; the broker serves requests", "after", time.Since(begun))
			return true
		case !room.Lacking(err) && !errors.Is(err, syscall.EADDRINUSE):
			b.fatal.set(err)
			return false
		}
	}
}

func (b *Broker) hasRoom() bool {
	if b.opts.hasRoom != nil {
		return b.opts.hasRoom()
	}
	if u, err := vfs.Default.GetDiskUsage(b.opts.Dir); err == nil &&
		u.AvailBytes < min(leastRoom, u.TotalBytes/shareRoom) {
		return false
	}
	name := filepath.Join(b.opts.Dir, ".room")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_, err = f.Write(make([]byte, tryRoom))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(name)) == nil
}

// startAnew starts kfake on the same address as before.
func (b *Broker) startAnew(ctx context.Context, from before) error {
	n, err := startNode(context.WithoutCancel(ctx), b.opts, b.addr, from, b.fatal)
	if err != nil {
		return err
	}
	b.node = n
	b.entry.Store(n.doors)
	return nil
}

// current is the node that serves.
func (b *Broker) current() *node {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.node
}
