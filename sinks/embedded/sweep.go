package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// sweepBatch bounds the deletes written at once.
const sweepBatch = 10_000

func (s *Store) sweepOften() {
	tick := time.NewTicker(s.opts.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		if err := s.sweep(); err != nil {
			s.opts.Logger.Error("history: sweep", "err", err)
		}
	}
}

// Sweep removes expired rows, and then the oldest events while events take more than MaxBytes.
// The store calls it every SweepEvery.
func (s *Store) Sweep() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.sweep()
}

func (s *Store) sweep() error {
	cutoff := s.opts.Now().Add(-s.retention()).UnixMicro()
	if err := s.dropEvents(func(us int64, _ int) bool { return us <= cutoff }, nil); err != nil {
		return fmt.Errorf("sweep events: %w", err)
	}
	if err := s.dropExpiredRows(); err != nil {
		return fmt.Errorf("sweep rows: %w", err)
	}
	return wrap("sweep to size", s.dropToSize())
}

// dropEvents removes events, oldest first, while more returns true. also, if not nil, removes
// what belongs to an event.
func (s *Store) dropEvents(more func(us int64, dropped int) bool, also func(d *drops, event []byte) error) error {
	d := s.newDrops()
	prefix := []byte{tableByAge}
	err := s.sweepOver(prefix, after(prefix), func(k, _ []byte) error {
		tenant, key, at, err := parseAgeKey(k)
		if err != nil {
			return err
		}
		if !more(at.EventUS, d.n) {
			return errStop
		}
		d.n++
		event := eventKey(tenant, key, at)
		if also != nil {
			if err := also(d, event); err != nil {
				return err
			}
		}
		return d.drop(k, event)
	})
	if err != nil {
		return err
	}
	return d.commit()
}

// dropExpiredRows removes what readers no longer see.
func (s *Store) dropExpiredRows() error {
	now, oldest := s.opts.Now().Unix(), trigger.At(s.opts.Now().Add(-s.retention()))
	states := []byte{tableState}
	return errors.Join(
		s.dropRows(states, after(states), func(v []byte) (bool, error) {
			var row sinks.StateRow
			err := decodeRow(v, &row)
			return row.State.Live(now) || slices.ContainsFunc(erasOf(&row),
				func(c sinks.Cell[bool]) bool { return c.Live(now) }), err
		}),
		s.dropRows([]byte{tableMinute}, minutePrefix(oldest), func(v []byte) (bool, error) {
			var row sinks.MinuteRow
			err := decodeRow(v, &row)
			return row.State.Live(now), err
		}),
		s.dropLetters(),
		s.dropNotifications(),
	)
}

// dropRows removes the expired rows of a range.
func (s *Store) dropRows(from, to []byte, live func(value []byte) (bool, error)) error {
	var dead [][]byte
	drop := func() error {
		defer func() { dead = dead[:0] }()
		return s.dropDead(dead, live)
	}
	err := s.sweepOver(from, to, func(k, v []byte) error {
		if alive, err := live(v); alive || err != nil {
			return err
		}
		if dead = append(dead, slices.Clone(k)); len(dead) < deadBatch {
			return nil
		}
		return drop()
	})
	if err != nil {
		return err
	}
	return drop()
}

// deadBatch bounds the number of rows for which Apply is blocked at a time.
const deadBatch = 1000

// dropDead checks rows a second time, and removes those that are still expired. Apply may have
// revived some meanwhile, and is blocked now.
func (s *Store) dropDead(keys [][]byte, live func(value []byte) (bool, error)) error {
	s.write.Lock()
	defer s.write.Unlock()
	d := s.newDrops()
	for _, k := range keys {
		v, closer, err := s.db.Get(k)
		if errors.Is(err, pebble.ErrNotFound) {
			continue // another sweep has removed it
		}
		if err != nil {
			return err
		}
		alive, err := live(v)
		if err := errors.Join(err, closer.Close()); err != nil {
			return err
		}
		if alive {
			continue
		}
		if err := d.drop(k); err != nil {
			return err
		}
	}
	return d.commit()
}

// sweepOver is scan for background work, with pauses.
func (s *Store) sweepOver(from, to []byte, visit func(k, v []byte) error) error {
	work, rows := s.pace.Sweep(), 0
	defer work.End()
	return s.scan(from, to, func(k, v []byte) error {
		if rows++; rows%rowsAtOnce == 0 {
			work.Pause()
		}
		return visit(k, v)
	})
}

// rowsAtOnce is how many rows are swept between two pauses: some hundred microseconds.
const rowsAtOnce = 256

func erasOf(row *sinks.StateRow) (cells []sinks.Cell[bool]) {
	for _, c := range row.Eras {
		cells = append(cells, c)
	}
	return cells
}

// dropToSize reduces the events to nine tenths of MaxBytes, by their average size, and makes
// Pebble free the space.
func (s *Store) dropToSize() error {
	lo, hi := []byte{tableEvents}, after([]byte{tableEvents})
	used, err := s.db.EstimateDiskUsage(lo, hi)
	if err != nil || s.opts.MaxBytes < 0 || int64(used) <= s.opts.MaxBytes {
		return err
	}
	count := 0
	if err := s.sweepOver([]byte{tableByAge}, after([]byte{tableByAge}),
		func(_, _ []byte) error { count++; return nil }); err != nil {
		return err
	}
	drop := count - int(float64(count)*0.9*float64(s.opts.MaxBytes)/float64(used))
	s.opts.Logger.Info("history: over its size; dropping the oldest events", "bytes", used, "events", drop)
	if err := s.dropEvents(func(_ int64, dropped int) bool { return dropped < drop }, (*drops).content); err != nil {
		return err
	}
	return s.db.Compact(context.Background(), lo, hi, false)
}

// content blanks the content that minutes have from an event that is removed early, because an
// erase finds minutes by their events. The blank is a microsecond newer. If another event has that
// time, its value was written earlier and stays.
func (d *drops) content(event []byte) error {
	v, closer, err := d.s.db.Get(event)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := decodeEvent(v)
	if err := errors.Join(err, closer.Close()); err != nil || r.UserID == "" {
		return err
	}
	sinks.MinutesOf(&r.Event, d.s.retention(), func(k sinks.MinuteKey, said sinks.MinuteRow) {
		if said.UserID.US == 0 {
			return
		}
		blank := sinks.MinuteErased(r.EventUS+1, d.s.retention())
		err = errors.Join(err, d.out.Merge(minuteKey(k), encodeRow(&blank), nil))
	})
	return err
}

// drops collects deletes and commits them in batches.
type drops struct {
	s   *Store
	out *pebble.Batch
	n   int
}

func (s *Store) newDrops() *drops { return &drops{s: s, out: s.db.NewBatch()} }

func (d *drops) drop(keys ...[]byte) error {
	for _, k := range keys {
		if err := d.out.Delete(k, nil); err != nil {
			return err
		}
	}
	if d.out.Count() < sweepBatch {
		return nil
	}
	return d.commit()
}

func (d *drops) commit() error {
	err := d.out.Commit(pebble.NoSync)
	d.s.pace.Committed(d.out.Len())
	d.out.Close()
	d.out = d.s.db.NewBatch()
	return err
}
