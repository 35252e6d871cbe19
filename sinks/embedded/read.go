package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// Events reads one trigger's rows in key order, which is the order of time.
func (s *Store) Events(ctx context.Context, q sinks.EventQuery) (page sinks.EventPage, err error) {
	if err := s.enter(); err != nil {
		return page, err
	}
	defer s.leave()
	now := s.opts.Now()
	err = s.walk(eventRange(q), q.Newest, func(_, v []byte) error {
		r, err := decodeEvent(v)
		if err != nil {
			return err
		}
		if !sinks.EventUntil(r.EventUS, s.retention()).After(now) {
			return ctx.Err()
		}
		if !page.Add(&q, r) {
			return errStop
		}
		return ctx.Err()
	})
	return page, wrap("read events", err)
}

func eventRange(q sinks.EventQuery) [2][]byte {
	prefix := triggerPrefix(tableEvents, q.Tenant, q.Trigger)
	bounds := [2][]byte{prefix, after(prefix)}
	switch at := eventKey(q.Tenant, q.Trigger, q.After); {
	case q.After.IsZero():
	case q.Newest:
		bounds[1] = at
	default:
		bounds[0] = append(at, 0)
	}
	return bounds
}

// Trigger reads one row of trigger_state.
func (s *Store) Trigger(_ context.Context, tenant, key string) (t sinks.TriggerState, ok bool, err error) {
	if err := s.enter(); err != nil {
		return t, false, err
	}
	defer s.leave()
	var row sinks.StateRow
	if err := s.get(triggerPrefix(tableState, tenant, key), &row); err != nil {
		return t, false, fmt.Errorf("read trigger: %w", err)
	}
	t, ok = row.At(s.opts.Now(), tenant, key)
	return t, ok, nil
}

// ByMinute reads the entries of one minute. Shards only filter here.
func (s *Store) ByMinute(ctx context.Context, q sinks.MinuteQuery) (page sinks.MinutePage, err error) {
	if err := s.enter(); err != nil {
		return page, err
	}
	defer s.leave()
	limit, now := sinks.PageSize(q.Limit), s.opts.Now()
	err = s.walk(minuteRange(q), false, func(k, v []byte) error {
		e, ok, err := decodeMinute(k, v, now, q.Shards)
		if err != nil || !ok {
			return errors.Join(err, ctx.Err())
		}
		if len(page.Entries) == limit {
			page.Next = page.Entries[limit-1].Cursor()
			return errStop
		}
		page.Entries = append(page.Entries, e)
		return ctx.Err()
	})
	return page, wrap("read minute", err)
}

func minuteRange(q sinks.MinuteQuery) [2][]byte {
	from := minutePrefix(trigger.Instant(q.Minute * 60_000))
	if c := q.After; !c.IsZero() {
		from = append(minuteKey(sinks.MinuteKey(c)), 0)
	}
	return [2][]byte{from, minutePrefix(trigger.Instant((q.Minute + 1) * 60_000))}
}

// Progress reads the positions of all partitions.
func (s *Store) Progress(context.Context) (map[int32]sinks.Progress, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.progress(tableProgress)
}

func (s *Store) progress(table byte) (map[int32]sinks.Progress, error) {
	all := map[int32]sinks.Progress{}
	prefix := []byte{table}
	err := s.scan(prefix, after(prefix), func(k, v []byte) error {
		partition, _, err := takeInt(k[1:])
		if err != nil {
			return err
		}
		all[int32(partition)], err = decodeProgress(v)
		return err
	})
	return all, wrap("read progress", err)
}

// get decodes a row. If there is none, row does not change.
func (s *Store) get(key []byte, row any) error {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	return decodeRow(v, row)
}

// errStop ends a scan without an error.
var errStop = errors.New("stop")

func (s *Store) scan(from, to []byte, visit func(k, v []byte) error) error {
	return s.walk([2][]byte{from, to}, false, visit)
}

// walk visits the keys of a range, in order or in reverse order.
func (s *Store) walk(bounds [2][]byte, reverse bool, visit func(k, v []byte) error) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: slices.Clone(bounds[0]), UpperBound: bounds[1]})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	step, ok := it.Next, it.First
	if reverse {
		step, ok = it.Prev, it.Last
	}
	for valid := ok(); valid; valid = step() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(it.Key(), v); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
