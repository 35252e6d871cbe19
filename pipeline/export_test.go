package pipeline

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// RestoreInChunks makes batches of a restore so small that a test has many.
func RestoreInChunks(o *Options, keys int) { o.restoreChunk = keys }

// HoldTimers makes so little room for timers that a test can fill it.
func HoldTimers(o *Options, wheel, paced int) { o.wheelEntries, o.pacedEntries = wheel, paced }

// LimitUnknown bounds what is remembered of keys that nothing is known of.
func LimitUnknown(o *Options, n int) { o.maxUnknown = n }

// DamagedFor sets how long a damaged batch is fetched again.
func DamagedFor(o *Options, d time.Duration) { o.damaged = d }

// NewCompressor makes what compresses the batches of a process.
func NewCompressor(o *Options) (kgo.Compressor, error) { return newCompressor(o) }
