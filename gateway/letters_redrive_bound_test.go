package gateway

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// heldLetters is a history of many dead letters, a few of them on each partition of the topic. It makes each page when
// it is asked for, and counts the pages that somebody still holds.
type heldLetters struct {
	names   [testPartitions][]string // of the triggers, by the offset of their letters
	pages   atomic.Int64
	held    atomic.Int64
	most    int64 // of held; the pages are read one after the other
	readers sync.Mutex
}

func (h *heldLetters) LettersNext(context.Context) (letters, events map[int32]int64, err error) {
	letters = map[int32]int64{}
	for p, names := range h.names {
		letters[int32(p)] = int64(len(names))
	}
	return letters, map[int32]int64{}, nil
}

func (h *heldLetters) Letters(_ context.Context, q topics.LetterQuery) (topics.LetterPage, error) {
	h.readers.Lock()
	defer h.readers.Unlock()
	runtime.GC() // so that what nobody holds is not counted
	h.most = max(h.most, h.held.Load())
	var page topics.LetterPage
	items := make([]topics.Letter, 0, q.Limit)
	p, offset := int32(0), int64(0)
	if !q.After.IsZero() {
		p, offset = q.After.Partition, q.After.Offset+1
	}
	for ; p < testPartitions; p, offset = p+1, 0 {
		for ; offset < int64(len(h.names[p])); offset++ {
			if len(items) == q.Limit {
				last := &items[len(items)-1]
				page.Next = topics.LetterCursor{
					Tenant: "default", FailedAt: 1, Partition: last.Partition, Offset: last.Offset,
				}
				return h.hold(page, items), nil
			}
			items = append(items, topics.Letter{
				Tenant: "default", Trigger: h.names[p][offset], Partition: p, Offset: offset,
				Code: "http_500", Channel: "webhook", Attempt: 6, FailedAt: 1,
			})
		}
	}
	return h.hold(page, items), nil
}

// hold counts a page until its letters are garbage.
func (h *heldLetters) hold(page topics.LetterPage, items []topics.Letter) topics.LetterPage {
	page.Items, page.Visited = items, len(items)
	if len(items) > 0 {
		h.pages.Add(1)
		h.held.Add(1)
		runtime.AddCleanup(&items[0], func(h *heldLetters) { h.held.Add(-1) }, h)
	}
	return page
}

// A redrive of many dead letters by a filter holds a few pages of 1,000 at a time, whatever their number. (100,000 took
// 76 s on a busy machine.)
func TestRedriveByFilterIsBounded(t *testing.T) {
	const most, letters = 5, 20_000
	history := &heldLetters{}
	w := &letterWorld{world: newWorld(t, func(o *Options) { o.Letters = history })}
	var redriven atomic.Int64
	w.engine.set(func() {
		w.engine.seen = func(_ *kgo.Record, facts []trigger.Fact) {
			for _, f := range facts {
				if f.Type == trigger.Redriven {
					redriven.Add(1)
				}
			}
		}
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for n := 0; n < letters; {
		batch := make([]*kgo.Record, 10_000)
		for i := range batch {
			name := fmt.Sprint("k", n)
			batch[i] = w.deadRecord(idKey(name), "http_500")
			p := batch[i].Partition
			history.names[p] = append(history.names[p], name)
			n++
		}
		if err := cl.ProduceSync(t.Context(), batch...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	got, refused := w.redrive(`{"code":"http_500","rate":100000}`)
	if got.Matched != int64(letters) || got.Redriven != int64(letters) || len(refused) > 0 {
		t.Errorf("%+v, refused: %s", got, strings.Join(refused[:min(3, len(refused))], " "))
	}
	if n := redriven.Load(); n != int64(letters) {
		t.Errorf("%d went out again", n)
	}
	t.Logf("%d pages were read, at most %d were held", history.pages.Load(), history.most)
	if history.pages.Load() < int64(letters/1000) || history.most > most {
		t.Errorf("%d of %d pages were held at once", history.most, history.pages.Load())
	}
}
