package statestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// format is the number of the layout in doc.go. Another number, or none in a store with entries,
// is ErrFormat. There are no migrations, because topic state has everything.
const format = "1"

// Names in table m that the store itself uses.
const (
	metaFormat = "format"
	metaCounts = "counts"
)

// checkFormat reads the format of a store, or writes it into an empty one.
func (s *Store) checkFormat() error {
	v, err := s.Meta(metaFormat)
	if err != nil {
		return err
	}
	if v != nil {
		if string(v) != format {
			return fmt.Errorf("%w: %q, not %q", ErrFormat, v, format)
		}
		return nil
	}
	empty, err := s.empty()
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: none", ErrFormat)
	}
	return failed("write format", s.db.Set(metaKey(metaFormat), []byte(format), pebble.NoSync))
}

func (s *Store) empty() (bool, error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return false, failed("find entries", err)
	}
	empty := !it.First()
	return empty, failed("find entries", it.Close())
}

// Meta returns what SetMeta stored under a name, or nil if the name was never set.
func (s *Store) Meta(name string) ([]byte, error) {
	if s.db == nil {
		return nil, fmt.Errorf("read meta %s: %w", name, ErrClosed)
	}
	v, err := meta(s.db, name)
	return v, failed("read meta "+name, err)
}

func meta(r pebble.Reader, name string) ([]byte, error) {
	v, c, err := r.Get(metaKey(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, v...), c.Close()
}

// counts are written to m with every batch that changes them.
//
//	┌─────────────────┬──────────────┐
//	│ uvarint pending │ uvarint done │
//	└─────────────────┴──────────────┘
type counts struct {
	pending, done int64
	filterBytes   int64 // not stored
}

func (c counts) encode() []byte {
	b := binary.AppendUvarint(make([]byte, 0, 2*binary.MaxVarintLen64), uint64(c.pending))
	return binary.AppendUvarint(b, uint64(c.done))
}

func parseCounts(b []byte) (c counts, ok bool) {
	pending, n := binary.Uvarint(b)
	if n <= 0 {
		return counts{}, false
	}
	done, m := binary.Uvarint(b[n:])
	c = counts{pending: int64(pending), done: int64(done)}
	return c, m > 0 && c.pending >= 0 && c.done >= 0 && slices.Equal(c.encode(), b)
}

func (s *Store) loadCounts() error {
	v, err := s.Meta(metaCounts)
	if err != nil {
		return err
	}
	c := counts{}
	if v != nil {
		var ok bool
		if c, ok = parseCounts(v); !ok {
			return corrupt("counts are %x", v)
		}
	}
	s.setCounts(c)
	return nil
}

func (s *Store) setCounts(c counts) {
	if s.known != nil {
		c.filterBytes = s.known.bytes()
		s.opts.Cache.reserve(&s.reserved, c.filterBytes)
	}
	s.counts = c
	s.stats.Store(&c)
}
