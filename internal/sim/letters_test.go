package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
	"github.com/waterclock/waterclock/topics"
)

// timeouts counts due events whose receipt never came.
type timeouts struct {
	pipeline.NoListener
	mu sync.Mutex
	n  map[string]int
}

func (c *timeouts) ReceiptTimedOut(channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[channel]++
}

// TestWorkersAwayForEightHours has no workers, so every attempt times out and each occurrence
// becomes a dead letter, receipt_timeout. A redrive by code is interrupted and repeated. Each
// occurrence must be received once and delivered.
func TestWorkersAwayForEightHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1, Channels: []string{"r-push"}})
		heard := &timeouts{n: map[string]int{}}
		w.Start("a", func(o *pipeline.Options) { o.Listener = heard })
		w.AwaitOwners()
		const n = 60
		for i := range n {
			w.SendFree(w.Home(fmt.Sprintf("k%d", i)), fmt.Sprintf("k%d", i),
				`{"op":"register","delay":"1m","channel":"r-push","payload":{"a":1}}`)
		}
		time.Sleep(8 * time.Hour)
		h := historyOf(t, w)
		letters := h.letters(topics.LetterQuery{Code: "receipt_timeout"})
		if len(letters) != n {
			t.Fatalf("%d dead letters with code receipt_timeout, want %d", len(letters), n)
		}
		if heard.mu.Lock(); heard.n["r-push"] != 3*n {
			t.Errorf("told %v time-outs, want 3 of each of %d", heard.n, n)
		}
		heard.mu.Unlock()
		due := w.Tail(w.Names.Due("r-push")) // the workers are back, and read from the beginning
		seen := map[string]int{}
		for _, r := range due.Take(3 * n) {
			seen[pipelinetest.Header(r, "ce_id")]++
		}
		h.redrive(letters[:n/3])
		h.redrive(letters[:n/2]) // the first redrive was killed; it is repeated from its beginning
		h.read()
		rest := h.letters(topics.LetterQuery{Code: "receipt_timeout"})
		if len(rest) != n-n/2 {
			t.Errorf("%d are open after half of %d was redriven", len(rest), n)
		}
		h.redrive(rest)
		for _, r := range due.Take(n) {
			id := pipelinetest.Header(r, "ce_id")
			if seen[id]++; pipelinetest.Header(r, "ce_wcattempt") != "4" || seen[id] != 4 || string(r.Value) != `{"a":1}` {
				t.Errorf("%s went out as attempt %s, for the %d. time, with %s", id,
					pipelinetest.Header(r, "ce_wcattempt"), seen[id], r.Value)
			}
			w.Receipt(string(r.Key), fmt.Sprintf(`{"due_id":%q,"channel":"r-push","outcome":"delivered","attempt":4}`, id))
		}
		due.Quiet(2 * time.Hour) // nothing is sent twice, and nothing times out once more
		h.read()
		if got := h.letters(topics.LetterQuery{Status: topics.LetterResolved}); len(got) != n {
			t.Errorf("%d letters are resolved, want %d", len(got), n)
		}
		if got := h.letters(topics.LetterQuery{}); len(got) != 0 {
			t.Errorf("%d letters are open after all were delivered", len(got))
		}
		w.CheckInvariants()
	})
}

// history has the tables of a world. It is filled when a test reads it.
type history struct {
	t     *testing.T
	w     *sim.World
	store *embedded.Store
	at    map[int64]*kgo.Record // by offset of topic dead-letter and partition
}

func historyOf(t *testing.T, w *sim.World) *history {
	store, err := embedded.Open(embedded.Options{Dir: "history", FS: vfs.NewMem(), SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	h := &history{t: t, w: w, store: store, at: map[int64]*kgo.Record{}}
	h.read()
	return h
}

func positionOf(partition int32, offset int64) int64 { return int64(partition)<<40 + offset }

// read applies both topics from the beginning. Rows that exist do not change.
func (h *history) read() {
	h.t.Helper()
	var letters, events []sinks.EventRecord
	for _, r := range h.w.Dump(h.w.Names.DeadLetter()) {
		l, err := topics.LetterOf(kafkarec.Of(r))
		if err != nil {
			h.t.Fatal(err)
		}
		h.at[positionOf(r.Partition, r.Offset)] = r
		letters = append(letters, sinks.EventRecord{Partition: r.Partition, Offset: r.Offset, Letter: &l})
	}
	for _, r := range h.w.Dump(h.w.Names.Events()) {
		e, err := sinks.DecodeEvent(r.Value, r.Timestamp)
		if err != nil {
			h.t.Fatal(err)
		}
		events = append(events, sinks.EventRecord{Event: e, Partition: r.Partition, Offset: r.Offset})
	}
	ctx := context.Background()
	if err := h.store.Apply(ctx, events); err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.ApplyLetters(ctx, letters); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) letters(q topics.LetterQuery) (all []topics.Letter) {
	h.t.Helper()
	for {
		page, err := h.store.Letters(context.Background(), q)
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, page.Items...)
		if q.After = page.Next; q.After.IsZero() {
			return all
		}
	}
}

// redrive sends the commands that a gateway sends.
func (h *history) redrive(letters []topics.Letter) {
	h.t.Helper()
	for _, l := range letters {
		rec := h.at[positionOf(l.Partition, l.Offset)]
		dead, err := topics.DecodeDeadLetter(kafkarec.Of(rec))
		if err != nil {
			h.t.Fatal(err)
		}
		value, err := topics.RedriveCommand(dead, "", "")
		if err != nil {
			h.t.Fatal(err)
		}
		h.w.SendFree(h.w.Home(l.Trigger), l.Trigger, string(value))
	}
	time.Sleep(time.Minute)
}
