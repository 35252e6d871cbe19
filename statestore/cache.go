package statestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Cache holds blocks of sorted files for all stores of a process.
type Cache struct {
	blocks *pebble.Cache

	mu   sync.Mutex
	free int64 // bytes that may still be reserved for filters
}

// NewCache makes a cache. Stores hold their own references, so Close it at any time.
func NewCache(bytes int64) *Cache { return &Cache{blocks: pebble.NewCache(bytes)} }

// NewSharedCache makes a cache that becomes smaller, by a quarter at most, as the filters of known keys grow: memtables
// are reserved out of it, too, and blocks need the rest. A filter needs 2.2 to 4.4 bytes for each key that is
// remembered, and there may be tens of millions.
func NewSharedCache(bytes int64) *Cache {
	c := NewCache(bytes)
	c.free = bytes / 4
	return c
}

// Close frees the cache once the last store that uses it is closed.
func (c *Cache) Close() { c.blocks.Unref() }

// reserved is what is reserved for one store's filter.
type reserved struct {
	bytes   int64
	release func()
}

// reserve reserves as many bytes as a filter has now, or as many as are free. Pebble evicts the blocks that were there.
func (c *Cache) reserve(s *reserved, wanted int64) {
	if c == nil || s.bytes == wanted {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes := min(wanted, c.free+s.bytes)
	if bytes == s.bytes {
		return
	}
	if s.release != nil {
		s.release()
		c.free += s.bytes
	}
	*s = reserved{bytes: bytes}
	if bytes > 0 {
		c.free -= s.bytes
		s.release = c.blocks.Reserve(int(s.bytes))
	}
}
