package sinktest

import (
	"context"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// CheckRow tests sinks.CheckRow. lose removes the row of a trigger from trigger_state and leaves
// its events.
func CheckRow(t *testing.T, open Open, lose func(h sinks.History, tenant, key string)) {
	w := newWorld(t, open)
	key := w.tenant + "/k"
	life := w.life(key, w.start.Add(time.Hour))
	ctx := context.Background()
	if err := w.h.Apply(ctx, life[:len(life)-1]); err != nil {
		t.Fatal(err)
	}
	last := life[len(life)-1]
	status, _ := trigger.ParseStatus(last.State)
	known := sinks.Known{
		Key: trigger.Key(key), Status: status, Seq: last.Seq, At: trigger.At(w.start), Born: trigger.At(w.start),
	}
	want := func(what string, known sinks.Known, mend bool, fault sinks.RowFault, mended bool) {
		t.Helper()
		f, m, err := sinks.CheckRow(ctx, w.h, known, 90*24*time.Hour, time.Now(), mend)
		if f != fault || m != mended || err != nil {
			t.Fatalf("%s: %q, mended %v, %v", what, f, m, err)
		}
	}
	want("the last event is missing", known, true, sinks.EventsMissing, false)
	marker := sinks.EventRecord{Partition: last.Partition, Offset: last.Offset + 1, Poison: true}
	if err := w.h.Apply(ctx, []sinks.EventRecord{last, marker}); err != nil {
		t.Fatal(err)
	}
	want("all is there", known, true, "", false)
	earlier := known
	earlier.Seq, earlier.Status = 1, trigger.Pending
	want("the owner was asked before", earlier, true, "", false)
	before, _, err := w.h.Trigger(ctx, w.tenant, key)
	if err != nil {
		t.Fatal(err)
	}

	lose(w.h, w.tenant, key)
	if _, ok, err := w.h.Trigger(ctx, w.tenant, key); ok || err != nil {
		t.Fatalf("the row is there, %v", err)
	}
	want("a dry run", known, false, sinks.RowDiffers, false)
	want("mended", known, true, sinks.RowDiffers, true)
	if all, err := w.h.Progress(ctx); err != nil || all[last.Partition].Next != marker.Offset+1 {
		t.Errorf("the mending moved the history's progress: %+v, %v; the marker is at %d", all, err, marker.Offset)
	}
	want("afterwards", known, false, "", false)
	if after, ok, err := w.h.Trigger(ctx, w.tenant, key); err != nil || !ok || after.EventUS != before.EventUS ||
		after.State != before.State || after.UserID != before.UserID || after.Seq != before.Seq {
		t.Errorf("the row was %+v and is %+v, %v", before, after, err)
	}
	old := known
	old.At = trigger.At(time.Now().Add(-91 * 24 * time.Hour))
	lose(w.h, w.tenant, key)
	want("the retention has taken it", old, true, "", false)
}
