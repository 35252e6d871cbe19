package broker

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// syncer makes writes durable, many at a time: whoever waits joins the next
// round. A round copies what partitions and the outcome log have grown by into
// the journal and syncs that one file, beside the few files that do not only
// grow.
//
// kfake handles one request after another, and its hooks run before the
// request is handled. So what the request being handled now will write is
// kept apart in current: a round takes it too, but does not call it clean.
type syncer struct {
	failed func(error)          // told the first error; never syncs again after it
	fsync  func(*os.File) error // datasync

	mu       sync.Mutex
	err      error
	dirty    map[target]struct{}
	current  []target
	next     *round // being joined
	inflight *round // being synced

	listings *listings

	runBytes int64 // journalBytes

	work         sync.Mutex // held by the round at work, or by emptyJournal
	journal      *journal
	followers    map[target]*follower
	touched      map[target]struct{} // whose bytes the journal's run holds
	onDisks      onDisks             // of the checkpoint at work, else of who holds work
	checkpointed chan struct{}       // closed: no checkpoint is at work
}

// target names what is to be durable: a partition's directory, whose newest
// segments are meant, or one file or directory by its path.
type target struct {
	path string
	kind targetKind
}

type targetKind byte

const (
	aFile targetKind = iota
	aDir
	aLog       // a file that only grows, or is replaced after emptyJournal
	aPartition // the same of segments, which may also be deleted
)

type round struct {
	done chan struct{}
	err  error
	upTo map[target]int64 // of logs: an outcome behind that may speak of data that the round misses
}

// over says that the round has ended.
func (r *round) over() bool { return isClosed(r.done) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// journalBytes is how long a run of the journal gets, unless the checkpoint of
// the one before takes longer.
const journalBytes = 16 << 20

// newSyncer takes over a directory that is in place and durable up to the
// given ends.
func newSyncer(dir string, ends map[string]position, l *listings, failed func(error)) (*syncer, error) {
	s := &syncer{
		failed: failed, fsync: datasync, listings: l, runBytes: journalBytes, dirty: map[target]struct{}{},
		touched:   map[target]struct{}{},
		followers: map[target]*follower{}, onDisks: onDisks{}, checkpointed: closed,
	}
	for path, end := range ends {
		t := target{path, aPartition}
		s.followers[t] = &follower{target: t, end: end}
		s.onDisks[t] = &onDisk{base: end.base}
	}
	var err error
	s.journal, err = openJournal(dir, func(f *os.File) error { return s.fsync(f) })
	return s, err
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

// note says that targets are written, or about to be, without waiting.
func (s *syncer) note(targets []target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark(targets)
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
	r.upTo = logEnds(targets)
	go s.run(r, targets)
}

func logEnds(targets []target) map[target]int64 {
	ends := map[target]int64{}
	for _, t := range targets {
		if t.kind != aLog {
			continue
		}
		if info, err := os.Stat(t.path); err == nil {
			ends[t] = info.Size()
		}
	}
	return ends
}

func (s *syncer) run(r *round, targets []target) {
	if err := s.syncAll(r, targets); err != nil {
		s.fail(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.err = s.err
	close(r.done)
	s.inflight = nil
	if s.next != nil {
		s.start()
	}
}

// syncAll makes targets durable: what only grows by the journal, the rest
// where it lies.
func (s *syncer) syncAll(r *round, targets []target) error {
	s.work.Lock()
	defer s.work.Unlock()
	var grown []target
	var g errgroup.Group
	for _, t := range targets {
		if t.kind == aPartition || t.kind == aLog {
			grown = append(grown, t)
			continue
		}
		g.Go(func() error { return new(onDisk).sync(t, s.listings, s.fsync) })
	}
	return errors.Join(s.record(grown, r.upTo), g.Wait())
}

// record copies what the targets have grown by into the journal, outcomes
// behind the data that they speak of.
func (s *syncer) record(grown []target, upTo map[target]int64) error {
	if len(grown) == 0 {
		return nil
	}
	if s.journal.size > s.runBytes && s.idle() {
		s.checkpoint()
	}
	slices.SortFunc(grown, func(a, b target) int { return cmp.Compare(b.kind, a.kind) })
	for _, t := range grown {
		f := s.followers[t]
		if f == nil {
			f = newFollower(t)
			s.followers[t] = f
		}
		if err := f.record(s.journal, s.listings, upTo[t]); err != nil {
			return err
		}
		s.touched[t] = struct{}{}
	}
	return s.journal.commit()
}
