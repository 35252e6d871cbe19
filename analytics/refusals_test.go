package analytics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
			name: "a gap", code: CodeGap, says: "offsets 150 to 169 of partition 0",
			damage: func(_ *testing.T, l *ledger, _ string) { l.values, l.start = newLedger(180).values, 170 },
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
	for _, a := range []Acceptance{{0, 128}, {0, 170}, {1, 150}} {
		if err := accept(a.Partition, a.Offset); err == nil {
			t.Errorf("accepting %v was enough", a)
		}
	}
	e := more.exporter(dir, nil) // to follow is no way to wait for a partition
	e.opts.AcceptGaps = []Acceptance{{2, 128}}
	if refusal, ok := errors.AsType[*Error](e.Follow(t.Context())); !ok || refusal.Code != CodeNoPartition {
		t.Errorf("accepting a gap of no partition: %v", refusal)
	}
	if err := accept(0, 150); err != nil {
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
	if len(gaps) != 1 || gaps[0] != (Gap{0, 150, 170}) {
		t.Errorf("gaps %v", gaps)
	}
	for i := range all[0] {
		if o := all[0][i].Offset; o >= 150 && o < 170 {
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
				e.opts.AcceptGaps = []Acceptance{{0, 20}}
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
		_, err := fmt.Sscanf(filepath.Base(name), "%d-", &from)
		if err != nil || from < short.start && filepath.Base(name) != "0-19.parquet" { // what the tail had
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
