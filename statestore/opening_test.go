package statestore

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Bounds for the bytes that opening a store may read, beyond what it reads if nothing has ever
// fired (docs/testing.md F22). It may read the log and the files of a few memtables, as a crash
// leaves them, and the key of each trigger that is still stored. Only one thing grows with what
// has fired: Pebble's manifest, by an entry for each flush and compaction, until the store is
// opened anew. With memtables of 1 MiB that is half a byte per fire.
const (
	maxManifestPerFire = 1
	maxReadForCrash    = 4 << 20 // with memtables of 1 MiB
	maxReadPerKept     = 64
)

// TestOpeningReadsWhatIsKept crashes stores that have fired much, and opens them twice. Opening
// must read what is pending or done, not what is forgotten. The second open must not read the
// manifest from before the first.
func TestOpeningReadsWhatIsKept(t *testing.T) {
	none, _, _ := opening(t, 0, 0)
	for _, fired := range histories() {
		forgotten, manifest, second := opening(t, fired, 0)
		if forgotten > none+maxReadForCrash {
			t.Errorf("after %d fires that are forgotten opening reads %d bytes, %d where nothing has fired", fired,
				forgotten, none)
		}
		if manifest > int64(fired)*maxManifestPerFire {
			t.Errorf("after %d fires opening reads %d bytes of manifest", fired, manifest)
		}
		if second > 16<<10 {
			t.Errorf("opened a second time, a store reads %d bytes of manifest", second)
		}
	}
	kept := histories()[0]
	if read, _, _ := opening(t, 0, kept); read > none+maxReadForCrash+int64(kept)*maxReadPerKept {
		t.Errorf("with %d remembered opening reads %d bytes, %d where nothing has fired", kept, read, none)
	}
}

// opening counts the bytes that are read to open a store that was killed after so many fires that
// are forgotten, and after some that are kept. read is all files but the manifest, manifest is
// the manifest, and second is the manifest when the store is opened a second time.
func opening(t *testing.T, fired, kept int) (read, manifest, second int64) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	o := Options{Dir: "/p0", FS: disk, MemTableBytes: 1 << 20}
	s := lived(t, o, fired)
	b := s.NewBatch()
	for i := range kept {
		b.Put(nil, finished(pastRow(fired+pendingAfterHistory+i)))
		if i%500 == 499 || i == kept-1 {
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil { // the end of the log was still in memory
		t.Fatal(err)
	}
	// Keep all bytes, as after kill -9.
	killed := &countedFS{FS: disk.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: 100,
		RNG:                 rand.New(rand.NewPCG(1, 1)),
	})}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.FS = killed
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	read, manifest = killed.read.Load(), killed.manifest.Load()
	if p, d := s.PendingCount(), s.DoneCount(); p != pendingAfterHistory || d != int64(kept) {
		t.Errorf("%d pending and %d remembered, want %d and %d", p, d, pendingAfterHistory, kept)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(o); err != nil {
		t.Fatal(err)
	}
	second = killed.manifest.Load() - manifest
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d fired, %d remembered: opening reads %d bytes and %d of manifest, then %d", fired, kept, read, manifest,
		second)
	return read, manifest, second
}

// countedFS counts the bytes that are read from it.
type countedFS struct {
	vfs.FS
	read, manifest atomic.Int64
}

func (c *countedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.Open(name, opts...)
	if strings.HasPrefix(c.PathBase(name), "MANIFEST") {
		return countedFile{f, &c.manifest}, err
	}
	return countedFile{f, &c.read}, err
}

type countedFile struct {
	vfs.File
	n *atomic.Int64
}

func (f countedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.n.Add(int64(n))
	return n, err
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.n.Add(int64(n))
	return n, err
}
