package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A redrive that finds no slot has looked for nothing: without a history, that reads a day of a topic.
func TestRedriveTakesItsSlotFirst(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Batches = 1 })
	slots := w.server.redrives.slots
	if !slots.Take(trigger.DefaultTenant) {
		t.Fatal("no slot")
	}
	const body = `{"trigger_id":"k"}`
	w.must(http.StatusServiceUnavailable, http.MethodPost, "/v1/dead-letters:redrive", body)
	slots.Release(trigger.DefaultTenant)
	w.must(http.StatusNotFound, http.MethodPost, "/v1/dead-letters:redrive", body)
	if n := slots.Held(trigger.DefaultTenant); n != 0 {
		t.Errorf("%d slots are held afterwards", n)
	}
}

// All dead letters of a trigger are redriven, however many pages they are, and each is found by its ce_id. Of an
// occurrence that has several, the newest counts.
func TestRedriveOfATriggerWithMany(t *testing.T) {
	const n = maxPage + 5
	for name, history := range map[string]bool{"with a history": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w := newLetterWorld(t, func(o *Options) {
				if !history {
					o.Letters = nil
				}
			})
			key := idKey("k")
			var batch []*kgo.Record
			begun := time.Now().Add(-time.Hour)
			for i := range n {
				batch = append(batch, w.deadRecord(key, "http_500", func(d *trigger.DeadLetter) {
					d.Fire.Nominal = trigger.At(begun.Add(time.Duration(i) * time.Second))
					d.Fire.Occurrence = d.Fire.Nominal.String()
				}))
			}
			batch = append(batch, w.deadRecord(key, "http_503", func(d *trigger.DeadLetter) {
				d.Fire.Nominal = trigger.At(begun.Add((n - 1) * time.Second))
				d.Fire.Occurrence, d.Fire.Attempt = d.Fire.Nominal.String(), 12
			}))
			if err := w.cl.ProduceSync(t.Context(), batch...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if history { // a list that is behind is no error
				eventually(t, "the letters in the history", func() bool {
					next, _, err := w.LettersNext(t.Context())
					return err == nil && next[topics.Partition([]byte(key), testPartitions)] == n+1
				})
			}
			for _, i := range []int{0, n - 1} {
				ceID := trigger.DueID(key, trigger.At(begun.Add(time.Duration(i)*time.Second)).String(), 0)
				if got, _ := w.redrive(fmt.Sprintf(`{"trigger_id":"k","ce_id":%q}`, ceID)); got.Redriven != 1 {
					t.Errorf("number %d: %+v", i, got)
				}
			}
			said := w.must(http.StatusOK, http.MethodPost, "/v1/dead-letters:redrive",
				`{"trigger_id":"k","rate":1000,"dry_run":true}`).body
			if n := strings.Count(said, "\n"); n != 2 { // whoever hears nothing for long takes it for lost
				t.Errorf("two seconds' worth of letters are %d lines: %s", n, said)
			}
			got, refused := w.redrive(`{"trigger_id":"k","rate":100000}`)
			if got.Matched != n || got.Redriven != n-2 || got.Duplicate != 2 {
				t.Errorf("%+v, %d refused", got, len(refused))
			}
			newest := 0
			w.engine.set(func() {
				for _, live := range w.engine.states[key].Live {
					newest = max(newest, live.Attempt)
				}
			})
			if newest != 13 {
				t.Errorf("the last attempt is %d, want that after the newest letter's", newest)
			}
		})
	}
}

// A redrive of a trigger is done when all of its open letters are sent, also when they are more than may be in memory.
func TestRedriveOfATriggerWithMoreThanAreInMemory(t *testing.T) {
	const n = 55
	for name, history := range map[string]bool{"with a history": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w := newLetterWorld(t, func(o *Options) {
				if !history {
					o.Letters = nil
				}
			})
			w.server.redrives.ofTrigger = 10
			w.deadOfOne(idKey("k"), n)
			if got, _ := w.redrive(`{"trigger_id":"k","dry_run":true}`); got.Matched != n || got.Visited != n {
				t.Errorf("a dry run: %+v", got)
			}
			if got, _ := w.redrive(`{"trigger_id":"k","rate":100000}`); got.Matched != n || got.Redriven != n {
				t.Errorf("%+v", got)
			}
			if out := w.redrives(); out != n {
				t.Errorf("%d of %d went out", out, n)
			}
		})
	}
}

// What was redriven does not go out a second time, although the engine knows only the last redrives of a trigger.
func TestRedriveOfATriggerTwice(t *testing.T) {
	const n = 2*trigger.MaxLive + 5
	w := newLetterWorld(t, nil)
	w.deadOfOne(idKey("k"), n)
	if got, _ := w.redrive(`{"trigger_id":"k","rate":100000}`); got.Redriven != n {
		t.Errorf("the first time: %+v", got)
	}
	if got, _ := w.redrive(`{"trigger_id":"k","rate":100000}`); got.Duplicate != n || got.Redriven != 0 ||
		got.Matched != n || got.Visited != n {
		t.Errorf("the second time: %+v", got)
	}
	if out := w.redrives(); out != n {
		t.Errorf("%d of %d went out", out, n)
	}
}

// Among letters that are open, what was delivered since is a duplicate.
func TestRedriveOfATriggerCountsWhatWasDelivered(t *testing.T) {
	w := newLetterWorld(t, nil)
	w.deadOfOne(idKey("k"), 1)
	if got, _ := w.redrive(`{"trigger_id":"k"}`); got.Redriven != 1 {
		t.Fatalf("%+v", got)
	}
	w.delivered(idKey("k"))
	w.dead(idKey("k"), "http_503")
	w.ids("")
	if got, _ := w.redrive(`{"trigger_id":"k"}`); got.Redriven != 1 || got.Duplicate != 1 || got.Matched != 2 {
		t.Errorf("%+v", got)
	}
}

// deadOfOne appends dead letters of n occurrences of a trigger, and waits until the history has them.
func (w *letterWorld) deadOfOne(key trigger.Key, n int) {
	w.t.Helper()
	begun := time.Now().Add(-time.Hour)
	var batch []*kgo.Record
	for i := range n {
		batch = append(batch, w.deadRecord(key, "http_500", func(d *trigger.DeadLetter) {
			d.Fire.Nominal = trigger.At(begun.Add(time.Duration(i) * time.Second))
			d.Fire.Occurrence = d.Fire.Nominal.String()
		}))
	}
	if err := w.cl.ProduceSync(w.t.Context(), batch...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the letters in the history", func() bool {
		next, _, err := w.LettersNext(w.t.Context())
		return err == nil && next[topics.Partition([]byte(key), testPartitions)] == int64(n)
	})
}
