package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// RowFault is what is wrong with a trigger's row of trigger_state; "" is nothing.
type RowFault string

// The faults.
const (
	// RowDiffers is a row that is not what the trigger's events say together, or is missing.
	// It can be written again from them.
	RowDiffers RowFault = "row_differs"
	// EventsMissing are events that the owner counted and the history does not have. Only a
	// rebuild from topic events brings them back.
	EventsMissing RowFault = "events_missing"
)

// Known is what the owner of a trigger says of it. It may be older than its row.
type Known struct {
	Key    trigger.Key
	Status trigger.Status
	Seq    int64           // of its last event
	At     trigger.Instant // of its last change
	Born   trigger.Instant // of its first event in this life
	Nobody bool            // it is for no user, so it has no notifications
	Speaks bool            // its payload has what notifications say
}

// until is when the retention takes its row at the earliest.
func (k *Known) until(retention time.Duration) time.Time {
	if !k.Status.Finished() {
		retention = max(retention, minLiveState)
	}
	return k.At.Time().Add(retention)
}

// CheckRow compares a trigger's row with what the owner says, and where they differ with
// its events. mend writes the row again from the events. Call it when the history has read
// all events of the partition that were there when the owner was asked.
func CheckRow(ctx context.Context, h History, k Known, retention time.Duration, now time.Time, mend bool,
) (fault RowFault, mended bool, err error) {
	row, ok, err := h.Trigger(ctx, k.Key.Tenant(), string(k.Key))
	if err != nil {
		return "", false, err
	}
	if ok && (row.Seq > k.Seq || row.Seq == k.Seq && row.State == k.Status.String()) {
		return "", false, nil
	}
	if k.until(retention).Before(now) {
		return "", false, nil
	}
	q := EventQuery{Tenant: k.Key.Tenant(), Trigger: string(k.Key), Limit: MaxPage}
	if !ok {
		q.Since = k.Born
	}
	f := fold{until: k.Seq, retention: retention}
	if err := eachPage(ctx, h, q, f.add); err != nil {
		return "", false, err
	}
	if !f.complete {
		return EventsMissing, false, nil
	}
	if said, some := f.row.At(now, "", ""); some && ok && sameRow(&said, &row) {
		return "", false, nil // the state has changed since the owner was asked
	}
	if !mend {
		return RowDiffers, false, nil
	}
	f = fold{until: k.Seq, retention: retention}
	err = eachPage(ctx, h, q, func(events []EventRecord) error {
		return errors.Join(f.add(events), h.Apply(ctx, events))
	})
	if err != nil {
		return RowDiffers, false, fmt.Errorf("write the row of %s again: %w", k.Key, err)
	}
	row, ok, err = h.Trigger(ctx, k.Key.Tenant(), string(k.Key))
	said, some := f.row.At(now, "", "")
	return RowDiffers, some && ok && sameRow(&said, &row), err
}

// eachPage reads the events of a trigger a page at a time. There may be hundreds of
// thousands.
func eachPage(ctx context.Context, h History, q EventQuery, f func([]EventRecord) error) error {
	for {
		page, err := h.Events(ctx, q)
		if err != nil {
			return err
		}
		if err := f(page.Events); err != nil || page.Next == (EventCursor{}) {
			return err
		}
		q.After = page.Next
	}
}

// fold is the row that events make together.
type fold struct {
	until     int64 // the event that the owner counted last
	retention time.Duration

	row      StateRow
	complete bool // until, or a later one, is among them
}

func (f *fold) add(events []EventRecord) error {
	for i := range events {
		f.complete = f.complete || events[i].Seq >= f.until
		said := StateOf(&events[i].Event, f.retention)
		f.row.Merge(&said)
	}
	return nil
}

// sameRow compares what each event says anew. Other fields may be from events that the
// retention has taken.
func sameRow(said, row *TriggerState) bool {
	return said.EventUS <= row.EventUS && (said.EventUS < row.EventUS ||
		said.State == row.State && said.Type == row.Type && said.Revision == row.Revision && said.Seq == row.Seq)
}
