package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
)

// Config configures how the stores of a process are recovered.
type Config struct {
	Kafka        []kgo.Opt
	Names        topics.Names
	Partitions   int32
	Isolation    kafkapart.Isolation
	FetchMaxWait time.Duration

	Dir   string            // stores live in <Dir>/<partition>
	Cache *statestore.Cache // shared by all stores
	FS    vfs.FS            // nil is the disk

	MemTableBytes int         // of each store; 0 means statestore's default
	DisableWAL    bool        // see statestore.Options
	NoRoom        func(error) // called for writes that find no room on the disk; may be nil

	MaxAway time.Duration // an older store is rebuilt, not resumed
	Chunk   int           // keys per batch
	Logger  *slog.Logger
	Stored  func(partition int32) // called after every stored batch

	// Gap decides whether a partition may continue at an offset although records before it are lost.
	Gap          func(partition int32, offset int64, format string, args ...any) error
	Decompressor kgo.Decompressor

	// GapRecreated decides whether a partition may continue although a topic was deleted
	// and made again; nil means yes.
	GapRecreated func(partition int32, id [16]byte, format string, args ...any) error
}

// OpenStore opens a partition's store. It begins an empty one if the store is damaged.
func (c *Config) OpenStore(id int32, log *slog.Logger) (*statestore.Store, error) {
	so := statestore.Options{
		Dir: c.dir(id), Cache: c.Cache, Logger: log, FS: c.FS, MemTableBytes: c.MemTableBytes,
		DisableWAL: c.DisableWAL, NoRoom: c.NoRoom,
	}
	st, err := statestore.Open(so)
	if errors.Is(err, statestore.ErrCorrupt) || errors.Is(err, statestore.ErrFormat) {
		if err := c.quarantine(id, log, err); err != nil {
			return nil, err
		}
		st, err = statestore.Open(so)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return st, nil
}

// quarantine puts a partition's closed store aside, because it cannot be used.
func (c *Config) quarantine(id int32, log *slog.Logger, why error) error {
	log.Warn("the local store cannot be used; rebuilding it from Kafka", "error", why)
	if _, err := statestore.QuarantineFS(c.fs(), c.dir(id)); err != nil {
		return fmt.Errorf("quarantine store: %w", err)
	}
	return nil
}

// QuarantineDamaged puts a closed store aside if its use found damage. Opening reads only
// the keys, so it would not notice.
func (c *Config) QuarantineDamaged(id int32, log *slog.Logger, err error) {
	if !errors.Is(err, statestore.ErrCorrupt) {
		return
	}
	if err := c.quarantine(id, log, err); err != nil {
		log.Error("a damaged store could not be moved away", "error", err)
	}
}

func (c *Config) dir(id int32) string { return filepath.Join(c.Dir, strconv.Itoa(int(id))) }

func (c *Config) fs() vfs.FS {
	if c.FS == nil {
		return vfs.Default
	}
	return c.FS
}

// Stores lists the partitions that have a store here, good or not.
func (c *Config) Stores() (ids []int32) {
	names, _ := c.fs().List(c.Dir) // an error means that there are none yet
	for _, name := range names {
		if id, err := strconv.ParseInt(name, 10, 32); err == nil && id >= 0 && id < int64(c.Partitions) {
			ids = append(ids, int32(id))
		}
	}
	return ids
}
