package statestore

import (
	"github.com/waterclock/waterclock/trigger"
)

// ScanForget calls f for each finished trigger whose record ends at or before now, oldest
// first, until f returns false. value is valid during the call; f may keep key. Without such
// a trigger it costs nothing.
func (s *Store) ScanForget(now trigger.Instant, f func(forgetAt trigger.Instant, key trigger.Key,
	value []byte) bool,
) error {
	if s.firstFor > now {
		return nil
	}
	it, err := s.iter(tableDone, appendDoneKey(nil, s.firstFor, ""))
	if err != nil {
		return failed("scan forget", err)
	}
	s.firstFor = forever // if there is none
	for first := it.First(); it.Valid(); it.Next() {
		forgetAt, key, ok := splitDoneKey(it.Key())
		if !ok {
			return failed("scan forget", joinClose(corrupt("done key %x", it.Key()), it))
		}
		if first { // all entries before it are deleted; a scan from here skips their tombstones
			s.firstFor, first = forgetAt, false
		}
		if forgetAt > now || !f(forgetAt, key, it.Value()) {
			break
		}
	}
	if err := it.Close(); err != nil {
		s.firstFor = 0
		return failed("scan forget", err)
	}
	return nil
}

// ScanDone calls f for finished triggers from a position on, in the order in which their
// records end, until f returns false. f's arguments are those of ScanForget.
func (s *Store) ScanDone(from trigger.Instant, key trigger.Key, f func(forgetAt trigger.Instant, key trigger.Key,
	value []byte) bool,
) error {
	if from < s.firstFor {
		from, key = s.firstFor, "" // all entries before it are deleted
	}
	it, err := s.iter(tableDone, appendDoneKey(nil, from, key))
	if err != nil {
		return failed("scan done", err)
	}
	for it.First(); it.Valid(); it.Next() {
		forgetAt, key, ok := splitDoneKey(it.Key())
		if !ok {
			return failed("scan done", joinClose(corrupt("done key %x", it.Key()), it))
		}
		if !f(forgetAt, key, it.Value()) {
			break
		}
	}
	return failed("scan done", it.Close())
}

// OldestDone calls f for each finished trigger until f returns false. Triggers whose records end
// first come first. It serves eviction when there are too many.
func (s *Store) OldestDone(f func(forgetAt trigger.Instant, key trigger.Key, value []byte) bool) error {
	return s.ScanForget(forever, f)
}
