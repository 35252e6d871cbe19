package statestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Cache holds blocks of sorted files for all stores of a process.
type Cache struct {
	blocks *pebble.Cache

	mu   sync.Mutex
	free int64 // bytes that it may still give up for filters
}

// NewCache makes a cache. Stores hold their own references, so Close it at any time.
func NewCache(bytes int64) *Cache { return &Cache{blocks: pebble.NewCache(bytes)} }

// NewSharedCache makes a cache that becomes smaller, by half at most, as the filters of known keys grow. Together they
// take no more memory then. A filter needs 2.2 to 4.4 bytes for each key that is remembered, and there may be tens of
// millions.
func NewSharedCache(bytes int64) *Cache {
	c := NewCache(bytes)
	c.free = bytes / 2
	return c
}

// Close frees the cache once the last store that uses it is closed.
func (c *Cache) Close() { c.blocks.Unref() }

// spared is what the cache gives up for one store's filter.
type spared struct {
	wanted, bytes int64
	release       func()
}

// spare gives up as many bytes as a filter has now, or as many as may be. Pebble evicts the blocks that were there.
func (c *Cache) spare(s *spared, wanted int64) {
	if c == nil || s.wanted == wanted {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.release != nil {
		s.release()
		c.free += s.bytes
	}
	*s = spared{wanted: wanted, bytes: min(wanted, c.free)}
	if s.bytes > 0 {
		c.free -= s.bytes
		s.release = c.blocks.Reserve(int(s.bytes))
	}
}
