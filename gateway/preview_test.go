package gateway

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/topics"
)

// naming is a preview that names calendars.
func naming(names ...string) string {
	return `{"recurrence":"FREQ=DAILY","start":"2060-02-01T09:00","n":1,"calendars":{"on":"skip","names":["` +
		strings.Join(names, `","`) + `"]}}`
}

// readsOfControl watches for questions about topic control, which stand before each read of it.
func (w *world) readsOfControl(f func()) {
	w.cluster.ControlKey(int16(kmsg.ListOffsets), func(q kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		for _, of := range q.(*kmsg.ListOffsetsRequest).Topics {
			if of.Topic == (topics.Names{}).Control() {
				f()
			}
		}
		return nil, nil, false
	})
}

// All calendars that a preview names are found by one read, and a register's bound holds for them.
func TestPreviewReadsCalendarsOnce(t *testing.T) {
	w := newWorld(t, nil)
	var names []string
	for i := range 16 {
		names = append(names, fmt.Sprint("c", i))
		w.must(http.StatusOK, "PUT", fmt.Sprint("/v1/calendars/c", i), fmt.Sprintf(`{"dates":["2060-02-%02d"]}`, i+1))
	}
	var reads atomic.Int64
	w.readsOfControl(func() { reads.Add(1) })
	a := w.must(http.StatusOK, "POST", "/v1/preview", naming(names...))
	if n := reads.Load(); n != 1 || !strings.Contains(a.body, `"2060-02-17T09:00:00Z"`) {
		t.Errorf("%d reads, %s", n, a.body)
	}
	reads.Store(0)
	for _, more := range []string{"c16", "c0"} {
		a = w.must(http.StatusUnprocessableEntity, "POST", "/v1/preview", naming(append(names, more)...))
		if a.get(t, "field") != "calendars" || !strings.Contains(a.body, "16") {
			t.Errorf("17 names: %s", a.body)
		}
	}
	if n := reads.Load(); n != 0 {
		t.Errorf("%d reads for what is refused", n)
	}
}

// A preview whose calendars cannot be read was not refused: it is repeated.
func TestPreviewWithoutKafka(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topics.Names{}.Control(), Count: -1,
	})
	a := w.must(http.StatusServiceUnavailable, "POST", "/v1/preview", naming("us"))
	if a.get(t, "code") != "unavailable" || a.header.Get("Retry-After") == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	w.must(http.StatusOK, "POST", "/v1/preview", `{"delay":"1m"}`)
}

// Previews that wait for Kafka, of as many tenants as there are processors, hold up no other.
func TestPreviewWaitsWithoutASlot(t *testing.T) {
	var lines strings.Builder
	key := func(i int) string { return fmt.Sprintf("%040d", i) }
	n := runtime.GOMAXPROCS(0)
	for i := range n + 1 {
		fmt.Fprintf(&lines, "t%d %s reader r\n", i, key(i))
	}
	keys, err := auth.ReadKeys(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(o *Options) { o.Auth, o.ReadWithin, o.Reads = keys, 20*time.Second, 1000 })
	waits, goOn := make(chan struct{}, 1000), make(chan struct{})
	w.readsOfControl(func() {
		waits <- struct{}{}
		w.cluster.SleepControl(func() { <-goOn })
	})
	var all sync.WaitGroup
	var answered atomic.Int64
	for i := range n {
		all.Go(func() {
			w.call("POST", "/v1/preview", naming("us"), "Authorization", "Bearer "+key(i))
			answered.Add(1)
		})
	}
	<-waits
	eventually(t, "the previews that wait", func() bool {
		held := 0
		for i := range n {
			held += w.server.reads.slots.Held(fmt.Sprint("t", i))
		}
		return held == n
	})
	w.must(http.StatusOK, "POST", "/v1/preview", `{"delay":"1m"}`, "Authorization", "Bearer "+key(n))
	if got := answered.Load(); got != 0 {
		t.Errorf("it is answered after %d that wait for Kafka", got)
	}
	close(goOn)
	all.Wait()
}
