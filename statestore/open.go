package statestore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/pace"
	"github.com/waterclock/waterclock/internal/room"
)

// openPebble opens the database in Options.Dir. It takes the lock first, so a later failure
// concerns the files.
func (s *Store) openPebble() (*pebble.DB, error) {
	o := s.opts
	if err := o.FS.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("lock: %w: %w", ErrInUse, err)
	}
	if err := checkFiles(o.FS, o.Dir); err != nil {
		return nil, errors.Join(openFailed(err), lock.Close())
	}
	po := pebbleOptions(o, s.damaged)
	po.FS = room.Wrap(o.FS, o.NoRoom, &s.serving)
	s.Fill() // opening has priority over merging; the caller ends it by Filled
	po.CompactionConcurrencyRange = s.compactions
	po.Experimental.L0CompactionConcurrency = fillRuns
	po.Lock = lock
	paced := pace.New(o.MemTableBytes, func() bool { return s.filling.Load() || s.closing.Load() })
	paced.Apply(po)
	if o.Cache == nil {
		po.Cache = pebble.NewCache(o.CacheBytes)
		defer po.Cache.Unref()
	}
	db, err := pebble.Open(o.Dir, po)
	if err != nil {
		return nil, errors.Join(openFailed(err), lock.Close())
	}
	s.pace = paced
	return db, lock.Close() // the database has its own reference to the lock
}

// pebbleOptions sets what differs from Pebble's defaults. The numbers were measured by
// bench_test.go.
func pebbleOptions(o Options, damaged func(error)) *pebble.Options {
	po := &pebble.Options{
		FS: o.FS,
		// With an older format, a store whose log has a flipped bit opens, and silently lacks
		// everything after it.
		FormatMajorVersion:          pebble.FormatNewest,
		DisableWAL:                  o.DisableWAL,
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       compactAt(o.MemTableBytes),
		L0StopWritesThreshold:       8 * compactAt(o.MemTableBytes),
		MaxOpenFiles:                500,
		Logger:                      logger{o.Logger},
		EventListener: &pebble.EventListener{
			DataCorruption: func(i pebble.DataCorruptionInfo) { damaged(errors.New(i.String())) },
			BackgroundError: func(err error) {
				if pebble.IsCorruptionError(err) {
					return // damaged has logged it
				}
				o.Logger.Error("the state store cannot write in the background", "dir", o.Dir,
					"error", err.Error()) // without the stack trace of Pebble's errors
			},
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
				o.Logger.Warn("the state store stalls", "dir", o.Dir, "reason", i.Reason)
			},
		},
	}
	if o.Cache != nil {
		po.Cache = o.Cache.blocks
	}
	// Compression is light in the upper levels, and zstd in the last, where nearly all data is. A
	// pending trigger of 200 bytes then takes 128 bytes rather than 177, for a few percent of
	// CPU.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	for i := range po.Levels {
		po.Levels[i].BlockSize = blockBytes
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// Our own filter answers for unknown keys, so a search that reaches the last level finds its
	// key. A filter there would only cost space.
	po.Levels[len(po.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
	return po
}

// compactAt is Pebble's threshold for the merging of level 0. By default it is 4, which is two overlapping files, and
// each merge rewrites nearly all of the level below, since keys of triggers are spread over all of it. So with small
// memtables more files wait for a merge: about as many bytes.
func compactAt(memTable int) int {
	const usual, most = 4, 16
	return min(max(usual*(16<<20)/max(memTable, 1), usual), most)
}

// blockBytes is the unit of compression and of reads. Firing reads neighbours. Compared to 4 KiB,
// it saves a tenth of all CPU and 12 bytes per trigger.
const blockBytes = 32 << 10

// openFailed classifies why a database that we have locked does not open. Errors of the operating
// system may be temporary. Everything else is damage, even if Pebble does not say so: a lost
// file, or a manifest or options file that was cut short.
func openFailed(err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, ErrCorrupt):
		return err
	case strings.Contains(err.Error(), "format major version"):
		return fmt.Errorf("%w: %w", ErrFormat, err)
	case errors.Is(err, fs.ErrNotExist), isDamage(err):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case errors.Is(err, fs.ErrPermission), errors.As(err, &errno):
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// quarantineSuffix is added to the directory name of a store that is put aside.
const quarantineSuffix = ".quarantine"

// Quarantine puts the directory of a damaged, closed store aside for analysis, and returns its
// new path. Only the latest is kept.
func Quarantine(dir string) (aside string, err error) { return QuarantineFS(vfs.Default, dir) }

// QuarantineFS is Quarantine on another file system.
func QuarantineFS(fsys vfs.FS, dir string) (aside string, err error) {
	aside = strings.TrimRight(dir, "/") + quarantineSuffix
	if err := fsys.RemoveAll(aside); err != nil {
		return "", fmt.Errorf("quarantine: remove the one before: %w", err)
	}
	if err := fsys.Rename(dir, aside); err != nil {
		return "", fmt.Errorf("quarantine: %w", err)
	}
	return aside, nil
}

// logger passes Pebble's messages to slog.
type logger struct{ log *slog.Logger }

func (l logger) Infof(format string, args ...any) {}

func (l logger) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

// Fatalf is called when Pebble cannot go on, for example without its log. It must not return. The
// next start of the process restores the partition.
func (l logger) Fatalf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	l.log.Error(msg)
	panic("statestore: " + msg)
}
