package statestore

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// loading reads the keys of a store into a filter. A large store is used meanwhile: to read fifty million keys takes a
// node 10 s of CPU and more, in which most partitions would not fire. Until all are read each key may be known, so
// Get of an unknown one reads the store.
type loading struct {
	keys  *pebble.Iterator // as the store was when it was opened
	total int64            // how many there are
	hash  func(trigger.Key) uint64
	stop  chan struct{}
	pause time.Duration // after each chunk of keys

	ended  chan struct{} // closed when the rest is set
	filter *cuckoo
	err    error

	gone []uint64 // hashes of keys that were deleted meanwhile; of the store's owner
}

// loadingSlot is held by the one store of this process that is loading. Others wait, so that turns have the other
// cores.
var loadingSlot = make(chan struct{}, 1)

// How many keys are read in one go, and how long others go first after that: partitions that open need the CPU more.
const (
	loadingChunk = 4096
	loadingPause = 5 * time.Millisecond
)

// loadFilter reads all keys, or begins to. It takes about 0.15 s of CPU per million where files are few and in memory,
// and several times as much after a crash.
func (s *Store) loadFilter() error {
	total := s.counts.pending + s.counts.done
	keys, err := s.db.NewIter(&pebble.IterOptions{LowerBound: tableKey.lower(), UpperBound: tableKey.upper()})
	if err != nil {
		return failed("read keys", err)
	}
	s.known = newFilter(minCuckoo) // for keys that come meanwhile
	l := &loading{
		keys: keys, total: total, hash: s.known.hash, stop: make(chan struct{}), ended: make(chan struct{}),
		filter: newCuckoo(max(s.opts.MaxKeys, int(2*total))),
	}
	s.loading = l
	if total > int64(s.opts.KeysAtOnce) {
		go l.wait()
		s.setCounts(s.counts)
		return nil
	}
	l.run()
	return s.takeLoaded()
}

// wait runs once no other store is loading.
func (l *loading) wait() {
	select {
	case loadingSlot <- struct{}{}:
		defer func() { <-loadingSlot }()
	case <-l.stop:
	}
	l.pause = loadingPause
	l.run()
}

func (l *loading) run() {
	defer close(l.ended)
	n := int64(0)
	for l.keys.First(); l.keys.Valid() && !l.rest(n); l.keys.Next() {
		l.filter.add(l.hash(trigger.Key(l.keys.Key()[1:])))
		n++
	}
	if err := l.keys.Close(); err != nil {
		l.err = failed("read keys", err)
	} else if n != l.total {
		l.err = corrupt("%d keys where %d are counted", n, l.total)
	}
}

// rest pauses every few keys, and reports whether to stop.
func (l *loading) rest(n int64) (stop bool) {
	if n%loadingChunk != 0 || l.pause == 0 {
		return false
	}
	select {
	case <-l.stop:
		return true
	case <-time.After(l.pause):
		return false
	}
}

// takeLoaded makes the keys part of the filter once they are read. Its error is why they could not be, or that the
// store is damaged.
func (s *Store) takeLoaded() error {
	l := s.loading
	if l == nil {
		return nil
	}
	select {
	case <-l.ended:
	default:
		return nil
	}
	if l.err != nil {
		return l.err
	}
	s.loading = nil
	s.known.join(l.filter)
	s.forget(l.gone)
	s.setCounts(s.counts)
	return nil
}

// forget removes keys from the filter.
func (s *Store) forget(gone []uint64) {
	if s.loading != nil {
		s.loading.gone = append(s.loading.gone, gone...)
		return
	}
	for _, h := range gone {
		s.known.remove(h)
	}
}

// stopLoading ends it without a result.
func (s *Store) stopLoading() {
	if s.loading == nil {
		return
	}
	close(s.loading.stop)
	<-s.loading.ended
	s.loading = nil
}
