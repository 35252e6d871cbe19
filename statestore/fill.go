package statestore

// Fill prepares the store for many writes in a short time, as in a restore. Pebble then keeps up
// to fillRuns sorted runs and does not merge them repeatedly while more come. No promise changes.
// A store that was just opened is in Fill. Otherwise the merge of what a killed process had left
// would use both cores while partitions open.
func (s *Store) Fill() { s.filling.Store(true) }

// Filled ends Fill: Pebble merges the runs in the background. Without a preceding Fill it does
// nothing.
func (s *Store) Filled() error {
	if s.db == nil || !s.filling.Swap(false) {
		return nil
	}
	_, err := s.db.AsyncFlush() // when a flush ends, Pebble asks how many compactions may run
	return failed("filled", err)
}

// fillRuns is how many sorted runs a store in Fill collects before Pebble merges them. Each run
// makes a search slower.
const fillRuns = 16

// compactions returns how many compactions may run at once: lower at any time, upper once
// fillRuns sorted runs overlap.
func (s *Store) compactions() (lower, upper int) {
	if s.filling.Load() {
		return 0, 1
	}
	return 1, 1
}
