package broker_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// TestWeek lets the registers and fires of a week go by, an hour at a time, with
// an engine beside the broker and commands trimmed as dev does. The directory
// must not grow with them. Bounds are a thousandth of what they are in earnest,
// and so is the load: 8,000 triggers in eight hours. In a soak it is a whole
// week of ten a second.
func TestWeek(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	perHour, hours := 1000, 8
	bounds := broker.Options{SegmentBytes: 64 << 10, TopicBytes: 1 << 20, RestartBytes: 2 << 20, CompactBytes: 64 << 10}
	most := int64(8 << 20)
	if os.Getenv("WATERCLOCK_TEST_SOAK") != "" {
		perHour, hours = 36_000, 7*24
		bounds = broker.Options{SegmentBytes: 1 << 20, TopicBytes: 100 << 20, RestartBytes: 200 << 20}
		most = 2 << 30
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWeek(t, dir, bounds)
		largest, early, written := int64(0), int64(0), 0
		for hour := range hours {
			w.hour(t, written, perHour)
			written += perHour
			largest = max(largest, directorySize(t, dir))
			if hour < hours/2 {
				early = largest
			}
		}
		if largest > most || largest > early*3/2 {
			t.Errorf("%d triggers: the directory has up to %d KB, in the first half %d; it may have %d and must "+
				"not grow for ever", written, largest>>10, early>>10, most>>10)
		}
		s := w.engine.Partitions()[0]
		t.Logf("%d triggers in a week: at most %d KB on disk, %d KB at the end; %d turns", written, largest>>10,
			directorySize(t, dir)>>10, s.Turns)
		if s.Pending != 0 || s.OldestOverdue != 0 || s.CommandsOffset < int64(written) {
			t.Errorf("%d pending, %v overdue, %d of %d commands decided", s.Pending, s.OldestOverdue, s.CommandsOffset,
				written)
		}
		w.end()
	})
}

// week is a broker and an engine in one bubble.
type week struct {
	*pipelinetest.World
	b      *broker.Broker
	cl     *kgo.Client
	engine *pipelinetest.Node
}

func newWeek(t *testing.T, dir string, o broker.Options) *week {
	t.Helper()
	var nw kfake.VirtualNetwork
	o.Dir, o.Listen, o.ListenFn, o.Logger = dir, "127.0.0.1:9092", nw.Listen, slog.New(slog.DiscardHandler)
	b, err := broker.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	w := &week{World: pipelinetest.New(t, pipelinetest.Options{
		Partitions: 1, Simulated: true, Addresses: b.Addrs(),
		Network: &nw,
	}), b: b}
	if w.cl, err = w.Producer(t.Context(), kgo.DefaultProduceTopic(w.Names.Commands()),
		kgo.MaxBufferedRecords(100_000)); err != nil {
		t.Fatal(err)
	}
	w.engine = w.Start("a", func(o *pipeline.Options) {
		o.SessionTimeout = 5 * time.Minute
		o.InstanceID = ""             // a dynamic member
		o.Machine.Horizon = time.Hour // what has fired is forgotten after an hour, not a day
	})
	return w
}

func (w *week) end() {
	_ = w.Stop("a")
	w.cl.Close()
	if err := w.b.Close(); err != nil {
		w.T.Error(err)
	}
}

// keep is how many decided commands stay, as keepCommands in dev.
const keep = 1000

// hour registers triggers due within the hour, lets it go by, and trims.
func (w *week) hour(t *testing.T, from, n int) {
	t.Helper()
	payload := fmt.Appendf(nil, "%0200d", from)
	for i := from; i < from+n; i++ {
		w.cl.Produce(context.Background(), &kgo.Record{
			Key: fmt.Appendf(nil, "k-%d", i), Value: payload,
			Headers: []kgo.RecordHeader{{Key: "wc-delay", Value: fmt.Appendf(nil, "%ds", 1+i%3000)}},
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("register: %v", err)
			}
		})
	}
	if err := w.cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	for _, s := range w.engine.Partitions() {
		if below := s.TrimBelow - keep; s.Ready && below > 0 {
			if err := w.b.Trim(w.Names.Commands(), s.Partition, below); err != nil {
				t.Error(err)
			}
		}
	}
}

func directorySize(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file may go while we look
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
