package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/go-json-experiment/json"

	"github.com/waterclock/waterclock/sinks"
)

// change is a batch while it is put together: what the store had, merged with
// what the events say.
type change struct {
	s        *Store
	out      *pebble.Batch
	states   map[[2]string]*sinks.StateRow
	minutes  map[sinks.MinuteKey]*sinks.MinuteRow
	progress map[int32]sinks.Progress
}

// Apply merges the events into the rows and writes rows and offsets as one
// Pebble batch.
func (s *Store) Apply(ctx context.Context, batch []sinks.EventRecord) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.write.Lock()
	defer s.write.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &change{s: s, out: s.db.NewBatch(), states: map[[2]string]*sinks.StateRow{},
		minutes: map[sinks.MinuteKey]*sinks.MinuteRow{}, progress: map[int32]sinks.Progress{}}
	defer c.out.Close()
	if err := c.fill(batch); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return wrap("apply: commit", c.out.Commit(pebble.NoSync))
}

// fill merges all states first, so that what the batch erases is known before
// its events are written.
func (c *change) fill(batch []sinks.EventRecord) error {
	erased := map[[2]string]int64{}
	for i := range batch {
		r := &batch[i]
		c.advance(r)
		if r.Poison {
			continue
		}
		if err := c.mergeState(r, erased); err != nil {
			return err
		}
	}
	for i := range batch {
		if r := batch[i]; !r.Poison {
			if err := c.putEvent(r); err != nil {
				return err
			}
		}
	}
	for k, us := range erased {
		if err := c.erase(k[0], k[1], us); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	return c.flush()
}

func (c *change) advance(r *sinks.EventRecord) {
	p := c.progress[r.Partition]
	p.Next = max(p.Next, r.Offset+1)
	p.EventUS = max(p.EventUS, r.EventUS)
	c.progress[r.Partition] = p
}

func (c *change) mergeState(r *sinks.EventRecord, erased map[[2]string]int64) error {
	k := [2]string{r.Tenant, r.Trigger}
	row, ok := c.states[k]
	if !ok {
		row = &sinks.StateRow{}
		if err := c.s.get(triggerPrefix(tableState, r.Tenant, r.Trigger), row); err != nil {
			return fmt.Errorf("read state: %w", err)
		}
		c.states[k] = row
	}
	before := row.ErasedUS.V
	said := sinks.StateOf(&r.Event, c.s.retention())
	row.Merge(&said)
	if row.ErasedUS.V > before {
		erased[k] = row.ErasedUS.V
	}
	return nil
}

// putEvent writes an event's row and its words on the minutes; without content
// if the trigger was erased since.
func (c *change) putEvent(r sinks.EventRecord) (err error) {
	if r.EventUS <= c.states[[2]string{r.Tenant, r.Trigger}].ErasedUS.V {
		sinks.Blank(&r.Event)
	}
	sinks.MinutesOf(&r.Event, c.s.retention(), func(k sinks.MinuteKey, said sinks.MinuteRow) {
		err = errors.Join(err, c.mergeMinute(k, said))
	})
	if err != nil || !sinks.EventUntil(r.EventUS, c.s.retention()).After(c.s.opts.Now()) {
		return err
	}
	value, err := encodeEvent(&r)
	if err != nil {
		return err
	}
	at := sinks.CursorOf(&r)
	if err := c.out.Set(eventKey(r.Tenant, r.Trigger, at), value, nil); err != nil {
		return err
	}
	return c.out.Set(ageKey(r.Tenant, r.Trigger, at), nil, nil)
}

func (c *change) mergeMinute(k sinks.MinuteKey, said sinks.MinuteRow) error {
	row, ok := c.minutes[k]
	if !ok {
		row = &sinks.MinuteRow{}
		if err := c.s.get(minuteKey(k), row); err != nil {
			return fmt.Errorf("read minute: %w", err)
		}
		c.minutes[k] = row
	}
	row.Merge(&said)
	return nil
}

// erase blanks what earlier batches wrote of a trigger up to an instant.
func (c *change) erase(tenant, key string, us int64) error {
	prefix := triggerPrefix(tableEvents, tenant, key)
	return c.s.scan(prefix, appendInt(slices.Clone(prefix), us+1), func(_, v []byte) error {
		r, err := decodeEvent(v)
		if err != nil {
			return err
		}
		return c.putErased(r, us)
	})
}

func (c *change) putErased(r sinks.EventRecord, us int64) error {
	sinks.Blank(&r.Event)
	value, err := encodeEvent(&r)
	if err != nil {
		return err
	}
	if err := c.out.Set(eventKey(r.Tenant, r.Trigger, sinks.CursorOf(&r)), value, nil); err != nil {
		return err
	}
	for _, text := range []string{r.ScheduledAt, r.PreviousScheduled} {
		k := sinks.MinuteKey{Due: sinks.InstantOf(text), Tenant: r.Tenant, Trigger: r.Trigger}
		if k.Due == 0 {
			continue
		}
		if err := c.mergeMinute(k, sinks.MinuteErased(us, k, c.s.retention())); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the merged rows and the offsets into the batch.
func (c *change) flush() error {
	for k, row := range c.states {
		if err := c.put(triggerPrefix(tableState, k[0], k[1]), row); err != nil {
			return err
		}
	}
	for k, row := range c.minutes {
		if err := c.put(minuteKey(k), row); err != nil {
			return err
		}
	}
	for partition, p := range c.progress {
		if err := c.putProgress(partition, p); err != nil {
			return err
		}
	}
	return nil
}

// putProgress never moves back, but for newer events at lower offsets: then the
// topic was made anew.
func (c *change) putProgress(partition int32, p sinks.Progress) error {
	all, err := c.s.progress()
	if err != nil {
		return err
	}
	was := all[partition]
	if p.EventUS < was.EventUS && p.Next <= was.Next {
		return nil
	}
	p.EventUS = max(p.EventUS, was.EventUS)
	return c.out.Set(progressKey(partition), encodeProgress(p), nil)
}

func (c *change) put(key []byte, row any) error {
	value, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("encode row: %w", err)
	}
	return c.out.Set(key, value, nil)
}
