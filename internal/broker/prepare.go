package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/wait"
)

// kfake knows where each batch lies in its file, so files can be exchanged only while it does not run. Compacting them
// takes much longer than a restart. So the broker first compacts closed segments into copies while it serves: kfake
// does not write to those any more. The restart then only exchanges directories.
//
//	partitions/X       0.dat  1000.dat  2000.dat  3000.dat (open)      kfake reads and appends
//	cleaning/X.ahead   0.dat  1500.dat                                 a copy of the first three
//	partitions/X       0.dat  1500.dat  3000.dat  4000.dat             after the restart

// ahead is such a copy of one partition.
type ahead struct {
	of       partOf // as its topic was configured
	dir      string
	covers   []segment // the closed segments that it is a copy of
	segments []segment // its own
	stable   int64     // offsets from here on are as they were: a transaction was open there
}

const aheadSuffix = ".ahead"

// enoughAhead is the share of Options.RestartBytes that copies must stand for, or no restart is made for them.
const enoughAhead = 0.5

// compactBeside compacts what has grown, and restarts kfake to exchange the files.
func (b *Broker) compactBeside(stop context.Context, n *node, g *growth) error {
	begun := time.Now()
	enough := max(1, int64(enoughAhead*float64(b.opts.RestartBytes)))
	if g.closed < enough {
		return nil
	}
	if u, err := vfs.Default.GetDiskUsage(b.opts.Dir); err == nil && u.AvailBytes < uint64(g.size)+leastRoom {
		b.opts.Logger.Warn("there is no room for compacted copies of topics, so the broker is away while it compacts",
			"available", u.AvailBytes, "needed", uint64(g.size)+leastRoom)
		return b.restart(stop, nil)
	}
	copies, err := n.compactAhead(stop, g.parts)
	if covered := n.compactedBy(copies); err == nil && covered >= enough {
		b.opts.Logger.Info("compacted closed segments", "partitions", len(copies), "bytes", covered,
			"took", time.Since(begun))
		return b.restart(stop, copies)
	}
	for _, a := range copies {
		err = errors.Join(err, os.RemoveAll(a.dir))
	}
	return err
}

// compactedBy is how many bytes of the log the copies stand for that still begin their partitions. What is copied byte
// for byte does not count: a restart gains nothing by it.
func (b *node) compactedBy(copies map[floorKey]*ahead) (n int64) {
	for _, a := range copies {
		if now, err := listSegments(a.of.in(b.data)); err != nil || !a.begins(now) {
			continue
		}
		for _, s := range a.covers {
			if s.end <= a.stable {
				n += s.size
			}
		}
	}
	return n
}

// compactAhead makes the copies, one after the other.
func (b *node) compactAhead(stop context.Context, parts []partOf) (map[floorKey]*ahead, error) {
	copies := map[floorKey]*ahead{}
	for _, p := range parts {
		a, err := b.compactPartAhead(stop, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue // trimmed, or its topic was deleted
		}
		if err != nil {
			return copies, fmt.Errorf("compact %s-%d: %w", p.topic.Name, p.partition, err)
		}
		if a != nil {
			copies[p.key()] = a
		}
	}
	return copies, nil
}

func (b *node) compactPartAhead(stop context.Context, of partOf) (_ *ahead, err error) {
	dir := of.in(b.data)
	breath := b.breath(stop)
	scan, err := scanClosed(dir, breath)
	if err != nil || len(scan.segments) == 0 {
		return nil, err
	}
	c := newCleaner(&part{partOf: of, partScan: scan}, time.Now())
	c.stable, c.breath = scan.lastStable(), breath
	a := &ahead{
		of: of, dir: filepath.Join(b.opts.Dir, cleanDir, filepath.Base(dir)+aheadSuffix),
		covers: scan.segments, stable: c.stable,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(a.dir))
		}
	}()
	if err := errors.Join(os.RemoveAll(a.dir), os.MkdirAll(a.dir, 0o700)); err != nil {
		return nil, err
	}
	if err := c.survey(); err != nil {
		return nil, err
	}
	if a.segments, err = c.rewrite(a.dir, b.opts.SegmentBytes); err != nil {
		return nil, err
	}
	return a, nil
}

// breath is called after each segment. It waits as long as that took, so that copies take half a core, and ends with
// an error when the node does, or when the copies would take the last of the disk.
func (b *node) breath(stop context.Context) func() error {
	last := time.Now()
	return func() error {
		wait.For(stop, time.Since(last))
		last = time.Now()
		if u, err := vfs.Default.GetDiskUsage(b.opts.Dir); err == nil && u.AvailBytes < leastRoom {
			return fmt.Errorf("only %d bytes of the disk are left", u.AvailBytes)
		}
		return errors.Join(stop.Err(), b.failure())
	}
}

// scanClosed reads the segments that kfake does not write to any more: all but the newest.
func scanClosed(dir string, breath func() error) (*partScan, error) {
	s := newPartScan(dir)
	bases, err := segmentBases(dir)
	if err != nil {
		return nil, err
	}
	for _, base := range bases[:max(0, len(bases)-1)] {
		if err := s.segment(base, false, nil); err != nil {
			return nil, err
		}
		if err := breath(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// lastStable is the offset below which every transaction has ended (Kafka's last stable offset).
func (s *partScan) lastStable() int64 {
	stable := s.end
	for _, o := range s.open {
		stable = min(stable, o.first)
	}
	return stable
}

// fits says that a may take the place of what it is a copy of: the topic is configured as it was, and those segments
// still begin the partition.
func (a *ahead) fits(p *part) bool {
	return p.mayCompact() && maps.Equal(p.topic.Configs, a.of.topic.Configs) && a.begins(p.segments)
}

func (a *ahead) begins(segments []segment) bool {
	n := len(a.covers)
	return len(segments) >= n && slices.EqualFunc(segments[:n], a.covers, func(x, y segment) bool {
		return x.base == y.base && x.size == y.size
	})
}

// exchange puts the copy and the segments behind it in the partition's place.
func (r *repairer) exchange(p *part, a *ahead) error {
	work, name := filepath.Join(r.dir, cleanDir), filepath.Base(p.dir)
	fresh := filepath.Join(work, name+".new")
	if err := os.Rename(a.dir, fresh); err != nil {
		return err
	}
	rest := p.segments[len(a.covers):]
	for _, s := range rest {
		for _, file := range []string{segmentName(s.base), indexName(s.base)} {
			err := linkOrCopy(filepath.Join(p.dir, file), filepath.Join(fresh, file))
			if err != nil && !(errors.Is(err, fs.ErrNotExist) && file == indexName(s.base)) { // that is written anew
				return err
			}
		}
	}
	if err := swapIn(work, name, p.dir); err != nil {
		return err
	}
	before := p.bytes
	p.segments, p.clean = slices.Concat(a.segments, rest), bytesOf(a.segments)
	p.bytes = bytesOf(p.segments)
	p.aborted = slices.DeleteFunc(p.aborted, func(t abortedTxn) bool { return t.last < a.stable })
	r.log.Info("compacted", "topic", p.topic.Name, "partition", p.partition, "before", before, "after", p.bytes)
	return nil
}
