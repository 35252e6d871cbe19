package broker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// onDisks are targets with what is known of their durable segments.
type onDisks map[target]*onDisk

// onDisk syncs a target where it lies.
type onDisk struct {
	base int64 // of the segment that was the newest when it was synced last
}

// checkpoint begins a new run of the journal, and syncs in the background what
// the last one holds copies of: one file after the other, so that the journal
// never waits for more than one of them. Called at work, with none under way.
func (s *syncer) checkpoint() {
	touched := s.touched
	s.touched = map[target]struct{}{}
	s.journal.turn()
	checkpointed := make(chan struct{})
	s.checkpointed = checkpointed
	go func() {
		defer close(checkpointed)
		if err := s.syncOnDisk(touched); err != nil {
			s.fail(err)
		}
	}()
}

func (s *syncer) idle() bool { return isClosed(s.checkpointed) }

// emptyJournal makes all that the journal holds, and extra, durable where it lies,
// and empties the journal: files may be replaced or deleted then. Whoever calls
// it sees to it that nothing is written to those meanwhile; to others kfake goes
// on writing, and what comes after their sync began the next round takes.
func (s *syncer) emptyJournal(extra ...target) error {
	s.work.Lock()
	defer s.work.Unlock()
	<-s.checkpointed
	if err := s.failure(); err != nil {
		return err
	}
	for _, t := range extra {
		s.touched[t] = struct{}{}
	}
	if err := s.syncTouched(); err != nil {
		s.fail(err)
	}
	return s.failure()
}

func (s *syncer) syncTouched() error {
	synced := map[*follower]int64{}
	for t := range s.touched {
		f := s.followers[t]
		if f == nil {
			continue
		}
		size, err := f.size()
		if err != nil {
			return err
		}
		synced[f] = size
	}
	if err := s.syncOnDisk(s.touched); err != nil {
		return err
	}
	for f, size := range synced {
		f.end.byte = size
	}
	clear(s.touched)
	return s.journal.void()
}

// forget drops what is known of partitions that are about to be deleted.
func (s *syncer) forget(deleted func(dir string) bool) {
	s.work.Lock()
	defer s.work.Unlock()
	<-s.checkpointed
	for t, f := range s.followers {
		if t.kind == aPartition && deleted(t.path) {
			f.close()
			delete(s.followers, t)
			delete(s.onDisks, t)
		}
	}
}

// close forgets the open files. No round may be running, and none begins.
func (s *syncer) close() {
	s.mu.Lock()
	if s.err == nil {
		s.err = os.ErrClosed
	}
	s.mu.Unlock()
	s.work.Lock()
	defer s.work.Unlock()
	<-s.checkpointed
	for _, f := range s.followers {
		f.close()
	}
	s.journal.close()
}

func (s *syncer) syncOnDisk(targets map[target]struct{}) error {
	for t := range targets {
		p := s.onDisks[t]
		if p == nil {
			p = &onDisk{base: -1}
			s.onDisks[t] = p
		}
		if err := p.sync(t, s.listings, s.fsync); err != nil {
			return err
		}
	}
	return nil
}

func (s *syncer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *syncer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.failed(err)
	}
}

// sync returns nil for a target that is gone: its topic was deleted.
func (p *onDisk) sync(t target, l *listings, fsync func(*os.File) error) error {
	var err error
	switch t.kind {
	case aPartition:
		err = p.syncSegments(t.path, l, fsync)
	case aDir:
		err = syncDir(t.path)
	default:
		err = errors.Join(syncPath(t.path, fsync), syncDir(filepath.Dir(t.path)))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncSegments syncs every segment that may have grown since the last time:
// the one that was newest then, and those behind it.
func (p *onDisk) syncSegments(dir string, l *listings, fsync func(*os.File) error) error {
	bases, err := l.bases(dir)
	if err != nil || len(bases) == 0 {
		return err
	}
	if !slices.Contains(bases, p.base) {
		p.base = -1 // deleted below us, perhaps the partition made anew
	}
	for _, base := range bases {
		if base < p.base {
			continue
		}
		if err := syncPath(filepath.Join(dir, segmentName(base)), fsync); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	newest := bases[len(bases)-1]
	if newest == p.base {
		return nil
	}
	p.base = newest
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

func syncPath(path string, fsync func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return fsync(f)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
