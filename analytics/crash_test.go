package analytics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ledger is a log in memory: offsets without a record are markers or aborted records.
type ledger struct {
	mu     sync.Mutex
	start  int64
	values [][]byte
	marks  func(context.Context, int32, int64) (marks, error) // may be nil
}

func newLedger(n int) *ledger {
	l := &ledger{}
	w := &world{us: []int64{time.Date(2026, 11, 24, 23, 59, 0, 0, time.UTC).UnixMicro()}}
	for i := range n {
		switch {
		case i%7 == 6:
			l.values = append(l.values, nil)
		case i%50 == 49:
			l.values = append(l.values, []byte("garbage"))
		default:
			l.values = append(l.values, w.event(0, time.Second, ""))
		}
	}
	return l
}

// source is a partition that stands twice in the topic.
func (l *ledger) source(context.Context) (*source, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := int64(len(l.values))
	return &source{
		id: "t", starts: []int64{l.start, 0}, ends: []int64{end, end}, read: l.read, marks: l.marks,
	}, nil
}

func (l *ledger) read(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
	if p == 0 && first < l.start {
		return fmt.Errorf("offset %d is out of range", first)
	}
	for o := first; o < end; o++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if l.values[o] == nil {
			continue
		}
		r := &kgo.Record{Partition: p, Offset: o, Value: l.values[o], Timestamp: time.UnixMilli(1_790_000_000_000)}
		if err := visit(r, o); err != nil {
			return err
		}
	}
	step()
	if first < end {
		return visit(nil, end)
	}
	return nil
}

func (l *ledger) exporter(dir string, d disk) *Exporter {
	e := New(Options{Topic: topic, Dir: dir, Span: 32})
	e.source, e.disk = l.source, quickDisk{}
	if d != nil {
		e.disk = d
	}
	return e
}

func (l *ledger) check(t *testing.T, dir string) {
	t.Helper()
	_, all, _ := read(t, dir)
	for p := range int32(2) {
		w := &world{t: t, partitions: 1, committed: map[int32]map[int64]string{0: {}}}
		seen := map[int64]bool{}
		for o, v := range l.values {
			if v != nil {
				w.committed[0][int64(o)] = string(v)
			}
		}
		for i := range all[p] {
			o := all[p][i].Offset
			if seen[o] || w.committed[0][o] == "" {
				t.Errorf("partition %d, offset %d: seen before %v", p, o, seen[o])
			}
			seen[o] = true
		}
		if len(seen) != len(w.committed[0]) {
			t.Errorf("partition %d has %d rows of %d records", p, len(seen), len(w.committed[0]))
		}
	}
}

// quickDisk leaves out what only a power failure would show.
type quickDisk struct{ realDisk }

type quickFile struct{ file }

func (quickFile) Sync() error { return nil }

func (quickDisk) Create(name string) (file, error) {
	f, err := realDisk{}.Create(name)
	if err != nil {
		return nil, err
	}
	return quickFile{f}, nil
}

func (quickDisk) SyncDir(string) error { return nil }

// dying is a disk on which a process is killed before its step number after: that step is
// done half if it is a write, and nothing is done from then on. With full, only writes
// fail: the disk has no room.
type dying struct {
	quickDisk

	after, steps int
	full, failed bool
}

var errDied = errors.New("died")

func (d *dying) step(write bool) error {
	d.steps++
	if d.full {
		if write && d.steps >= d.after {
			d.failed = true
			return fs.ErrInvalid
		}
		return nil
	}
	if d.steps > d.after {
		d.failed = true
		return errDied
	}
	return nil
}

type dyingFile struct {
	file

	d *dying
}

func (f dyingFile) Write(b []byte) (int, error) {
	if err := f.d.step(true); err != nil {
		n := 0
		if f.d.full || f.d.steps == f.d.after+1 {
			n, _ = f.file.Write(b[:len(b)/2])
		}
		return n, err
	}
	return f.file.Write(b)
}

func (f dyingFile) Sync() error {
	if err := f.d.step(false); err != nil {
		return err
	}
	return f.file.Sync()
}

func (d *dying) MakeDir(name string) error {
	if err := d.step(false); err != nil {
		return err
	}
	return d.quickDisk.MakeDir(name)
}

func (d *dying) Create(name string) (file, error) {
	if err := d.step(true); err != nil {
		return nil, err
	}
	f, err := d.quickDisk.Create(name)
	return dyingFile{f, d}, err
}

func (d *dying) Rename(from, to string) error {
	if err := d.step(false); err != nil {
		return err
	}
	return d.quickDisk.Rename(from, to)
}

func (d *dying) Link(from, to string) error {
	if err := d.step(true); err != nil {
		return err
	}
	return d.quickDisk.Link(from, to)
}

func (d *dying) Remove(name string) error {
	if err := d.step(false); err != nil {
		return err
	}
	return d.quickDisk.Remove(name)
}

func (d *dying) SyncDir(name string) error {
	if err := d.step(false); err != nil {
		return err
	}
	return d.quickDisk.SyncDir(name)
}

// An export is killed at each of its steps, with nothing exported before and with half. What
// the files have at that moment is right as far as it goes, and the next export completes
// them: the same sealed files, and nothing left over.
func TestKilledAtEveryStep(t *testing.T) {
	l := newLedger(100) // the first day is over: it has a snapshot
	l.marks = l.marksOf
	whole := t.TempDir()
	if _, err := l.exporter(whole, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := files(t, whole)
	if len(only(want, snapshotDir)) != 3 {
		t.Fatalf("snapshots: %v", only(want, snapshotDir))
	}
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full disk %v", full), func(t *testing.T) {
			for after := 0; ; after++ {
				dir := t.TempDir()
				if after%2 == 1 {
					half := &ledger{values: l.values[:40+after%3*25]}
					half.marks = half.marksOf
					if _, err := half.exporter(dir, nil).Export(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				d := &dying{after: after, full: full}
				e := l.exporter(dir, d)
				_, err := e.Export(t.Context())
				if e.lock != nil { // the kernel closes it
					_ = e.lock.Close()
				}
				if !d.failed {
					if err != nil || after < 40 {
						t.Fatalf("step %d: %v", after, err)
					}
					return
				}
				if err == nil {
					t.Fatalf("step %d failed, and nobody says so", after)
				}
				if n := strings.Count(err.Error(), fs.ErrInvalid.Error()); full && n != 1 {
					t.Fatalf("step %d: the cause is told %d times: %v", after, n, err)
				}
				once(t, dir)
				l.checkWatermarks(t, dir)
				if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
					t.Fatalf("step %d: %v", after, err)
				}
				l.check(t, dir)
				l.checkWatermarks(t, dir)
				if got := watermarkOf(t, dir); len(got) != 2 || fmt.Sprint(got) != fmt.Sprint(watermarkOf(t, whole)) {
					t.Errorf("the watermark is %v, and of the whole %v", got, watermarkOf(t, whole))
				}
				got := files(t, dir)
				sameFiles(t, only(want, eventsDir), only(got, eventsDir))
				sameFiles(t, only(want, tailDir), only(got, tailDir))
				sameFiles(t, only(want, snapshotDir), only(got, snapshotDir))
				if left := only(got, tmpDir); len(left) > 0 {
					t.Errorf("left over: %v", left)
				}
				if t.Failed() {
					t.Fatalf("killed before step %d", after)
				}
			}
		})
	}
}

// watermarkOf is what the newest manifest names.
func watermarkOf(t *testing.T, dir string) map[int32]Watermark {
	t.Helper()
	_, _, all := read(t, dir)
	return all[len(all)-1].Watermark
}

// once: no row is there twice, whatever is missing yet.
func once(t *testing.T, dir string) {
	t.Helper()
	_, all, _ := read(t, dir)
	for p := range all {
		seen := map[int64]bool{}
		for i := range all[p] {
			if o := all[p][i].Offset; seen[o] {
				t.Errorf("offset %d of partition %d is there twice", o, p)
			} else {
				seen[o] = true
			}
		}
	}
}

// Several exporters write one directory at once, and the log grows meanwhile.
func TestExportersAtOnce(t *testing.T) {
	l, dir := newLedger(200), t.TempDir()
	values := l.values
	l.values = nil
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for n := 20; n <= len(values); n += 20 {
				l.mu.Lock()
				if n > len(l.values) {
					l.values = values[:n]
				}
				l.mu.Unlock()
				if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.check(t, dir)
	whole := t.TempDir()
	if _, err := l.exporter(whole, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, only(files(t, whole), eventsDir), only(files(t, dir), eventsDir))
	sameFiles(t, only(files(t, whole), snapshotDir), only(files(t, dir), snapshotDir))
	if n := len(snapshotsOf(t, dir)); n != 2 {
		t.Errorf("manifests name %d snapshots", n)
	}
}

// An exporter asks where the log ends, and before it reads the manifests the log grows and
// another exporter seals more than that. The log is not shorter than what was exported, and
// the other's tail stays.
func TestOvertaken(t *testing.T) {
	whole, dir := newLedger(150), t.TempDir()
	l := &ledger{values: whole.values[:40]}
	if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow := l.exporter(dir, nil)
	slow.source = func(ctx context.Context) (*source, error) {
		s, err := l.source(ctx)
		if _, err := whole.exporter(dir, nil).Export(ctx); err != nil {
			t.Error(err)
		}
		return s, err
	}
	if _, err := slow.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole.check(t, dir)
}

// Exporters of two builds write one directory: the same rows, other bytes. Each seals the same
// file before the other's manifest is there. The file is the one that its manifest names.
func TestBuildsAtOnce(t *testing.T) {
	l, dir := newLedger(150), t.TempDir()
	late := l.exporter(dir, nil)
	late.file.bloom = nil
	late.source = func(ctx context.Context) (*source, error) {
		s, err := l.source(ctx)
		s.read = func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
			if p == 0 {
				if _, err := l.exporter(dir, nil).Export(ctx); err != nil {
					t.Error(err)
				}
			}
			return l.read(ctx, p, first, end, visit, step)
		}
		return s, err
	}
	if _, err := late.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealedAsNamed(t, dir, 8)
	if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.check(t, dir)
}

// An exporter of another build died before its manifest. The next one names its files as they
// are, and writes anew what is no file of these rows.
func TestLeftByAnotherBuild(t *testing.T) {
	l, dir := newLedger(150), t.TempDir()
	dead := l.exporter(dir, nil)
	dead.file.bloom = nil
	if _, err := dead.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range glob(t, dir, manifestDir, "*.json") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	left := glob(t, dir, eventsDir, "*", "p=00", "*.parquet")
	was, err := os.ReadFile(left[0])
	if err == nil {
		err = os.Truncate(left[1], 100)
	}
	if err == nil {
		err = os.WriteFile(left[2], was, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealedAsNamed(t, dir, 8)
	if is, err := os.ReadFile(left[0]); err != nil || !bytes.Equal(is, was) {
		t.Errorf("%s was written anew: %v", left[0], err)
	}
	l.check(t, dir)
}

func glob(t *testing.T, parts ...string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sealedAsNamed: each sealed file and snapshot has the size and SHA-256 that its manifest says.
func sealedAsNamed(t *testing.T, dir string, least int) {
	t.Helper()
	_, _, all := read(t, dir)
	n := 0
	check := func(name, digest string, size int64) {
		n++
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || int64(len(text)) != size || digestOf(text) != digest {
			t.Errorf("%s has %d bytes, and its manifest says %d: %v", name, len(text), size, err)
		}
	}
	for _, m := range all {
		for _, f := range m.Files {
			check(f.Path, f.SHA256, f.Bytes)
		}
		for _, s := range m.Snapshots {
			check(s.Path, s.SHA256, s.Bytes)
		}
	}
	if n < least {
		t.Errorf("only %d files", n)
	}
}
