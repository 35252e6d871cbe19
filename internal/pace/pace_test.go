package pace

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/pace/pacetest"
)

const (
	memtable = 1 << 20
	most     = 4 * behindBy
)

func paced() *Pace { return New(memtable, func() bool { return false }) }

// TestUrgency: what has time takes it, and nothing that is waited for does.
func TestUrgency(t *testing.T) {
	for _, c := range []struct {
		name          string
		before        func(*Pace, *pebble.EventListener)
		flush, merges float64
	}{
		{"nothing waits", func(*Pace, *pebble.EventListener) {}, 0, 0},
		{"a flush has begun", func(_ *Pace,
			l *pebble.EventListener,
		) {
			l.FlushBegin(pebble.FlushInfo{InputBytes: memtable})
		}, 0, 0},
		{"the next memtable is half full", func(p *Pace, l *pebble.EventListener) {
			l.FlushBegin(pebble.FlushInfo{InputBytes: memtable})
			p.Committed(memtable * 3 / 8)
		}, 0.5, 0},
		{"the next memtable is full", func(p *Pace, l *pebble.EventListener) {
			l.FlushBegin(pebble.FlushInfo{InputBytes: memtable})
			p.Committed(2 * memtable)
		}, 1, 0},
		{
			"a flush of several",
			func(_ *Pace, l *pebble.EventListener) { l.FlushBegin(pebble.FlushInfo{InputBytes: 3 * memtable}) }, 1, 0,
		},
		{"a flush begins what the one before left", func(p *Pace, l *pebble.EventListener) {
			p.Committed(memtable)
			l.FlushBegin(pebble.FlushInfo{InputBytes: memtable})
		}, 0, 0},
		{"runs lie over each other", func(_ *Pace, l *pebble.EventListener) {
			l.FlushEnd(pebble.FlushInfo{Output: make([]pebble.TableInfo, most/2)})
		}, 0, 0.5},
		{"too many runs", func(_ *Pace, l *pebble.EventListener) {
			l.FlushEnd(pebble.FlushInfo{Output: make([]pebble.TableInfo, 2*most)})
		}, 0, 1},
		{"runs are merged", func(_ *Pace, l *pebble.EventListener) {
			l.FlushEnd(pebble.FlushInfo{Output: make([]pebble.TableInfo, most)})
			l.CompactionEnd(pebble.CompactionInfo{Input: []pebble.LevelInfo{{
				Level:  0,
				Tables: make([]pebble.TableInfo, most),
			}}})
		}, 0, 0},
		{"files that were there before are merged", func(_ *Pace, l *pebble.EventListener) {
			l.CompactionEnd(pebble.CompactionInfo{Input: []pebble.LevelInfo{{
				Level:  0,
				Tables: make([]pebble.TableInfo, most),
			}}})
		}, 0, 0},
		{
			"writers are made to wait",
			func(_ *Pace, l *pebble.EventListener) { l.WriteStallBegin(pebble.WriteStallBeginInfo{}) }, 1, 1,
		},
		{"and no longer", func(_ *Pace, l *pebble.EventListener) {
			l.WriteStallBegin(pebble.WriteStallBeginInfo{})
			l.WriteStallEnd()
		}, 0, 0},
		{"nobody is waited for", func(p *Pace, _ *pebble.EventListener) { p.free = func() bool { return true } }, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, o := paced(), &pebble.Options{FS: vfs.NewMem(), L0CompactionThreshold: 4}
			p.Apply(o)
			c.before(p, o.EventListener)
			if f, m := p.urgency(flush), p.urgency(compaction); f != c.flush || m != c.merges {
				t.Errorf("urgency of a flush %v, of a compaction %v, want %v and %v", f, m, c.flush, c.merges)
			}
		})
	}
}

// TestListenersStay: whoever listened before hears of stalls as before.
func TestListenersStay(t *testing.T) {
	begun, ended := 0, 0
	o := &pebble.Options{FS: vfs.NewMem(), EventListener: &pebble.EventListener{
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { begun++ }, WriteStallEnd: func() { ended++ },
	}}
	paced().Apply(o)
	o.EventListener.WriteStallBegin(pebble.WriteStallBeginInfo{})
	o.EventListener.WriteStallEnd()
	if begun != 1 || ended != 1 {
		t.Errorf("told %d begins and %d ends", begun, ended)
	}
}

// TestRest: the files written at once share the cores that are for them.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced()
		p.cores = 0.2
		disk := pacedFS{pacetest.New(time.Millisecond), p}
		create := func(category vfs.DiskWriteCategory) vfs.File {
			f, err := disk.Create(string(category), category)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		check := func(what string, f vfs.File, want time.Duration) {
			t.Helper()
			begin := time.Now()
			if _, err := f.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got != want {
				t.Errorf("%s takes %v, want %v", what, got, want)
			}
		}
		check("a block of the log", create("pebble-wal"), time.Millisecond)
		one := create("pebble-memtable-flush")
		check("a block", one, 5*time.Millisecond)
		two := create("pebble-compaction")
		check("a block beside another file", one, 10*time.Millisecond)
		two.Close()
		check("a block after the other was closed", one, 5*time.Millisecond)
		time.Sleep(time.Minute)
		check("a block that took a minute to make", one, time.Millisecond+longestRest)
		p.stalled.Store(true)
		check("an urgent block", one, time.Millisecond)
		one.Close()
	})
}
