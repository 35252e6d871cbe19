package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// RowFault is a fault of a trigger's row of trigger_state. "" means none.
type RowFault string

// The faults.
const (
	// RowDiffers means that a row is missing, or differs from the fold of the trigger's events.
	// It can be rewritten from the events.
	RowDiffers RowFault = "row_differs"
	// EventsMissing means that the owner counted events that the history does not have. Only a
	// rebuild from topic events restores them.
	EventsMissing RowFault = "events_missing"
)

// Known is the state of a trigger according to its owner. It may be older than the row.
type Known struct {
	Key    trigger.Key
	Status trigger.Status
	Seq    int64           // of its last event
	At     trigger.Instant // of its last change
	Born   trigger.Instant // of its first event in this life
	Nobody bool            // it is for no user, so it has no notifications
	Speaks bool            // its payload has content of notifications
}

// until returns the earliest time at which the retention removes the row.
func (k *Known) until(retention time.Duration) time.Time {
	if !k.Status.Finished() {
		retention = max(retention, minLiveState)
	}
	return k.At.Time().Add(retention)
}

// CheckRow compares a trigger's row with the owner's state. If they differ, it compares the row
// with the events. mend rewrites the row from the events. Call it once the history has read all
// events of the partition that existed when the owner was asked.
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

// eachPage reads the events of a trigger page by page. There may be hundreds of thousands.
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

// fold is the row that results from events.
type fold struct {
	until     int64 // seq of the last event that the owner counted
	retention time.Duration

	row      StateRow
	complete bool // the event until, or a later one, was added
}

func (f *fold) add(events []EventRecord) error {
	for i := range events {
		f.complete = f.complete || events[i].Seq >= f.until
		said := StateOf(&events[i].Event, f.retention)
		f.row.Merge(&said)
	}
	return nil
}

// sameRow compares the fields that every event sets. Other fields may come from events that the
// retention has removed.
func sameRow(said, row *TriggerState) bool {
	return said.EventUS <= row.EventUS && (said.EventUS < row.EventUS ||
		said.State == row.State && said.Type == row.Type && said.Revision == row.Revision && said.Seq == row.Seq)
}
