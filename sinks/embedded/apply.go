package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// change is a batch while it is assembled. It holds updates of rows, which the store merges
// (merge.go), so writing reads nothing.
type change struct {
	s        *Store
	out      *pebble.Batch
	rows     *rows
	erased   map[[2]string]int64 // triggers that this batch erases
	progress map[int32]sinks.Progress
	value    []byte // buffer of the last encoded value; out has a copy
	key      []byte // the same of the last merged key
}

// rows are the updates that a batch gathers. Only the writer of the store uses them.
type rows struct {
	states  gathered[sinks.StateRow, *sinks.StateRow]
	minutes gathered[sinks.MinuteRow, *sinks.MinuteRow]
}

func (r *rows) reset() {
	r.states.reset()
	r.minutes.reset()
}

// Apply writes the events' rows and the offsets as one Pebble batch.
func (s *Store) Apply(ctx context.Context, batch []sinks.EventRecord) error {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	c := &change{
		s: s, out: s.db.NewBatch(), rows: &s.rows, erased: map[[2]string]int64{}, progress: map[int32]sinks.Progress{},
	}
	defer c.out.Close()
	defer c.rows.reset()
	if err := c.fill(batch); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := s.commit(c.out); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	maps.Copy(s.applied, c.progress)
	return nil
}

// fill collects erasures first, so that they are known before the batch's events are written.
func (c *change) fill(batch []sinks.EventRecord) error {
	for i := range batch {
		c.advance(&batch[i])
		if err := c.noteErased(&batch[i]); err != nil {
			return err
		}
	}
	for i := range batch {
		if r := &batch[i]; !r.Poison {
			if err := c.put(r); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(c.rows.states.writeTo(c), c.rows.minutes.writeTo(c)); err != nil {
		return err
	}
	for k, us := range c.erased {
		err := errors.Join(c.erase(k[0], k[1], us), c.eraseLetters(k[0], k[1], us),
			c.eraseNotifications(k[0], k[1], us))
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	for partition, p := range c.progress {
		if err := c.putProgress(partition, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) advance(r *sinks.EventRecord) {
	p := c.progress[r.Partition]
	p.Next = max(p.Next, r.Offset+1)
	p.EventUS = max(p.EventUS, r.EventUS)
	c.progress[r.Partition] = p
}

// noteErased notes an erasure that the store does not have yet.
func (c *change) noteErased(r *sinks.EventRecord) error {
	if r.Poison || r.Type != string(trigger.ErasedFact) {
		return nil
	}
	said := sinks.StateOf(&r.Event, c.s.retention())
	if known, err := c.s.erasedUS(r); err != nil || said.ErasedUS.V <= known {
		return err
	}
	k := [2]string{r.Tenant, r.Trigger}
	c.erased[k] = max(c.erased[k], said.ErasedUS.V)
	return nil
}

// erasedUS returns when the trigger of an event was last erased, according to the store.
func (s *Store) erasedUS(r *sinks.EventRecord) (int64, error) {
	var row sinks.StateRow
	if err := s.get(triggerPrefix(tableState, r.Tenant, r.Trigger), &row); err != nil {
		return 0, fmt.Errorf("read state: %w", err)
	}
	return row.ErasedUS.V, nil
}

// erasedSince returns when an event's content was erased, or 0 if it was not. It reads the store
// only for events that were applied before, or are late, because event_us grows.
func (c *change) erasedSince(r *sinks.EventRecord) (us int64, err error) {
	if us = c.erased[[2]string{r.Tenant, r.Trigger}]; r.EventUS <= us {
		return us, nil
	}
	if r.EventUS > c.s.applied[r.Partition].EventUS {
		return 0, nil
	}
	if us, err = c.s.erasedUS(r); r.EventUS <= us {
		return us, err
	}
	return 0, err
}

// put writes an event's row and its updates of state and minutes, without content if the trigger
// was erased since.
func (c *change) put(r *sinks.EventRecord) error {
	state := sinks.StateOf(&r.Event, c.s.retention())
	c.rows.states.add(triggerPrefix(tableState, r.Tenant, r.Trigger), &state)
	erased, err := c.erasedSince(r)
	if err != nil {
		return err
	}
	if err := c.putNotification(r, erased); err != nil {
		return err
	}
	if erased != 0 {
		r = blanked(r)
	}
	sinks.MinutesOf(&r.Event, c.s.retention(), func(k sinks.MinuteKey, said sinks.MinuteRow) {
		c.rows.minutes.add(minuteKey(k), &said)
	})
	if !sinks.EventUntil(r.EventUS, c.s.retention()).After(c.s.opts.Now()) {
		return nil
	}
	at := sinks.CursorOf(r)
	if err := errors.Join(c.setEvent(r, at), c.putLetterEnd(r)); err != nil {
		return err
	}
	return c.out.Set(ageKey(r.Tenant, r.Trigger, at), nil, nil)
}

// blanked returns an event without its content.
func blanked(r *sinks.EventRecord) *sinks.EventRecord {
	b := *r
	sinks.Blank(&b.Event)
	b.Raw = nil
	return &b
}

func (c *change) mergeRow(key []byte, row any) error {
	c.value = appendRow(c.value[:0], row)
	return c.out.Merge(key, c.value, nil)
}

func (c *change) setEvent(r *sinks.EventRecord, at sinks.EventCursor) (err error) {
	if c.value, err = appendEvent(c.value[:0], r); err != nil {
		return err
	}
	return c.out.Set(eventKey(r.Tenant, r.Trigger, at), c.value, nil)
}

// erase blanks what earlier batches wrote for a trigger up to an instant.
func (c *change) erase(tenant, key string, us int64) error {
	prefix := triggerPrefix(tableEvents, tenant, key)
	return c.s.scan(prefix, appendInt(slices.Clone(prefix), us+1), func(_, v []byte) error {
		r, err := decodeEvent(v)
		if err != nil {
			return err
		}
		// The notification may have had another position before. Its row no longer has that.
		if n, _, ok := sinks.NotificationOf(&r.Event, c.s.retention()); ok {
			if err := c.out.Delete(userKey(n), nil); err != nil {
				return err
			}
		}
		return c.putErased(blanked(&r), us)
	})
}

func (c *change) putErased(r *sinks.EventRecord, us int64) error {
	if err := c.setEvent(r, sinks.CursorOf(r)); err != nil {
		return err
	}
	for _, text := range []string{r.ScheduledAt, r.PreviousScheduled, r.First} {
		k := sinks.MinuteKey{Due: sinks.InstantOf(text), Tenant: r.Tenant, Trigger: r.Trigger}
		if k.Due == 0 {
			continue
		}
		row := sinks.MinuteErased(us, c.s.retention())
		if err := c.mergeRow(minuteKey(k), &row); err != nil {
			return err
		}
	}
	return nil
}

// putProgress never moves back, except for newer events at lower offsets: then the topic was
// recreated. The newest event may be applied once more after the markers behind it were read.
func (c *change) putProgress(partition int32, p sinks.Progress) error {
	was := c.s.applied[partition]
	if p.EventUS <= was.EventUS && p.Next <= was.Next {
		delete(c.progress, partition)
		return nil
	}
	p.EventUS = max(p.EventUS, was.EventUS)
	c.progress[partition] = p
	return c.out.Set(progressKey(tableProgress, partition), encodeProgress(p), nil)
}
