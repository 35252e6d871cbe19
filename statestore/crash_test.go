package statestore

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// history runs turns on a store and returns its contents after each turn.
func history(t *testing.T, o Options, seed uint64, turns int, after func(turn int, s *Store)) []map[string]string {
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := newModel(seed)
	b := s.NewBatch()
	was := []map[string]string{m.entries()}
	for i := range turns {
		m.fill(b)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		was = append(was, m.entries())
		after(i+1, s)
	}
	return was
}

// turnOf returns the turn after which a store had these contents. The turn's number is in its
// meta.
func turnOf(held map[string]string) (turn int) {
	fmt.Sscan(held["m/turn"], &turn)
	return turn
}

// TestCrash keeps any part of the unsynced bytes after a power cut. The store must open as it was
// after some turn, not later than the last.
func TestCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for _, c := range []struct{ disableWAL, filling bool }{{}, {disableWAL: true}, {filling: true}, {true, true}} {
		t.Run(fmt.Sprintf("DisableWAL=%v,filling=%v", c.disableWAL, c.filling), func(t *testing.T) {
			lost := 0
			for i := range uint64(15) {
				lost += crashOnce(t, seed+i, c.disableWAL, c.filling)
			}
			if lost == 0 {
				t.Error("no crash lost a turn: they were none")
			}
		})
	}
}

func crashOnce(t *testing.T, seed uint64, disableWAL, filling bool) (lost int) {
	disk := vfs.NewCrashableMem()
	o := Options{Dir: "/p0", FS: disk, DisableWAL: disableWAL, MemTableBytes: 64 << 10}
	r := rand.New(rand.NewPCG(seed, 1))
	crashes := map[int]*vfs.MemFS{}
	was := history(t, o, seed, 60, func(turn int, s *Store) {
		switch {
		case filling && turn == 3:
			s.Fill()
		case filling && turn == 40:
			if err := s.Filled(); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(15) == 0 {
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(6) == 0 {
			crashes[turn] = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
		}
	})
	for turn, left := range crashes {
		o.FS = left
		held, err := openDump(t, o)
		if err != nil {
			t.Fatalf("seed %d: crash after turn %d: %v", seed, turn, err)
		}
		at := turnOf(held)
		if at > turn {
			t.Fatalf("seed %d: crash after turn %d: the store is at turn %d", seed, turn, at)
		}
		if len(held) <= 2 && at == 0 {
			held["m/format"] = format // written by Open
		}
		if !maps.Equal(held, was[at]) {
			t.Fatalf("seed %d: crash after turn %d: not as after turn %d:\n%s", seed, turn, at,
				difference(held, was[at]))
		}
		lost += turn - at
	}
	return lost
}

// TestFlippedBits flips a bit anywhere in a store. The store must be refused, or be as it was
// after some turn: Pebble cannot distinguish a flipped bit in an unsynced log from a torn write,
// and drops what follows. It must never hold what was not put. The test must have hit both kinds
// of file, or it proves nothing.
func TestFlippedBits(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	disk := vfs.NewCrashableMem()
	o := Options{Dir: "/p0", FS: disk, MemTableBytes: 64 << 10}
	var left *vfs.MemFS
	was := history(t, o, seed, 120, func(turn int, s *Store) {
		if turn == 110 { // what follows does not fill a memtable, so it stays in the log
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if turn == 120 { // not closed, or Pebble would empty the log
			if err := s.db.LogData(nil, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			left = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(seed, 1))})
		}
	})
	o.FS = cloneDisk(t, left, o.Dir)
	if held, err := openDump(t, o); err != nil || !maps.Equal(held, was[len(was)-1]) {
		t.Fatalf("seed %d: before any bit is flipped: %v\n%s", seed, err, difference(held, was[len(was)-1]))
	}
	refused, earlier := map[string]int{}, map[string]int{}
	r := rand.New(rand.NewPCG(seed, 2))
	for range 300 {
		flipBit(t, left, o.Dir, r, func(fsys vfs.FS, file string) {
			o.FS = fsys
			held, err := openDump(t, o)
			switch {
			case errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
				refused[path.Ext(file)]++
			case err != nil:
				t.Fatalf("seed %d: %s: an error that does not say the store is damaged: %v", seed, file, err)
			case !maps.Equal(held, was[turnOf(held)]):
				t.Fatalf("seed %d: %s: opened with what was not put:\n%s", seed, file,
					difference(held, was[turnOf(held)]))
			case turnOf(held) < len(was)-1:
				earlier[path.Ext(file)]++
			}
		})
	}
	t.Logf("refused: %v, earlier: %v", refused, earlier)
	if refused[".sst"] == 0 || refused[".log"]+earlier[".log"] == 0 {
		t.Errorf("seed %d: refused: %v, earlier: %v", seed, refused, earlier)
	}
}

// flipBit copies a disk, flips one bit in one file of the copy, and calls f.
func flipBit(t *testing.T, disk *vfs.MemFS, dir string, r *rand.Rand, f func(vfs.FS, string)) {
	t.Helper()
	fresh := cloneDisk(t, disk, dir)
	names, err := fresh.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		if name != "LOCK" && !strings.HasPrefix(name, "marker") {
			files = append(files, name)
		}
	}
	file := path.Join(dir, files[r.IntN(len(files))])
	b := readFile(t, fresh, file)
	if len(b) > 0 {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		writeFile(t, fresh, file, b)
	}
	f(fresh, file)
}

func cloneDisk(t *testing.T, disk *vfs.MemFS, dir string) *vfs.MemFS {
	t.Helper()
	fresh := vfs.NewMem()
	if _, err := vfs.Clone(disk, fresh, dir, dir); err != nil {
		t.Fatal(err)
	}
	return fresh
}

func readFile(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
