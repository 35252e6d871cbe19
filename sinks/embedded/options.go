package embedded

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/sinks"
)

// Options configure a store.
type Options struct {
	// Dir is the directory of the store. It is created if needed. Required.
	Dir string

	// Retention is how long a row is kept after its event. Default 90 days,
	// at most sinks.MaxRetention.
	Retention time.Duration

	// MaxBytes bounds the disk space of events; the oldest are removed first. A sweep enforces
	// it, so it may be exceeded between sweeps. Default 1 GiB; -1 means no bound.
	MaxBytes int64

	// SweepEvery is how often expired rows are removed. Readers never see expired rows. Default
	// 10 minutes; -1 means never.
	SweepEvery time.Duration

	// CacheBytes is the size of Pebble's block cache beside two memtables. While these are small, the
	// cache may have their room, too. Default 16 MiB.
	CacheBytes int64

	// MemTableBytes is the size of a memtable. There are three while flushes are slow. Default 16 MiB.
	MemTableBytes int

	// NoRoom is called for each write that fails because the disk is full, over its quota or
	// read-only. The write waits for space, and so do later ones. Default: no call.
	NoRoom func(error)

	// FS is for tests. Default: the operating system's.
	FS vfs.FS

	// Now is for tests. Default: time.Now.
	Now func() time.Time

	// Logger logs sweeps and corruption. Default: none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	def(&o.Retention, 90*24*time.Hour)
	def(&o.MaxBytes, 1<<30)
	def(&o.SweepEvery, 10*time.Minute)
	def(&o.CacheBytes, 16<<20)
	def(&o.MemTableBytes, memTableBytes)
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.NoRoom == nil {
		o.NoRoom = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate joins every problem into one error.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("Dir: missing"))
	}
	if o.Retention < time.Second || o.Retention > sinks.MaxRetention {
		errs = append(errs, fmt.Errorf("Retention: %s is not within 1s and %s", o.Retention, sinks.MaxRetention))
	}
	if o.MaxBytes < 1<<20 && o.MaxBytes != -1 {
		errs = append(errs, fmt.Errorf("MaxBytes: %d is under 1 MiB", o.MaxBytes))
	}
	if o.SweepEvery < 0 && o.SweepEvery != -1 {
		errs = append(errs, fmt.Errorf("SweepEvery: %s is negative", o.SweepEvery))
	}
	return errors.Join(errs...)
}
