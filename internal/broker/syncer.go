package broker

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// syncer makes writes durable, many at a time: whoever waits joins the next
// round, and a round is one fsync of each file written since the last.
//
// kfake handles one request after another, and its hooks run before the
// request is handled. So what the request being handled now will write is
// kept apart in current: a round syncs it too, but does not call it clean.
type syncer struct {
	failed func(error)          // told the first error; never syncs again after it
	fsync  func(*os.File) error // (*os.File).Sync

	mu       sync.Mutex
	err      error
	dirty    map[target]struct{}
	current  []target
	next     *round // being joined
	inflight *round // being synced

	files map[target]*syncFile // of the round's goroutines only
	known map[string]int64     // partition directory to its newest segment when we started; older ones are synced
}

// target names what is to be synced: a partition's directory, whose newest
// segments are meant, or one file or directory by its path.
type target struct {
	path string
	kind targetKind
}

type targetKind byte

const (
	aFile targetKind = iota
	aDir
	aPartition
)

type round struct {
	done chan struct{}
	err  error
}

func newSyncer(known map[string]int64, failed func(error)) *syncer {
	return &syncer{failed: failed, fsync: (*os.File).Sync, dirty: map[target]struct{}{}, files: map[target]*syncFile{}, known: known}
}

// begin is called as kfake turns to a request that may write to targets; the
// request before it is then complete.
func (s *syncer) begin(targets []target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark(s.current)
	s.current = targets
}

// mark notes what was written, and not synced since. The lock is held.
func (s *syncer) mark(targets []target) {
	for _, t := range targets {
		s.dirty[t] = struct{}{}
	}
}

// wait returns when everything written before the call, and also extra, is on
// stable storage.
func (s *syncer) wait(extra ...target) error {
	s.mu.Lock()
	s.mark(extra)
	r := s.join()
	err := s.err
	s.mu.Unlock()
	if r == nil {
		return err
	}
	<-r.done
	return r.err
}

// ticket is wait for somebody who cannot block now; nil means nothing to wait for.
func (s *syncer) ticket(extra []target) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark(extra)
	if len(extra) > 0 && len(s.current) > 0 && &extra[0] == &s.current[0] {
		s.current = nil // the request being handled is this one, and it is done
	}
	return s.join()
}

func (s *syncer) join() *round {
	switch {
	case s.err != nil:
		return &round{done: closed, err: s.err}
	case len(s.dirty) == 0 && len(s.current) == 0:
		return s.inflight
	case s.next == nil:
		s.next = &round{done: make(chan struct{})}
	}
	r := s.next
	if s.inflight == nil {
		s.start()
	}
	return r
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// start turns next into inflight and syncs it. The lock is held.
func (s *syncer) start() {
	r := s.next
	s.next, s.inflight = nil, r
	s.mark(s.current)
	targets := slices.Collect(maps.Keys(s.dirty))
	clear(s.dirty)
	go s.run(r, targets)
}

func (s *syncer) run(r *round, targets []target) {
	err := s.syncAll(targets)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.err == nil {
		s.err = err
		s.failed(err)
	}
	r.err = s.err
	close(r.done)
	s.inflight = nil
	if s.next != nil {
		s.start()
	}
}

// syncAll syncs up to 16 files at once: that many share a journal commit.
func (s *syncer) syncAll(targets []target) error {
	var (
		wg   sync.WaitGroup
		errs = make([]error, len(targets))
		slot = make(chan struct{}, 16)
	)
	for i, t := range targets {
		f := s.files[t]
		if f == nil {
			f = &syncFile{target: t, base: -1, by: s}
			if base, ok := s.known[t.path]; ok {
				f.base = base - 1
			}
			s.files[t] = f
		}
		if len(targets) == 1 {
			return f.sync()
		}
		wg.Add(1)
		slot <- struct{}{}
		go func() {
			defer wg.Done()
			errs[i] = f.sync()
			<-slot
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// close forgets the open files. No round may be running.
func (s *syncer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		f.close()
	}
	clear(s.files)
}

// syncFile is one target with its open file. kfake writes through a handle of
// its own; an fsync concerns the file, whoever wrote.
type syncFile struct {
	target
	by   *syncer
	f    *os.File
	base int64 // segment: base offset of f
}

func (s *syncFile) close() {
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
}

// sync returns nil for a target that is gone: its topic was deleted.
func (s *syncFile) sync() error {
	var err error
	switch s.kind {
	case aPartition:
		err = s.syncSegments()
	case aDir:
		err = syncDir(s.path)
	case aFile:
		err = s.syncPath()
	}
	if errors.Is(err, fs.ErrNotExist) {
		s.close()
		return nil
	}
	return err
}

func (s *syncFile) syncPath() error {
	if s.f == nil || !sameFile(s.f, s.path) {
		s.close()
		f, err := os.OpenFile(s.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		s.f = f
		if err := syncDir(filepath.Dir(s.path)); err != nil {
			return err
		}
	}
	return s.by.fsync(s.f)
}

// syncSegments syncs every segment that may have grown since the last time:
// the one that was newest then, and those behind it.
func (s *syncFile) syncSegments() error {
	switch {
	case s.f == nil:
	case sameFile(s.f, filepath.Join(s.path, segmentName(s.base))):
		if err := s.by.fsync(s.f); err != nil {
			return err
		}
	default: // deleted below us, perhaps made anew
		s.close()
		s.base = -1
	}
	bases, err := segmentBases(s.path)
	if err != nil {
		return err
	}
	grown := false
	for _, base := range bases {
		if base <= s.base {
			continue
		}
		f, err := os.OpenFile(filepath.Join(s.path, segmentName(base)), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		s.close()
		s.f, s.base, grown = f, base, true
		if err := s.by.fsync(f); err != nil {
			return err
		}
	}
	if !grown {
		return nil
	}
	return errors.Join(syncDir(s.path), syncDir(filepath.Dir(s.path)))
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
