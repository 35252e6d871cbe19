package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/pace/pacetest"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// event returns the n-th event of the log, a minute after the previous one.
func event(n int, payload string) sinks.EventRecord {
	at := start.Add(time.Duration(n) * time.Minute)
	e := topics.Event{
		Type: "trigger.registered", Version: 1, Trigger: fmt.Sprintf("k%d", n%50), Tenant: "default",
		Seq:   int64(n/50 + 1),
		State: "CANCELLED", EventUS: at.UnixMicro(), ScheduledAt: at.Format("2006-01-02T15:04:05.000Z"),
	}
	if payload != "" {
		e.PayloadBase64 = payload
	}
	return sinks.EventRecord{Event: e, Offset: int64(n)}
}

func apply(t testing.TB, s *Store, events ...sinks.EventRecord) {
	t.Helper()
	if err := s.Apply(context.Background(), events); err != nil {
		t.Fatal(err)
	}
}

// applyNoise applies n events of 8 KiB of incompressible data.
func applyNoise(t testing.TB, s *Store, n int) {
	t.Helper()
	noise, seed := make([]byte, 8<<10), uint32(1)
	for i := range n {
		for j := range noise {
			seed = seed*1664525 + 1013904223
			noise[j] = '!' + byte(seed>>24)%90
		}
		apply(t, s, event(i, string(noise)))
	}
}

func count(t testing.TB, s *Store, table byte) (n int) {
	t.Helper()
	if err := s.scan([]byte{table}, after([]byte{table}), func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// Sweep removes what readers no longer see, and nothing else.
func TestSweepByAge(t *testing.T) {
	now := start.Add(time.Hour)
	s := openTest(t, Options{
		Dir: t.TempDir(), Retention: time.Hour, SweepEvery: -1,
		Now: func() time.Time { return now },
	})
	for n := range 120 {
		apply(t, s, event(n, ""))
	}
	for _, c := range []struct {
		hours               float64
		events, states, min int
	}{
		{1, 119, 50, 120}, // the first is exactly an hour old
		{1.5, 89, 50, 90},
		{2.5, 29, 29, 30},
		{3.1, 0, 0, 0},
	} {
		now = start.Add(time.Duration(c.hours * float64(time.Hour)))
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
		if e, x := count(t, s, tableEvents), count(t, s, tableByAge); e != c.events || x != c.events {
			t.Errorf("after %v h: %d events and %d in the index, want %d", c.hours, e, x, c.events)
		}
		if n := count(t, s, tableState); n != c.states {
			t.Errorf("after %v h: %d states, want %d", c.hours, n, c.states)
		}
		if n := count(t, s, tableMinute); n > c.min+1 || n < c.min-1 {
			t.Errorf("after %v h: %d entries, want about %d", c.hours, n, c.min)
		}
	}
}

// Above MaxBytes the oldest events are removed, and the newest stay.
func TestSweepBySize(t *testing.T) {
	s := openTest(t, Options{
		Dir: t.TempDir(), MaxBytes: 1 << 20, SweepEvery: -1,
		Now: func() time.Time { return start },
	})
	const n = 400
	applyNoise(t, s, n)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	used, err := s.db.EstimateDiskUsage([]byte{tableEvents}, after([]byte{tableEvents}))
	if err != nil || used > 1<<20 {
		t.Errorf("%d bytes after the sweep, %v", used, err)
	}
	left := count(t, s, tableEvents)
	if left < 50 || left > 140 {
		t.Errorf("%d events left, want some hundred", left)
	}
	for i := n - left; i < n; i++ {
		e := event(i, "")
		page, err := s.Events(context.Background(), sinks.EventQuery{
			Tenant: "default", Trigger: e.Trigger,
			After: sinks.EventCursor{EventUS: e.EventUS - 1}, Limit: 1,
		})
		if err != nil || len(page.Events) != 1 || page.Events[0].EventUS != e.EventUS {
			t.Fatalf("event %d of the newest %d is gone: %v", i, left, err)
		}
	}
}

// An entry's content from an event is removed with the event, even if the size bound removes the
// event early, because an erase finds entries by their events.
func TestSweepBySizeThenErase(t *testing.T) {
	s := openTest(t, Options{
		Dir: t.TempDir(), MaxBytes: 1 << 20, SweepEvery: -1,
		Now: func() time.Time { return start },
	})
	due := trigger.At(start.Add(300 * 24 * time.Hour))
	e := sinks.EventRecord{Event: topics.Event{
		Type: "trigger.registered", Version: 1, Trigger: "ann's", Tenant: "default", Seq: 1, State: "PENDING",
		EventUS: start.Add(-time.Hour).UnixMicro(), ScheduledAt: due.String(), UserID: "ann", Channel: "push",
	}}
	apply(t, s, e)
	applyNoise(t, s, 400)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	page, err := s.Events(context.Background(), sinks.EventQuery{Tenant: "default", Trigger: "ann's"})
	if err != nil || len(page.Events) != 0 {
		t.Fatalf("the oldest event is still there: %+v, %v", page.Events, err)
	}
	e.Type, e.State, e.Seq, e.EventUS, e.UserID, e.ScheduledAt = "trigger.erased", "ERASED", 2,
		start.Add(500*time.Minute).UnixMicro(), "", ""
	e.Offset = 1000
	apply(t, s, e)
	minute, err := s.ByMinute(context.Background(), sinks.MinuteQuery{Minute: sinks.MinuteOf(due)})
	if err != nil || len(minute.Entries) != 1 || minute.Entries[0].UserID != "" || minute.Entries[0].Channel != "push" {
		t.Errorf("after the erase: %+v, %v", minute.Entries, err)
	}
}

// A crash loses the end of what was applied, never the middle. Progress and the rows stay
// consistent.
func TestCrash(t *testing.T) {
	for seed := range 20 {
		fs := vfs.NewCrashableMem()
		s, err := Open(Options{Dir: "h", FS: fs, SweepEvery: -1, Now: func() time.Time { return start }})
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 200; n += 10 {
			var batch []sinks.EventRecord
			for i := range 10 {
				batch = append(batch, event(n+i, ""))
			}
			apply(t, s, batch...)
			if n == 50 {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: seed * 5, RNG: newRand(uint64(seed))})
		s.Close()
		second := openTest(t, Options{Dir: "h", FS: crashed, SweepEvery: -1, Now: func() time.Time { return start }})
		progress, err := second.Progress(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if next, rows := progress[0].Next, count(t, second, tableEvents); next != int64(rows) || next%10 != 0 ||
			next < 60 {
			t.Errorf("seed %d: progress %d and %d rows", seed, next, rows)
		}
	}
}

// A directory that Pebble finds corrupt is set aside, and a new one is filled from the log.
func TestCorruptDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, event(0, ""))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	spoilManifest(t, dir)
	s = openTest(t, Options{Dir: dir})
	if p, err := s.Progress(context.Background()); err != nil || len(p) != 0 {
		t.Errorf("the new directory has progress %v, %v", p, err)
	}
	if aside, _ := filepath.Glob(dir + ".corrupt-*"); len(aside) != 1 {
		t.Errorf("set aside: %v", aside)
	}
}

func spoilManifest(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(names) == 0 {
		t.Fatal("no manifest", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 8; i < len(b); i++ {
			b[i] ^= 0x5a
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewerFormat(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Set([]byte(keyFormat), []byte("4"), nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "run a newer waterclock") {
		t.Errorf("opened: %v", err)
	}
}

func TestClosed(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("apply: %v", err)
	}
	if _, err := s.Events(context.Background(), sinks.EventQuery{}); !errors.Is(err, ErrClosed) {
		t.Errorf("events: %v", err)
	}
}

func TestOptionsValidate(t *testing.T) {
	err := Options{Retention: -1, MaxBytes: 5, SweepEvery: -7}.Validate()
	for _, field := range []string{"Dir", "Retention", "MaxBytes", "SweepEvery"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no word on %s in: %v", field, err)
		}
	}
}

// A sweep checks a second time before it deletes, so rows that Apply has revived meanwhile stay.
func TestSweepReadsTwice(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), SweepEvery: -1, Now: func() time.Time { return start }})
	for i := range 50 {
		apply(t, s, event(i, ""))
	}
	reads := 0
	err := s.dropRows([]byte{tableState}, after([]byte{tableState}), func([]byte) (bool, error) {
		reads++
		return reads > 50 && reads%2 == 0, nil
	})
	if left := count(t, s, tableState); err != nil || reads != 100 || left != 25 {
		t.Errorf("%d rows left after %d looks, %v; want 25 after 100", left, reads, err)
	}
}

// Compaction starts only once the directory is open.
func TestOpensBeforeItCompacts(t *testing.T) {
	o := Options{Dir: "h", FS: vfs.NewMem(), SweepEvery: -1, Now: func() time.Time { return start }}
	s := openTest(t, o)
	s.waited.Store(true) // prevents compaction
	for range 14 {
		applyNoise(t, s, 10)
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	applyNoise(t, s, 10) // for the log
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, o)
	if m := s.db.Metrics(); m.Compact.Count != 0 || m.Flush.Count == 0 {
		t.Errorf("opened after %d flushes and %d compactions", m.Flush.Count, m.Compact.Count)
	}
	for s.db.Metrics().Levels[0].Sublevels >= 12 { // loops for ever if nothing is compacted
		applyNoise(t, s, 1)
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Flushes are paced, like those of the engine's stores, and so are the compactions after a sweep.
func TestFlushesRest(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // with many cores, a flush may use one without pauses
	synctest.Test(t, func(t *testing.T) {
		disk := pacetest.New(time.Millisecond)
		s := openTest(t, Options{
			Dir: "h", FS: disk, MaxBytes: 1 << 20, SweepEvery: -1,
			Now: func() time.Time { return start },
		})
		applyNoise(t, s, 200)
		check := func(what string, do func() error, rests bool) {
			t.Helper()
			if got := disk.Rests(t, do); got != rests {
				t.Errorf("%s rests: %v", what, got)
			}
		}
		check("a flush", s.db.Flush, true)
		check("a sweep", s.Sweep, true)
		applyNoise(t, s, 10)
		s.waited.Store(true)
		check("a flush that Close waits for", s.db.Flush, false)
	})
}
