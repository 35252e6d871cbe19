package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const watermarkTopic = "waterclock.watermarks"

func withWatermarks(o *Options) { o.Watermarks = watermarkTopic }

// newMarkedWorld is a world with topic watermarks.
func newMarkedWorld(t *testing.T, partitions int32) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic, watermarkTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return worldOn(t, c.ListenAddrs(), topic, partitions)
}

// mark is the watermark of a partition as a turn behind all that is committed would write it.
func (w *world) mark(p int32) *topics.Watermark {
	m := &topics.Watermark{Partition: p, Term: 1, FiredThrough: trigger.Instant(w.us[p] / 1000)}
	for offset := range w.committed[p] {
		m.EventsOffset = max(m.EventsOffset, offset+1)
	}
	return m
}

// writeMark appends to topic watermarks in a transaction of its own. Nil withdraws.
func (w *world) writeMark(p int32, commit bool, m *topics.Watermark) {
	w.t.Helper()
	if err := w.producer.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	r := &kgo.Record{Topic: watermarkTopic, Partition: p, Key: topics.WatermarkKey(p)}
	if m != nil {
		r.Value = m.Value()
	}
	if err := w.producer.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.producer.EndTransaction(w.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		w.t.Fatal(err)
	}
}

// checkWatermarks: each first emission up to the watermark of a manifest is in the sealed files of
// that manifest and of those before.
func checkWatermarks(t *testing.T, dir string, committed map[int32]map[int64]string) {
	t.Helper()
	manifests, err := Manifests(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		for p, mark := range m.Watermark {
			if mark.EventsOffset > m.Next[p] {
				t.Errorf("manifest %d, partition %d: the watermark stands at %d, the files at %d", m.N, p,
					mark.EventsOffset, m.Next[p])
			}
			for offset, value := range committed[p] {
				var e struct {
					Type string    `json:"type"`
					Due  time.Time `json:"scheduled_at"`
				}
				_ = json.Unmarshal([]byte(value), &e) // garbage has no type
				due := e.Type == "occurrence.fired" && trigger.At(e.Due).String() <= mark.FiredThrough
				if due && offset >= m.Next[p] {
					t.Errorf("manifest %d, partition %d: offset %d is not in the files, and was due before %s", m.N, p,
						offset, mark.FiredThrough)
				}
			}
		}
	}
}

// A manifest names the newest watermark whose events stand in sealed files. An aborted one does
// not count, and neither does garbage on the topic.
func TestManifestNamesTheWatermark(t *testing.T) {
	w := newMarkedWorld(t, 2)
	steps, whole := t.TempDir(), t.TempDir()
	written := map[int32][]*topics.Watermark{}
	for range 4 {
		for range 6 {
			w.fill(1)
			for p := range w.partitions {
				m := w.mark(p)
				w.writeMark(p, true, m)
				written[p] = append(written[p], m)
				ahead := *m
				ahead.FiredThrough += 3_600_000
				w.writeMark(p, false, &ahead)
			}
		}
		garbage := &kgo.Record{Topic: watermarkTopic, Key: []byte("0"), Value: []byte("{")}
		if err := w.client().ProduceSync(t.Context(), garbage).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.export(steps, withWatermarks)
		checkWatermarks(t, steps, w.committed)
	}
	w.export(whole, withWatermarks)
	checkWatermarks(t, whole, w.committed)
	_, _, all := read(t, steps)
	_, _, once := read(t, whole)
	last, lastOnce := all[len(all)-1], once[len(once)-1]
	for p := range w.partitions {
		var want Watermark
		for _, m := range written[p] {
			if m.EventsOffset <= last.Next[p] {
				want = Watermark{FiredThrough: m.FiredThrough.String(), EventsOffset: m.EventsOffset, Held: []string{}}
			}
		}
		for _, got := range []Watermark{last.Watermark[p], lastOnce.Watermark[p]} {
			if got.EventsOffset == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("partition %d has %v, want %v", p, got, want)
			}
		}
	}
	a, b := files(t, steps), files(t, whole)
	for _, dir := range []string{eventsDir, tailDir, snapshotDir} {
		sameFiles(t, only(a, dir), only(b, dir))
	}
}

// Null withdraws: the next manifest that moves the partition names no watermark of it, until
// there is a newer one below its files. Until then the other partition keeps its own.
func TestWithdrawnWatermark(t *testing.T) {
	w := newMarkedWorld(t, 2)
	dir := t.TempDir()
	step := func() map[int32]Watermark {
		w.fill(10)
		w.export(dir, withWatermarks)
		checkWatermarks(t, dir, w.committed)
		_, _, all := read(t, dir)
		return all[len(all)-1].Watermark
	}
	w.fill(1)
	held := w.mark(0)
	held.Held = []string{"waterclock.due.push"}
	w.writeMark(0, true, held)
	w.writeMark(1, true, w.mark(1))
	if got := step(); len(got) != 2 || !slices.Equal(got[0].Held, held.Held) || len(got[1].Held) != 0 {
		t.Fatalf("got %v, want both", got)
	}
	w.writeMark(0, true, nil)
	if got := step(); len(got) != 1 || got[1].EventsOffset == 0 {
		t.Errorf("got %v, want partition 1 alone", got)
	}
	w.writeMark(0, true, w.mark(0))
	if got := step(); len(got) != 2 {
		t.Errorf("got %v, want both", got)
	}
}

// More watermarks than one step backwards has, and the newest below the files is the oldest of all.
func TestWatermarkFarFromTheEnd(t *testing.T) {
	w := newMarkedWorld(t, 1)
	w.fill(1)
	want := w.mark(0)
	w.writeMark(0, true, want)
	w.fill(10)
	newer := w.mark(0)
	newer.EventsOffset += 1000
	cl := w.client()
	for range 300 {
		r := &kgo.Record{Topic: watermarkTopic, Key: topics.WatermarkKey(0), Value: newer.Value()}
		cl.Produce(t.Context(), r, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w.export(dir, withWatermarks)
	_, _, all := read(t, dir)
	if got := all[len(all)-1].Watermark[0]; got.EventsOffset != want.EventsOffset {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Without the topic, or with an empty one, or without its name, an export has all but watermarks.
func TestNoWatermarks(t *testing.T) {
	for name, w := range map[string]*world{"no topic": newWorld(t, 2), "empty": newMarkedWorld(t, 2)} {
		w.fill(10)
		for _, named := range []string{"", watermarkTopic} {
			dir := t.TempDir()
			if r := w.export(dir, func(o *Options) { o.Watermarks = named }); r.Files == 0 {
				t.Errorf("%s: %+v", name, r)
			}
			w.check(dir)
			_, _, all := read(t, dir)
			for _, m := range all {
				text, err := os.ReadFile(manifestName(dir, m.N))
				if err != nil || strings.Contains(string(text), "watermark") {
					t.Errorf("%s, topic %q: %s", name, named, text)
				}
			}
		}
	}
}

// A topic that does not answer holds nothing up.
func TestUnreadableWatermarks(t *testing.T) {
	l, dir := newLedger(100), t.TempDir()
	l.marks = func(context.Context, int32, int64) (marks, error) { return nil, errDied }
	if _, err := l.exporter(dir, nil).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.check(t, dir)
	_, _, all := read(t, dir)
	if last := all[len(all)-1]; last.Next[0] == 0 || len(last.Watermark) != 0 {
		t.Errorf("%+v", last)
	}
}

// marksOf are watermarks of a ledger: one behind each tenth offset.
func (l *ledger) marksOf(_ context.Context, p int32, _ int64) (all marks, _ error) {
	var due time.Time
	for o, value := range l.values {
		var e struct {
			Due time.Time `json:"scheduled_at"`
		}
		_ = json.Unmarshal(value, &e) // markers have no event
		if !e.Due.IsZero() {
			due = e.Due
		}
		if o%10 == 9 {
			m := &topics.Watermark{Partition: p, FiredThrough: trigger.At(due), EventsOffset: int64(o) + 1}
			all = append(all, m)
		}
	}
	return all, nil
}

// checkWatermarks is the check for a ledger, whose partitions are the same.
func (l *ledger) checkWatermarks(t *testing.T, dir string) {
	t.Helper()
	one := map[int64]string{}
	for o, value := range l.values {
		if value != nil {
			one[int64(o)] = string(value)
		}
	}
	checkWatermarks(t, dir, map[int32]map[int64]string{0: one, 1: maps.Clone(one)})
}
