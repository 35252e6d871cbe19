package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/waterclock/waterclock/internal/pace"
	"github.com/waterclock/waterclock/internal/room"
	"github.com/waterclock/waterclock/sinks"
)

// Store is a sinks.History in a directory.
type Store struct {
	opts Options
	db   *pebble.DB

	write   sync.Mutex               // one batch at a time; also over the next three
	applied map[int32]sinks.Progress // positions in the directory
	letters map[int32]sinks.Progress // positions of topic dead-letter
	rows    rows                     // of the batch that is applied

	pace   *pace.Pace  // of flushes, compactions and sweeps
	waited atomic.Bool // Open or Close waits for them

	serving atomic.Bool // it is open: writes that find no space wait (internal/room)

	open    sync.RWMutex // read lock: the database is in use; Close takes the write lock
	closed  bool
	stop    chan struct{}
	sweeper sync.WaitGroup
}

var _ sinks.History = (*Store)(nil)

// formatVersion is the number of the keyspace in doc.go. In format 1 rows were JSON, and format 2
// had no notifications. Both are readable. Older binaries refuse format 3.
const (
	formatVersion = "3"
	formatEvents  = "2"
	formatJSON    = "1"
)

// memTableBytes is the size of a memtable. The first one is small, and each has twice the size of the
// one before.
const memTableBytes = 16 << 20

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("history store is closed")

// Open opens a directory, or creates it. A directory that Pebble finds corrupt is renamed to
// <dir>.corrupt-<time>. An empty one replaces it, which the projector fills from the log.
func Open(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Store{opts: opts.withDefaults(), stop: make(chan struct{})}
	s.waited.Store(true)
	if err := s.openOrReplace(); err != nil {
		return nil, err
	}
	s.waited.Store(false)
	s.serving.Store(true)
	err := s.checkFormat()
	if err == nil {
		s.applied, err = s.progress(tableProgress)
	}
	if err == nil {
		s.letters, err = s.progress(tableLetterProgress)
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	if s.opts.SweepEvery > 0 {
		s.sweeper.Go(s.sweepOften)
	}
	return s, nil
}

func (s *Store) openOrReplace() (err error) {
	if s.db, err = s.openDB(); err == nil || !pebble.IsCorruptionError(err) {
		return wrap("open history", err)
	}
	aside := fmt.Sprintf("%s.corrupt-%d", s.opts.Dir, s.opts.Now().Unix())
	s.opts.Logger.Error("history: directory is corrupt; moved aside, filling a new one from the log",
		"to", aside, "err", err)
	if err := s.opts.FS.Rename(s.opts.Dir, aside); err != nil {
		return fmt.Errorf("set corrupt history aside: %w", err)
	}
	s.db, err = s.openDB()
	return wrap("open history", err)
}

func (s *Store) openDB() (*pebble.DB, error) {
	if err := s.opts.FS.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return nil, err
	}
	// Pebble reserves memtables out of the cache: the one that is written, and one that it keeps to use
	// it anew. Without room for them, nothing would be in the cache as soon as they have their full
	// size, and each read of a row would read six blocks.
	cache := pebble.NewCache(s.opts.CacheBytes + 2*int64(s.opts.MemTableBytes))
	defer cache.Unref() // the database holds its own reference
	o := &pebble.Options{
		FS: s.opts.FS, Cache: cache, FormatMajorVersion: pebble.FormatNewest,
		MaxOpenFiles: 256, Merger: merger, Logger: quiet{s.opts.Logger},
		// There are far more writes than reads, so new data is compacted rarely and in large
		// parts: 24 flushes are 384 MiB. About half these bounds took a quarter more CPU.
		MemTableSize: uint64(s.opts.MemTableBytes), L0CompactionThreshold: 24, L0StopWritesThreshold: 72,
		LBaseMaxBytes:   128 << 20,
		LoggerAndTracer: nil,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// Zstd for data that stays, at its fastest level: the next level would save 1 %.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	o.CompactionConcurrencyRange = s.compactions
	o.Experimental.L0CompactionConcurrency = 2 * o.L0CompactionThreshold
	s.pace = pace.New(int(o.MemTableSize), s.waited.Load)
	o.FS = room.Wrap(s.opts.FS, s.opts.NoRoom, &s.serving)
	s.pace.Apply(o)
	return pebble.Open(s.opts.Dir, o)
}

// compactions returns how many may run at once. None starts while Open or Close waits, unless far
// more than usual must be compacted: Pebble replays its log, and does not open before a
// compaction that this has caused is over.
func (s *Store) compactions() (lower, upper int) {
	if s.waited.Load() {
		return 0, 1
	}
	return 1, 1
}

func (s *Store) checkFormat() error {
	v, closer, err := s.db.Get([]byte(keyFormat))
	if errors.Is(err, pebble.ErrNotFound) {
		return s.writeFormat()
	}
	if err != nil {
		return fmt.Errorf("read format: %w", err)
	}
	defer closer.Close()
	switch string(v) {
	case formatVersion:
		return nil
	case formatJSON, formatEvents:
		return s.writeFormat()
	}
	return fmt.Errorf("history in %s has format %q, and this binary knows %s: run a newer waterclock, or remove "+
		"the directory and it is filled again from the log",
		s.opts.Dir, v, formatVersion)
}

func (s *Store) writeFormat() error {
	return wrap("write format", s.db.Set([]byte(keyFormat), []byte(formatVersion), pebble.NoSync))
}

// OwnsOffsets returns true: the offsets are in the same batch as the rows.
func (s *Store) OwnsOffsets() bool { return true }

// Close waits for running calls and closes the directory. A second Close does nothing.
func (s *Store) Close() error {
	s.waited.Store(true)
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.stop)
	s.sweeper.Wait()
	return wrap("close history", s.db.Close())
}

// Checkpoint writes a copy of the store into a new directory. Its files are hard links if the
// file system permits; none of them is written to afterwards.
func (s *Store) Checkpoint(dir string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return wrap("copy history", s.db.Checkpoint(dir, pebble.WithFlushedWAL()))
}

// enter guards a call against Close.
func (s *Store) enter() error {
	s.open.RLock()
	if s.closed {
		s.open.RUnlock()
		return ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.open.RUnlock() }

// enterToWrite is like enter, and makes the caller the only writer.
func (s *Store) enterToWrite(ctx context.Context) (leave func(), err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	s.write.Lock()
	leave = func() { s.write.Unlock(); s.leave() }
	if err := ctx.Err(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

func (s *Store) commit(out *pebble.Batch) error {
	if err := out.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.pace.Committed(out.Len())
	return nil
}

func (s *Store) retention() time.Duration { return s.opts.Retention }

func wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// quiet logs only Pebble's errors.
type quiet struct {
	log interface{ Error(string, ...any) }
}

func (q quiet) Infof(string, ...any)           {}
func (q quiet) Errorf(format string, a ...any) { q.log.Error("history: " + fmt.Sprintf(format, a...)) }
func (q quiet) Fatalf(format string, a ...any) { q.Errorf(format, a...); os.Exit(1) }
