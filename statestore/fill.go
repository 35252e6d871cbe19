package statestore

// Fill prepares the store for many writes in a short time, as in a restore: Pebble keeps up
// to fillRuns sorted runs, and does not merge them again and again while more come. It
// changes no promise. A store that was just opened is in Fill, because merging what a killed
// process had left took both cores while partitions opened.
func (s *Store) Fill() { s.filling.Store(true) }

// Filled ends Fill: the runs are merged in the background. Without a Fill
// before it does nothing.
func (s *Store) Filled() error {
	if s.db == nil || !s.filling.Swap(false) {
		return nil
	}
	_, err := s.db.AsyncFlush() // Pebble asks how much it may merge when a flush ends
	return failed("filled", err)
}

// fillRuns is how many sorted runs a store in Fill collects before they are merged. Each
// makes a search slower.
const fillRuns = 16

// compactions is how many may run at once: at least, and with fillRuns at most.
func (s *Store) compactions() (lower, upper int) {
	if s.filling.Load() {
		return 0, 1
	}
	return 1, 1
}
