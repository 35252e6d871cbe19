package broker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Copies that are made while transactions, plain produces and offset commits are
// under way have all that was acknowledged before, and no half transaction.
func TestFreezeUnderLoad(t *testing.T) {
	dir, seed := t.TempDir(), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	b, err := Start(t.Context(), Options{
		Dir: dir, Listen: "127.0.0.1:0", Sync: true, Logger: childLog(), SegmentBytes: 64 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	setup(t, b.Addr())
	l := &ledger{
		committed: map[string]bool{}, aborted: map[string]bool{}, plain: map[string]int64{},
		offsets: map[string]int64{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for w := range 3 {
		wg.Go(func() { l.transact(ctx, b.Addr(), w, rand.New(rand.NewPCG(seed, uint64(w)))) })
	}
	wg.Go(func() { l.pump(ctx, b.Addr()) })
	l.more(t, 10)
	for range 8 {
		l.more(t, 5)
		before := l.copy()
		to := freeze(t, b)
		l.more(t, 5) // the files go on growing while they are copied
		restored := copyOf(t, to)
		c, err := Start(t.Context(), Options{Dir: restored, Listen: "127.0.0.1:0", Logger: childLog()})
		if err != nil {
			t.Fatal(err)
		}
		before.verify(t, c.Addr())
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// frozen is where a copy stands, with how much of each file belongs to it.
type frozen struct {
	dir   string
	files []FrozenFile
}

func freeze(t *testing.T, b *Broker) frozen {
	t.Helper()
	to := filepath.Join(t.TempDir(), "frozen")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := b.Freeze(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	return frozen{to, files}
}

func copyOf(t *testing.T, f frozen) string {
	t.Helper()
	to := t.TempDir()
	for _, file := range f.files {
		in, err := os.Open(filepath.Join(f.dir, file.Path))
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(to, file.Path)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(at)
		if err == nil {
			_, err = io.CopyN(out, in, file.Size)
		}
		if err = errors.Join(err, in.Close(), out.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A broker in memory has nothing to copy, and says so.
func TestFreezeInMemory(t *testing.T) {
	b, err := Start(t.Context(), Options{Listen: "127.0.0.1:0", Logger: childLog()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Freeze(t.Context(), t.TempDir()); err == nil {
		t.Error("a copy of nothing was made")
	}
}

// A file that cannot be copied fails the copy, and not the broker.
func TestFreezeThatFails(t *testing.T) {
	b, err := Start(t.Context(), Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: childLog()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	setup(t, b.Addr())
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, versionFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Freeze(t.Context(), to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want that %s is there already", err, versionFile)
	}
	if files, err := b.Freeze(t.Context(), t.TempDir()); err != nil || len(files) == 0 {
		t.Errorf("the next copy has %d files, %v", len(files), err)
	}
}
