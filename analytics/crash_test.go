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

// What only a person can decide is an Error with its code, and says what to do.
func TestRefusals(t *testing.T) {
	type change struct {
		name, code, says string
		damage           func(t *testing.T, l *ledger, dir string)
		with             func(*Exporter)
	}
	first := func(t *testing.T, dir string) string {
		_, _, manifests := read(t, dir)
		return filepath.Join(dir, manifests[1].Files[0].Path)
	}
	for _, c := range []change{
		{
			name: "another topic", code: CodeForeign, says: "Name another directory",
			damage: func(*testing.T, *ledger, string) {}, with: func(e *Exporter) {
				of := e.source
				e.source = func(ctx context.Context) (*source, error) {
					s, err := of(ctx)
					s.id = "u"
					return s, err
				}
			},
		},
		{
			name: "more partitions", code: CodeForeign, says: "has 2 partitions, and the topic has 3 now",
			damage: func(*testing.T, *ledger, string) {}, with: func(e *Exporter) {
				of := e.source
				e.source = func(ctx context.Context) (*source, error) {
					s, err := of(ctx)
					s.starts, s.ends = append(s.starts, 0), append(s.ends, 0)
					return s, err
				}
			},
		},
		{
			name: "other users", code: CodeForeign, says: "export.plain_users",
			damage: func(*testing.T, *ledger, string) {}, with: func(e *Exporter) { e.opts.Users.Plain = true },
		},
		{
			name: "a gap", code: CodeGap, says: "--accept-gap 0:128",
			damage: func(_ *testing.T, l *ledger, _ string) { l.start = 140 },
		},
		{
			name: "the log is shorter", code: CodeForeign, says: "Export to a new directory",
			damage: func(_ *testing.T, l *ledger, _ string) { l.values = l.values[:50] },
		},
		{
			name: "a torn file", code: CodeDamaged, says: "Restore the directory",
			damage: func(t *testing.T, _ *ledger, dir string) {
				if err := os.Truncate(first(t, dir), 100); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a file is gone", code: CodeDamaged, says: "is missing",
			damage: func(t *testing.T, _ *ledger, dir string) {
				if err := os.Remove(first(t, dir)); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a torn manifest", code: CodeDamaged, says: "is no manifest",
			damage: func(t *testing.T, _ *ledger, dir string) {
				if err := os.Truncate(manifestName(dir, 1), 100); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a manifest that was changed", code: CodeDamaged, says: "does not follow manifest 0",
			damage: func(t *testing.T, _ *ledger, dir string) {
				text, err := os.ReadFile(manifestName(dir, 0))
				if err == nil {
					err = os.WriteFile(manifestName(dir, 0), append(text, ' '), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a manifest of a later version", code: CodeDamaged, says: "use the one that wrote it",
			damage: func(t *testing.T, _ *ledger, dir string) {
				_, _, all := read(t, dir)
				name := manifestName(dir, len(all)-1)
				text, err := os.ReadFile(name)
				if err == nil {
					later := strings.Replace(string(text), `"version": 1,`, `"version": 2,`, 1)
					err = os.WriteFile(name, []byte(later), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a manifest is gone", code: CodeDamaged, says: "is missing",
			damage: func(t *testing.T, _ *ledger, dir string) {
				if err := os.Remove(manifestName(dir, 0)); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, dir := newLedger(150), t.TempDir()
			if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.damage(t, l, dir)
			e := l.exporter(dir, nil)
			if c.with != nil {
				c.with(e)
			}
			_, err := e.Export(t.Context())
			refusal, ok := errors.AsType[*Error](err)
			if !ok || refusal.Code != c.code || !strings.Contains(refusal.Msg, c.says) {
				t.Errorf("got %v, want %s and %q", err, c.code, c.says)
			}
		})
	}
}

// A gap that is accepted stands in a manifest, and a file that a dead exporter left there
// is removed. An acceptance is good for its own offset only.
func TestAcceptGap(t *testing.T) {
	l, dir := newLedger(150), t.TempDir()
	if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, eventsDir, "date=2026-11-25", "p=00", "128-159.parquet")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	more := newLedger(300)
	more.start = 170
	accept := func(p int32, offset int64) error {
		e := more.exporter(dir, nil)
		e.opts.AcceptGaps = []Acceptance{{p, offset}}
		_, err := e.Export(t.Context())
		return err
	}
	for _, a := range []Acceptance{{0, 127}, {0, 170}, {1, 128}} {
		if err := accept(a.Partition, a.Offset); err == nil {
			t.Errorf("accepting %v was enough", a)
		}
	}
	e := more.exporter(dir, nil) // to follow is no way to wait for a partition
	e.opts.AcceptGaps = []Acceptance{{2, 128}}
	if refusal, ok := errors.AsType[*Error](e.Follow(t.Context())); !ok || refusal.Code != CodeNoPartition {
		t.Errorf("accepting a gap of no partition: %v", refusal)
	}
	if err := accept(0, 128); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !gone(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
	sealed, all, manifests := read(t, dir)
	var gaps []Gap
	for _, m := range manifests {
		gaps = append(gaps, m.Gaps...)
	}
	if len(gaps) != 1 || gaps[0] != (Gap{0, 128, 170}) {
		t.Errorf("gaps %v", gaps)
	}
	for i := range all[0] {
		if o := all[0][i].Offset; o >= 128 && o < 170 {
			t.Errorf("offset %d is in the files", o)
		}
	}
	if len(sealed[1]) == 0 || len(all[0]) == 0 {
		t.Error("nothing was exported")
	}
	once(t, dir)
}

// Follow goes on over a disk that is full for a while, and ends with its context.
func TestFollow(t *testing.T) {
	l, dir := newLedger(150), t.TempDir()
	values := l.values
	l.values = values[:10]
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.exporter(dir, nil).Follow(ctx) }()
	until(t, func() bool { _, err := os.Stat(filepath.Join(dir, tailDir, "p=01.parquet")); return err == nil })
	l.mu.Lock()
	l.values = values
	l.mu.Unlock()
	until(t, func() bool { // both partitions have a file for each span, and the tail behind them
		m, err := Manifests(dir)
		return err == nil && len(m) > 0 && m[len(m)-1].Next[1] == 128
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	once(t, dir)
	if left := only(files(t, dir), tmpDir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// until waits for a condition, for as long as a loaded machine may take.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to it")
		}
	}
}

// Somebody accepts a gap while another exporter has sealed files there that it has not named
// yet. Whoever publishes first, no manifest names a file that is gone, and no row stays twice.
func TestAcceptGapMeanwhile(t *testing.T) {
	l, dir := newLedger(300), t.TempDir()
	first := &ledger{values: l.values[:20]} // manifests 0 and 1, without a file
	if _, err := first.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	short := &ledger{values: l.values[:150], start: 130} // what retention has left
	accepting := &hooked{}
	slow := l.exporter(dir, nil)
	slow.source = func(ctx context.Context) (*source, error) {
		s, err := l.source(ctx)
		s.read = func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
			if p != 0 {
				return l.read(ctx, p, first, end, visit, step)
			}
			if err := l.read(ctx, p, first, 100, visit, func() {}); err != nil { // it has sealed to 96
				return err
			}
			accepted := make(chan error)
			goOn := make(chan struct{})
			accepting.before = func() { goOn <- struct{}{}; <-goOn }
			go func() {
				e := short.exporter(dir, accepting)
				e.opts.AcceptGaps = []Acceptance{{0, 0}}
				_, err := e.Export(ctx)
				accepted <- err
			}()
			<-goOn // the other is about to remove a file
			err := l.read(ctx, p, 100, end, visit, step)
			goOn <- struct{}{}
			if err := <-accepted; err != nil {
				t.Error(err)
			}
			return err
		}
		return s, err
	}
	if _, err := slow.Export(t.Context()); err == nil || !strings.Contains(err.Error(), "has accepted a gap") {
		t.Errorf("the slow exporter ended with %v", err)
	}
	c, err := load(dir)
	if err == nil {
		err = c.checkFiles(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	once(t, dir)
	for _, name := range glob(t, dir, eventsDir, "*", "p=00", "*.parquet") {
		var from int64
		if _, err := fmt.Sscanf(filepath.Base(name), "%d-", &from); err != nil || from < short.start {
			t.Errorf("%s stays in the gap: %v", name, err)
		}
	}
}

// hooked calls a function before it removes its first event file.
type hooked struct {
	quickDisk

	before func()
	done   bool
}

func (h *hooked) Remove(name string) error {
	if strings.Contains(name, eventsDir+string(filepath.Separator)) && !h.done {
		h.done = true
		h.before()
	}
	return h.quickDisk.Remove(name)
}
