package statestore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A store whose process dies opens with the other setting of its log too, and has what was in files or in the log.
func TestWALTurnedOffAndOn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 7))
	disk := vfs.NewCrashableMem()
	was, disableWAL := "", false
	for turn := range 8 {
		s := mustOpen(t, Options{Dir: "/p0", FS: disk, DisableWAL: disableWAL})
		if last, err := s.Meta("last"); err != nil || string(last) != was {
			t.Fatalf("seed %d, turn %d, without a log %v: %q, want %q: %v", seed, turn, disableWAL, last, was, err)
		}
		key := string(rune('a' + turn))
		b := s.NewBatch()
		b.SetMeta("last", []byte(key))
		mustCommit(t, b)
		var err error
		switch kept := r.IntN(2) == 0; {
		case !disableWAL:
			was, err = key, s.db.LogData(nil, pebble.Sync) // what was committed is in the log then
		case kept:
			was, err = key, s.db.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r})
		disableWAL = !disableWAL
	}
}

// Without a log, a store that is seldom written goes to its files by time, so that a crash does not take it far back.
func TestFlushEvery(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := mustOpen(t, Options{Dir: "/p0", FS: disk, DisableWAL: true, FlushEvery: time.Nanosecond})
	b := s.NewBatch()
	b.Put(nil, pending("a", 5))
	mustCommit(t, b)
	deadline := time.Now().Add(time.Minute)
	for s.db.Metrics().Flush.Count == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was flushed")
		}
		time.Sleep(time.Millisecond)
	}
	left := mustOpen(t, Options{Dir: "/p0", FS: disk.CrashClone(vfs.CrashCloneCfg{}), DisableWAL: true})
	if v, err := left.Get("a", nil); string(v) != "state of a" || err != nil {
		t.Errorf("after a crash: %q %v", v, err)
	}
}
