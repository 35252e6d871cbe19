package statestore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/trigger"
)

// TestPace: what is written to sorted files waits for what turns commit, and
// not for ever.
func TestPace(t *testing.T) {
	const block = 32 << 10
	for _, c := range []struct {
		name   string
		before func(*pace)
		want   time.Duration // for ten blocks
	}{
		{"no turns", func(*pace) {}, 10 * idleBlock},
		{"saved up", func(p *pace) { p.earn(10 * block / backgroundBytes) }, 0},
		{"saved up for half", func(p *pace) { p.earn(5 * block / backgroundBytes) }, 5 * idleBlock},
		{"turns go on", func(p *pace) {
			go func() {
				for range 10 {
					time.Sleep(time.Millisecond)
					p.earn(block / backgroundBytes)
				}
			}()
		}, 10 * time.Millisecond},
		{"nobody is waited for", func(p *pace) { p.free = func() bool { return true } }, 0},
		{"memtables wait", func(p *pace) { p.waiting.Store(2) }, 0},
		{"turns are made to wait", func(p *pace) { p.stalled.Store(true) }, 0},
		{"too many runs", func(p *pace) { p.runs.Store(mostRuns + 1) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPace(func() bool { return false })
				c.before(p)
				begin := time.Now()
				for range 10 {
					p.spend(block)
				}
				if got := time.Since(begin); got != c.want {
					t.Errorf("ten blocks took %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestPaceKnowsWhatIsBehind: turns that Pebble makes wait earn nothing, so a
// flush that waited for them would go a block at a time for as long as it
// takes. And what was behind is not for ever.
func TestPaceKnowsWhatIsBehind(t *testing.T) {
	p := newPace(func() bool { return false })
	told := 0
	l := &pebble.EventListener{WriteStallBegin: func(pebble.WriteStallBeginInfo) { told++ }}
	p.listen(l)
	l.FlushBegin(pebble.FlushInfo{Input: 1})
	if p.behind() {
		t.Error("behind, with one memtable to flush")
	}
	l.FlushBegin(pebble.FlushInfo{Input: 2})
	if !p.behind() {
		t.Error("not behind, with two memtables to flush")
	}
	l.FlushEnd(pebble.FlushInfo{})
	if p.behind() {
		t.Error("behind, when they are flushed")
	}
	l.WriteStallBegin(pebble.WriteStallBeginInfo{Reason: "memtable count limit reached"})
	if !p.behind() || told != 1 {
		t.Errorf("in a stall: behind %v, told %d times", p.behind(), told)
	}
	l.WriteStallEnd()
	if p.behind() {
		t.Error("behind, when the stall is over")
	}
}

// TestPacedFiles: Pebble's sorted files go through the pace, its log does not.
func TestPacedFiles(t *testing.T) {
	s := mustOpen(t, Options{Dir: "/p0", FS: vfs.NewMem(), MemTableBytes: minMemTableBytes})
	put := func(n int) {
		b := s.NewBatch()
		for i := range n {
			b.Put(nil, pending(trigger.Key(rune('a'+i)), trigger.Instant(i+1)))
		}
		mustCommit(t, b)
	}
	put(20)
	s.pace.credit.Store(0)
	if err := s.db.LogData(make([]byte, 1000), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if got := s.pace.credit.Load(); got != 0 {
		t.Errorf("Pebble's log spent %d", -got)
	}
	s.pace.credit.Store(mostCredit)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := s.pace.credit.Load(); got >= mostCredit {
		t.Errorf("a flush spent nothing: %d", got)
	}
	if got := s.pace.runs.Load(); got != 1 {
		t.Errorf("%d runs after a flush", got)
	}
	if err := s.db.Compact(t.Context(), []byte("a"), []byte("z"), false); err != nil {
		t.Fatal(err)
	}
	if got := s.pace.runs.Load(); got != 0 {
		t.Errorf("%d runs after a compaction", got)
	}
}
