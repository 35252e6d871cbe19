package pipeline

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestAuditFindsWhatWasPassed: a timer before the place from where timers are read, and
// others that are overdue.
func TestAuditFindsWhatWasPassed(t *testing.T) {
	cache := statestore.NewCache(1 << 20)
	defer cache.Close()
	st, err := statestore.Open(statestore.Options{Dir: "s", FS: vfs.NewMem(), Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	b := st.NewBatch()
	for key, late := range map[trigger.Key]time.Duration{
		"passed": 2 * time.Hour, "overdue": 30 * time.Minute, "late": 5 * time.Minute, "ahead": -time.Hour,
	} {
		s := &trigger.State{Key: key, Status: trigger.Pending, Revision: 1}
		s.Series.At, s.Series.Occurrence = trigger.At(now.Add(-late)), "2026-11-25T10:00:00Z"
		value, err := topics.AppendStateAs(nil, s, topics.FormatOf(s))
		if err != nil {
			t.Fatal(err)
		}
		b.Put(nil, recovery.Row(s, s.Timers(nil), value))
	}
	waits := &trigger.State{Key: "waits", Status: trigger.InFlight, Revision: 1, Live: []trigger.Live{{
		Kind: trigger.LiveInFlight, Occurrence: "2026-11-25T11:00:00Z", Attempt: 1, Revision: 1,
		Nominal: trigger.At(now.Add(-time.Hour)), Due: trigger.At(now.Add(-20 * time.Minute)), // the time-out
	}}}
	value, err := topics.AppendStateAs(nil, waits, topics.FormatOf(waits))
	if err != nil {
		t.Fatal(err)
	}
	b.Put(nil, recovery.Row(waits, waits.Timers(nil), value))
	b.SetMeta(recovery.MetaCursor, recovery.Number(int64(trigger.At(now.Add(-time.Hour)))))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	v := &View{store: st, now: func() time.Time { return now }}
	r, err := v.Audit(t.Context(), 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Leaks) != 1 || r.Leaks[0].Kind != LeakTimerPassed || r.Leaks[0].Key != "passed" {
		t.Errorf("leaks %+v", r.Leaks)
	}
	if r.Overdue != 2 || r.InFlight != 1 || r.Triggers != 5 || r.Timers != 5 {
		t.Errorf("%+v", r)
	}
}

// TestAuditOfAClosedStore: the partition moves while it is audited.
func TestAuditOfAClosedStore(t *testing.T) {
	st, err := statestore.Open(statestore.Options{Dir: "s", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	v := &View{store: st, now: time.Now}
	if _, err := v.Audit(t.Context(), time.Minute); !errors.Is(err, ErrNotOwner) {
		t.Errorf("%v, want %v", err, ErrNotOwner)
	}
}

// TestMendKeepsTheState: a state lies at a timer that it does not have. The timer goes, and
// the state stays.
func TestMendKeepsTheState(t *testing.T) {
	st := memStore(t)
	s := &trigger.State{Key: "k", Status: trigger.Paused, Revision: 1}
	s.Series.At, s.Series.Occurrence = 1000, "1970-01-01T00:00:01Z"
	value, err := topics.AppendStateAs(nil, s, topics.FormatOf(s))
	if err != nil {
		t.Fatal(err)
	}
	b := st.NewBatch()
	b.Put(nil, recovery.Row(s, []trigger.Timer{{Due: 1000, Kind: trigger.TimerSeries}}, value))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	v := &View{store: st, now: time.Now}
	r, err := v.Audit(t.Context(), time.Minute)
	if err != nil || len(r.Leaks) != 1 || r.Leaks[0].Kind != LeakTimerStray {
		t.Fatalf("%+v, %v", r, err)
	}
	m := &mender{store: st, changes: b}
	if err := m.mendOne(&turn{}, &r.Leaks[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := st.Get("k", nil); err != nil || !bytes.Equal(got, value) {
		t.Errorf("%x, %v", got, err)
	}
	if r, err = v.Audit(t.Context(), time.Minute); err != nil || len(r.Leaks) != 0 || r.Timers != 0 {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
}
