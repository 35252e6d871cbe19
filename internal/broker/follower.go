package broker

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// follower knows how far a partition, or a log, is in the journal. kfake writes
// through a handle of its own.
type follower struct {
	target
	f   *os.File // of the segment at end.base, or of the log
	end position // recorded, or durable where it lies, up to here
}

func newFollower(t target) *follower { return &follower{target: t, end: position{base: -1}} }

// record takes what is new, of a log up to a byte. A target that is gone has
// nothing new: its topic was deleted.
func (f *follower) record(j *journal, l *listings, upTo int64) error {
	var err error
	if f.kind == aLog {
		err = f.recordFile(j, f.path, upTo)
	} else {
		err = f.recordSegments(j, l)
	}
	if errors.Is(err, fs.ErrNotExist) {
		f.close()
		f.end = position{base: -1}
		return nil
	}
	return err
}

// recordSegments takes the rest of the segment that was the newest, and those
// behind it. Should that one be gone, those that are left count as new.
func (f *follower) recordSegments(j *journal, l *listings) error {
	bases, err := l.bases(f.path)
	if err != nil {
		return err
	}
	if !slices.Contains(bases, f.end.base) {
		f.close()
		f.end = position{base: -1}
	}
	for _, base := range bases {
		if base < f.end.base {
			continue
		}
		if base > f.end.base {
			f.close()
			f.end = position{base: base}
		}
		if err := f.recordFile(j, filepath.Join(f.path, segmentName(base)), math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) recordFile(j *journal, path string, upTo int64) error {
	if f.f != nil && !sameFile(f.f, path) {
		f.close()
		f.end.byte = 0 // replaced, or made anew
	}
	if f.f == nil {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		f.f = file
	}
	size, err := f.size() // what is written from here on is the next round's: this one ends, however fast others write
	if err != nil {
		return err
	}
	f.end.byte, err = j.capture(f.f, f.end.byte, min(upTo, size))
	return err
}

// size is how much there is now of what is followed, at least what was recorded.
func (f *follower) size() (int64, error) {
	if f.f == nil {
		return f.end.byte, nil
	}
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return max(f.end.byte, info.Size()), nil
}

func (f *follower) close() {
	if f.f != nil {
		f.f.Close()
		f.f = nil
	}
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// listings remember the segments of directories. kfake adds and deletes a few
// a minute, and they are asked for hundreds of times a second.
type listings struct {
	mu   sync.Mutex
	dirs map[string]listing
}

type listing struct {
	changed time.Time // the directory, as its listing was read
	sure    bool      // nothing can have changed since within the same tick
	bases   []int64
}

// tick is more than the grain of a directory's modification time: at most 10 ms where it shows parts of a
// second, else a second on ext3 and HFS+, two on FAT.
func tick(changed time.Time) time.Duration {
	if changed.Nanosecond() != 0 {
		return 100 * time.Millisecond
	}
	return 3 * time.Second
}

// bases is segmentBases, read again only if the directory may have changed.
func (c *listings) bases(dir string) ([]int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	l, ok := c.dirs[dir]
	c.mu.Unlock()
	if ok && l.sure && l.changed.Equal(info.ModTime()) {
		return l.bases, nil
	}
	l = listing{changed: info.ModTime(), sure: time.Since(info.ModTime()) > tick(info.ModTime())}
	if l.bases, err = segmentBases(dir); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs == nil {
		c.dirs = map[string]listing{}
	}
	c.dirs[dir] = l
	return l.bases, nil
}
