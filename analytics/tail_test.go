package analytics

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// The log loses what only the tail has: the export goes on, and the tail stays. When it is sealed,
// its files are those of an export that had it all from the log. So they are if an exporter is
// killed at any of its steps.
func TestTailOutlivesTheLog(t *testing.T) {
	const exported = 56 // the tail has garbage and an offset without a record; its day goes on behind it
	whole, want := newLedger(100), t.TempDir()
	if _, err := whole.exporter(want, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	wanted := files(t, want)
	killedAtSteps(t, func(d *dying) {
		dir := t.TempDir()
		l := &ledger{values: whole.values[:exported]}
		if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.start = exported
		before := files(t, dir)
		for range 2 {
			if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sameFiles(t, before, files(t, dir))
		l.values = whole.values
		e := l.exporter(dir, d)
		_, err := e.Export(t.Context())
		if e.lock != nil { // the kernel closes it
			_ = e.lock.Close()
		}
		if !d.failed && err != nil {
			t.Fatal(err)
		}
		once(t, dir)
		if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
			t.Fatalf("after %d steps: %v", d.after, err)
		}
		whole.check(t, dir)
		got := files(t, dir)
		for _, sub := range []string{eventsDir, tailDir, snapshotDir} {
			sameFiles(t, only(wanted, sub), only(got, sub))
		}
	})
}

// killedAtSteps runs a test with a disk that dies after 0, 7, 14 and so on of an exporter's steps, until it lives.
func killedAtSteps(t *testing.T, run func(d *dying)) {
	t.Helper()
	for after := 0; ; after += 7 {
		d := &dying{after: after}
		run(d)
		switch {
		case t.Failed():
			t.Fatalf("killed after %d steps", after)
		case !d.failed && after < 40:
			t.Fatalf("only %d steps", after)
		case !d.failed:
			return
		}
	}
}

// A gap begins where the tail ends. To accept it keeps what the tail has, also if the exporter is
// killed at any of its steps.
func TestGapBehindTheTail(t *testing.T) {
	whole := newLedger(150)
	killedAtSteps(t, func(d *dying) {
		l, dir := &ledger{values: whole.values[:40]}, t.TempDir()
		if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.values, l.start = whole.values, 70
		_, err := l.exporter(dir, nil).Export(t.Context())
		if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Code != CodeGap ||
			!strings.Contains(refusal.Msg, "offsets 40 to 69") || !strings.HasSuffix(refusal.Msg, "--accept-gap 0:40") {
			t.Fatalf("got %v", err)
		}
		accept := func(d disk) error {
			e := l.exporter(dir, d)
			e.opts.AcceptGaps = []Acceptance{{0, 40}}
			_, err := e.Export(t.Context())
			if e.lock != nil {
				_ = e.lock.Close()
			}
			return err
		}
		if err := accept(d); !d.failed && err != nil {
			t.Fatal(err)
		}
		once(t, dir)
		if err := accept(nil); err != nil {
			t.Fatal(err)
		}
		_, all, manifests := read(t, dir)
		var got []int64
		for i := range all[0] {
			got = append(got, all[0][i].Offset)
		}
		var want []int64
		for o, v := range whole.values {
			if v != nil && (o < 40 || o >= 70) {
				want = append(want, int64(o))
			}
		}
		var gaps []Gap
		for _, m := range manifests {
			gaps = append(gaps, m.Gaps...)
		}
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gaps, []Gap{{0, 40, 70}}) {
			t.Errorf("offsets %v, gaps %v", got, gaps)
		}
		once(t, dir)
		sealedAsNamed(t, dir, 8)
	})
}

// racing lets another exporter be first with the next manifest.
type racing struct {
	quickDisk

	before func()
}

func (d *racing) Link(from, to string) error {
	if before := d.before; before != nil && strings.HasSuffix(to, ".json") {
		d.before = nil
		before()
	}
	return d.quickDisk.Link(from, to)
}

// While somebody accepts a gap, an exporter that has read the log in time publishes what stands there. The file that
// ends at the gap goes: its rows are in the other's.
func TestAcceptedTooLate(t *testing.T) {
	whole, dir := newLedger(150), t.TempDir()
	first := &ledger{values: whole.values[:20]}
	if _, err := first.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := &ledger{values: whole.values, start: 30}
	e := late.exporter(dir, &racing{before: func() {
		if _, err := whole.exporter(dir, nil).Export(t.Context()); err != nil {
			t.Error(err)
		}
	}})
	e.opts.AcceptGaps = []Acceptance{{0, 20}}
	if _, err := e.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole.check(t, dir)
	if left := glob(t, dir, eventsDir, "*", "p=00", "0-19.parquet"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Nobody knows what a tail of an older build covers, nor what a torn one did: then the gap begins
// behind the sealed files.
func TestTailOfAnOlderBuild(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(name string) error
	}{
		{"without a footer's metadata", func(name string) error {
			rows, err := parquet.ReadFile[Row](name)
			if err != nil {
				return err
			}
			return parquet.WriteFile(name, rows)
		}},
		{"torn", func(name string) error { return os.Truncate(name, 50) }},
		{"removed", os.Remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, dir := newLedger(40), t.TempDir()
			if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(filepath.Join(dir, tailDir, "p=00.parquet")); err != nil {
				t.Fatal(err)
			}
			l.values, l.start = newLedger(60).values, 36
			_, err := l.exporter(dir, nil).Export(t.Context())
			if refusal, ok := errors.AsType[*Error](err); !ok || !strings.HasSuffix(refusal.Msg, "--accept-gap 0:32") {
				t.Fatalf("got %v", err)
			}
			e := l.exporter(dir, nil)
			e.opts.AcceptGaps = []Acceptance{{0, 32}}
			if _, err := e.Export(t.Context()); err != nil {
				t.Fatal(err)
			}
			once(t, dir)
		})
	}
}

// Another exporter seals the tail before its rows are read: this pass fails, and no row is lost.
func TestTailIsSealedMeanwhile(t *testing.T) {
	whole, dir := newLedger(100), t.TempDir()
	export := func(start, end int64, before func()) error {
		e := whole.exporter(dir, nil)
		e.source = func(ctx context.Context) (*source, error) {
			read := func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
				if p == 0 {
					before()
				}
				return whole.read(ctx, p, first, end, visit, step)
			}
			return &source{id: "t", starts: []int64{0, start}, ends: []int64{end, end}, read: read}, nil
		}
		_, err := e.Export(t.Context())
		return err
	}
	if err := export(0, 40, func() {}); err != nil {
		t.Fatal(err)
	}
	err := export(40, 50, func() {
		if err := export(40, 70, func() {}); err != nil {
			t.Error(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "has replaced the tail of partition 1") {
		t.Errorf("got %v", err)
	}
	if err := export(40, 100, func() {}); err != nil {
		t.Fatal(err)
	}
	whole.check(t, dir)
}

// Two that follow write the tails of a log in which nothing happens once each, and a tail that is gone anew.
func TestFollowersLeaveEachOthersTails(t *testing.T) {
	l, dir := newLedger(50), t.TempDir()
	both := []*Exporter{l.exporter(dir, nil), l.exporter(dir, nil)}
	reads := 0
	for _, e := range both {
		e.source = func(ctx context.Context) (*source, error) {
			s, err := l.source(ctx)
			s.read = func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
				reads++
				return l.read(ctx, p, first, end, visit, step)
			}
			return s, err
		}
		defer func() { _ = e.close() }()
	}
	pass := func(want int) {
		t.Helper()
		reads = 0
		for range 3 {
			for _, e := range both {
				if _, err := e.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if reads != want {
			t.Errorf("%d reads, want %d", reads, want)
		}
	}
	pass(4) // two partitions, each by both
	pass(0)
	if err := os.Remove(filepath.Join(dir, tailDir, "p=01.parquet")); err != nil {
		t.Fatal(err)
	}
	pass(1)
	l.check(t, dir)
}

// A copy that is made while an exporter seals what was in the tail: first the tails, then the manifests, then the rest.
func TestCopyMeanwhile(t *testing.T) {
	whole, dir, copied := newLedger(150), t.TempDir(), t.TempDir()
	copyOf := func(names ...string) {
		for _, name := range names {
			if err := os.CopyFS(filepath.Join(copied, name), os.DirFS(filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	export := func(n int) *ledger {
		l := &ledger{values: whole.values[:n]}
		if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	least := export(20)
	copyOf(tailDir)
	export(70)
	copyOf(manifestDir)
	export(150)
	copyOf(eventsDir, snapshotDir)
	once(t, copied)
	_, all, _ := read(t, copied)
	for o, v := range least.values {
		if v != nil && !slices.ContainsFunc(all[0], func(r Row) bool { return r.Offset == int64(o) }) {
			t.Errorf("offset %d is missing", o)
		}
	}
}

// The footer of a tail in version 1.
func TestTailSaysWhatItCovers(t *testing.T) {
	l, dir := newLedger(41), t.TempDir()
	if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, tailDir, "p=00.parquet"):             "1 32 41", // offset 40 has a record, 41 may have one
		glob(t, dir, eventsDir, "*", "p=00", "0-31.parquet")[0]: "1  ",
	} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := openParquet(f)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, key := range []string{"waterclock.version", "waterclock.from", "waterclock.to"} {
			value, _ := file.Lookup(key)
			all = append(all, value)
		}
		got := strings.Join(all, " ")
		if n := len(file.Metadata().KeyValueMetadata); got != want || n != len(strings.Fields(want)) {
			t.Errorf("the metadata of %s is %q, want %q", name, got, want)
		}
		_ = f.Close()
	}
}
