package statestore

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/pace"
	"github.com/waterclock/waterclock/trigger"
)

// Options configure a store.
type Options struct {
	// Dir holds the store and nothing else. It is created.
	Dir string

	// FS is the file system of Dir. nil means the operating system's.
	FS vfs.FS

	// Cache is shared by the stores of a process. If nil, the store makes its own, of CacheBytes.
	Cache *Cache

	// CacheBytes is the size of the store's own cache. 0 means 64 MiB. Memtables are reserved out
	// of the cache. So it must be well above twice MemTableBytes for each store that shares it.
	CacheBytes int64

	// MemTableBytes is how much is collected in memory before it is written to a sorted file. 0
	// means 16 MiB; the range is 64 KiB to 1 GiB.
	MemTableBytes int

	// DisableWAL turns off Pebble's own log. A crash then loses whole batches that were not yet
	// in a sorted file, and more of topic state is read afterwards. A clean Close loses nothing.
	DisableWAL bool

	// FlushEvery bounds, with DisableWAL, how old what a crash loses may be in a store that is
	// written seldom: a commit this long after the last begins to write the memtable to a sorted
	// file. 0 means 10 min.
	FlushEvery time.Duration

	// MaxKeys is the capacity of the filter in memory (about 2.2 to 4.4 bytes per key). Beyond
	// it, the filter grows by another generation. 0 means 65,536, or twice the number of keys in
	// the store when it is opened, if that is more.
	MaxKeys int

	// NoRoom is called for every write that fails because the disk is full, over its quota or
	// read-only. It must return at once. nil means no call.
	NoRoom func(error)

	// Logger gets damage and background errors. nil means no log.
	Logger *slog.Logger
}

const (
	defaultCacheBytes    = 64 << 20
	defaultMemTableBytes = 16 << 20
	minMemTableBytes     = 64 << 10
	maxMemTableBytes     = 1 << 30
	defaultMaxKeys       = 1 << 16
	defaultFlushEvery    = 10 * time.Minute
)

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTableBytes
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = defaultMaxKeys
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = defaultFlushEvery
	}
	if o.NoRoom == nil {
		o.NoRoom = func(error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate joins all errors in the options.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("Dir is empty"))
	}
	if o.CacheBytes < 0 {
		errs = append(errs, fmt.Errorf("CacheBytes is %d: it must not be negative", o.CacheBytes))
	}
	if n := o.MemTableBytes; n != 0 && (n < minMemTableBytes || n > maxMemTableBytes) {
		errs = append(errs, fmt.Errorf("MemTableBytes is %d: it must be %d to %d", n, minMemTableBytes,
			maxMemTableBytes))
	}
	if o.FlushEvery < 0 {
		errs = append(errs, fmt.Errorf("FlushEvery is %s: it must not be negative", o.FlushEvery))
	}
	if o.MaxKeys < 0 {
		errs = append(errs, fmt.Errorf("MaxKeys is %d: it must not be negative", o.MaxKeys))
	}
	return errors.Join(errs...)
}

// Store holds the data of one partition. It belongs to the partition's goroutine. Other
// goroutines may call only Snapshot, Stats and the methods of a Snapshot.
type Store struct {
	opts   Options
	damage atomic.Pointer[error] // found by Pebble in the background

	filling atomic.Bool // see Fill
	serving atomic.Bool // it is open: writes that find no space wait (internal/room)
	pace    *pace.Pace  // of flushes and compactions

	known    *filter
	reserved reserved // of the cache, for known
	counts   counts
	firstDue trigger.Instant // no entry of d is before it
	firstFor trigger.Instant // no entry of y is before it
	flushed  time.Time       // with DisableWAL: when a commit last began a flush

	mu        sync.RWMutex                  // write lock: to open or close db; read lock: to use it meanwhile
	db        *pebble.DB                    // nil: closed
	closing   atomic.Bool                   // scans of other goroutines must end
	ending    atomic.Pointer[chan struct{}] // closed with closing, to end waits
	snapshots snapshots
	// publishing is held for reading while a snapshot is taken, and for writing while a large batch
	// is committed. It is locked after mu.
	publishing sync.RWMutex
	stats      atomic.Pointer[counts] // for other goroutines
}

// Open opens or creates a store. The store is in Fill until the caller calls Filled, once it has
// read the partition to its end. If the error is ErrCorrupt or ErrFormat, the caller quarantines
// the directory and opens an empty store.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{opts: o.withDefaults()}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", o.Dir, err)
	}
	return s, nil
}

// open sets everything that depends on the directory.
func (s *Store) open() error {
	s.damage.Store(nil)
	s.serving.Store(false)
	s.flushed = time.Now()
	ending := make(chan struct{})
	s.ending.Store(&ending)
	db, err := s.openPebble()
	if err != nil {
		return err
	}
	s.db = db
	if err := s.load(); err != nil {
		s.db = nil
		s.end()
		return errors.Join(err, failed("close", db.Close()))
	}
	s.closing.Store(false)
	s.serving.Store(true)
	return nil
}

// load reads the data that is kept in memory.
func (s *Store) load() error {
	s.firstDue, s.firstFor = 0, 0
	if err := s.checkFormat(); err != nil {
		return err
	}
	if err := s.loadCounts(); err != nil {
		return err
	}
	return s.loadFilter()
}

// loadFilter reads all keys. It takes about 0.15 s of CPU per million.
func (s *Store) loadFilter() error {
	total := s.counts.pending + s.counts.done
	s.known = newFilter(max(s.opts.MaxKeys, int(2*total)))
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: tableKey.lower(), UpperBound: tableKey.upper()})
	if err != nil {
		return failed("read keys", err)
	}
	n := int64(0)
	for it.First(); it.Valid(); it.Next() {
		s.known.add(s.known.hash(trigger.Key(it.Key()[1:])))
		n++
	}
	if err := it.Close(); err != nil {
		return failed("read keys", err)
	}
	if n != total {
		return corrupt("%d keys where %d are counted", n, total)
	}
	s.setCounts(s.counts)
	return nil
}

// Close writes the memtables to disk, ends running scans, and closes the store. A second Close
// does nothing.
func (s *Store) Close() error {
	if err := s.close(); err != nil {
		return fmt.Errorf("close store %s: %w", s.opts.Dir, err)
	}
	return nil
}

// end ends scans, and the waits of damaged.
func (s *Store) end() {
	s.closing.Store(true)
	if ending := s.ending.Swap(nil); ending != nil {
		close(*ending)
	}
}

func (s *Store) close() error {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	errs := s.snapshots.closeAll()
	if s.opts.DisableWAL {
		errs = append(errs, failed("flush", s.db.Flush()))
	}
	s.opts.Cache.reserve(&s.reserved, 0)
	errs = append(errs, failed("close", s.db.Close()))
	s.db = nil
	return errors.Join(errs...)
}

// Wipe deletes everything and leaves an empty store open. Earlier snapshots return ErrClosed.
func (s *Store) Wipe() error {
	err := s.close()
	if err == nil {
		err = s.opts.FS.RemoveAll(s.opts.Dir)
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		err = s.open()
	}
	if err != nil {
		return fmt.Errorf("wipe store %s: %w", s.opts.Dir, err)
	}
	return nil
}

// Checkpoint writes a copy of the store into dir, which must not exist. It links sorted files
// rather than copying them if the file system can.
func (s *Store) Checkpoint(dir string) error {
	if s.db == nil {
		return fmt.Errorf("checkpoint: %w", ErrClosed)
	}
	if s.opts.DisableWAL {
		if err := s.db.Flush(); err != nil {
			return failed("checkpoint: flush", err)
		}
	}
	return failed("checkpoint", s.db.Checkpoint(dir, pebble.WithFlushedWAL()))
}

// Stats are numbers for operators.
type Stats struct {
	DiskBytes    uint64 // files, live or about to be removed
	MemoryBytes  uint64 // memtables
	Pending      int64  // triggers that have timers or are paused: exact
	Done         int64  // finished triggers: exact
	Compactions  int64
	L0Sublevels  int
	CacheHits    int64 // of the whole shared cache
	CacheMisses  int64
	FilterBytes  int64
	WriteAmpl    float64
	OpenIterator int64
}

// Stats may be called from any goroutine. After Close it returns zero.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return Stats{}
	}
	m, c := s.db.Metrics(), s.stats.Load()
	total := m.Total()
	return Stats{
		DiskBytes:    m.DiskSpaceUsage(),
		MemoryBytes:  m.MemTable.Size,
		Pending:      c.pending,
		Done:         c.done,
		Compactions:  m.Compact.Count,
		L0Sublevels:  int(m.Levels[0].Sublevels),
		CacheHits:    m.BlockCache.Hits,
		CacheMisses:  m.BlockCache.Misses,
		FilterBytes:  c.filterBytes,
		WriteAmpl:    total.WriteAmp(),
		OpenIterator: m.TableIters,
	}
}

// PendingCount returns how many triggers have timers or are paused.
func (s *Store) PendingCount() int64 { return s.counts.pending }

// DoneCount returns how many finished triggers are stored.
func (s *Store) DoneCount() int64 { return s.counts.done }

// damaged is called by Pebble when a checksum does not match. Pebble retries a compaction that
// found the damage at once, for as long as the store is open. That would use a core and fill the
// log, so each repeated call waits.
func (s *Store) damaged(err error) {
	if !s.damage.CompareAndSwap(nil, &err) {
		if ending := s.ending.Load(); ending != nil { // a reader may hold the lock for which Close waits
			select {
			case <-*ending:
			case <-time.After(damagedPause):
			}
		}
		return
	}
	s.opts.Logger.Error("the state store is damaged", "dir", s.opts.Dir, "err", err)
}

// damagedPause is how long a repeated call of damaged waits.
const damagedPause = time.Second

// usable is called before a batch is written. No batch may be added to a store in which the
// background has found damage.
func (s *Store) usable() error {
	if s.db == nil {
		return ErrClosed
	}
	if err := s.damage.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, *err)
	}
	return nil
}

// forever is after every instant.
const forever = trigger.Instant(math.MaxInt64)
