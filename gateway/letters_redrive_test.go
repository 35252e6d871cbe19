package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// letterWorld is a gateway with a history of dead letters: topic dead-letter is
// projected as it is, and what redrives make of its letters is told to the history
// as the event log would.
type letterWorld struct {
	*world
	store *embedded.Store
	cl    *kgo.Client

	mu       sync.Mutex
	redriven map[string]int // by ce_id: how often an attempt was made of it
	eventUS  int64

	waited atomic.Int64 // how often somebody asked how far the history is
}

func (w *letterWorld) Letters(ctx context.Context, q topics.LetterQuery) (topics.LetterPage, error) {
	return w.store.Letters(ctx, q)
}

func (w *letterWorld) LettersNext(ctx context.Context) (letters, events map[int32]int64, err error) {
	w.waited.Add(1)
	progress, err := w.store.LetterProgress(ctx)
	letters, events = map[int32]int64{}, map[int32]int64{}
	for p, at := range progress {
		letters[p] = at.Next
	}
	return letters, events, err
}

func newLetterWorld(t *testing.T, change func(*Options)) *letterWorld {
	t.Helper()
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w := &letterWorld{store: store, redriven: map[string]int{}, eventUS: time.Now().UnixMicro()}
	w.world = newWorld(t, func(o *Options) {
		o.Letters = w
		if change != nil {
			change(o)
		}
	})
	w.engine.set(func() { w.engine.seen = w.heard })
	if w.cl, err = kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	p, err := sinks.NewLetterProjector(store, sinks.Options{
		Kafka: []kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...)}, Gather: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; store.Close() })
	return w
}

// heard tells the history what commands have made.
func (w *letterWorld) heard(r *kgo.Record, facts []trigger.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range facts {
		if f.Type != trigger.Redriven && f.Type != trigger.ErasedFact {
			continue
		}
		key := trigger.Key(r.Key)
		step := f.Step
		w.eventUS++
		e := sinks.EventRecord{Partition: r.Partition, Offset: w.eventUS, Event: topics.Event{
			Type: string(f.Type), Trigger: string(key), Tenant: key.Tenant(), State: "IN_FLIGHT", EventUS: w.eventUS,
			Seq: 1, Occurrence: f.Occurrence, Step: &step, Attempt: f.Attempt,
		}}
		if f.Type == trigger.Redriven {
			w.redriven[trigger.DueID(key, f.Occurrence, f.Step)]++
		}
		if err := w.store.Apply(context.Background(), []sinks.EventRecord{e}); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *letterWorld) redrives() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, times := range w.redriven {
		if n++; times != 1 {
			w.t.Errorf("%s was redriven %d times", id, times)
		}
	}
	return n
}

// dead appends a dead letter of a key, as an engine does.
func (w *letterWorld) dead(key trigger.Key, code string, edit ...func(*trigger.DeadLetter)) {
	w.t.Helper()
	rec := w.deadRecord(key, code, edit...)
	if err := w.cl.ProduceSync(context.Background(), rec).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *letterWorld) deadRecord(key trigger.Key, code string, edit ...func(*trigger.DeadLetter)) *kgo.Record {
	nominal := trigger.At(time.Now().Add(-time.Hour))
	d := &trigger.DeadLetter{Code: code, Detail: "said the endpoint", Fire: trigger.Fire{
		Key: key, Occurrence: nominal.String(), Attempt: 6, Revision: 1, Nominal: nominal, Channel: "webhook",
		Spec: &trigger.Spec{
			Channel: "webhook", Payload: []byte(`{"n":1}`), Priority: trigger.Normal,
			Callback: &trigger.Callback{URL: "https://hooks.example.com/a?b=c", Timeout: time.Second},
		},
	}}
	for _, f := range edit {
		f(d)
	}
	k, v, headers := topics.DeadLetterRecord(d, topics.DueEnv{Cluster: "test"})
	rec := &kgo.Record{
		Topic: topics.Names{}.DeadLetter(), Key: k, Value: v, Partition: topics.Partition(k, testPartitions),
	}
	for _, h := range headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return rec
}

// ids are the triggers of a list, page by page.
func (w *letterWorld) ids(query string, header ...string) (all []string) {
	w.t.Helper()
	cursor := ""
	for range 1000 {
		path := "/v1/dead-letters?limit=3" + query
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		var page DeadLetters
		a := w.must(http.StatusOK, http.MethodGet, path, "", header...)
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			w.t.Fatal(err)
		}
		for _, l := range page.Items {
			all = append(all, l.TriggerID)
		}
		if cursor = page.NextCursor; cursor == "" {
			return all
		}
	}
	w.t.Fatal("pages without end")
	return nil
}

// redrive posts a body and returns the last line, and the lines of those refused.
func (w *letterWorld) redrive(body string, header ...string) (last RedriveProgress, refused []string) {
	w.t.Helper()
	a := w.must(http.StatusOK, http.MethodPost, "/v1/dead-letters:redrive", body, header...)
	for line := range strings.Lines(a.body) {
		if strings.Contains(line, `"code"`) {
			refused = append(refused, line)
			continue
		}
		last = RedriveProgress{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			w.t.Fatalf("%v: %s", err, line)
		}
	}
	if !last.Done {
		w.t.Errorf("%s did not end: %s", body, a.body)
	}
	return last, refused
}

// delivered reports to the history that a trigger's occurrence in flight was delivered.
func (w *letterWorld) delivered(key trigger.Key) {
	w.t.Helper()
	live := w.state(key).Live[0]
	w.mu.Lock()
	w.eventUS++
	step := live.Step
	err := w.store.Apply(context.Background(), []sinks.EventRecord{{Offset: w.eventUS, Event: topics.Event{
		Type: string(trigger.DeliveryDelivered), Trigger: string(key), Tenant: key.Tenant(),
		State: "FIRED", EventUS: time.Now().UnixMicro() + w.eventUS, Seq: 2, Occurrence: live.Occurrence, Step: &step,
		Attempt: live.Attempt,
	}}})
	w.mu.Unlock()
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestRedrive(t *testing.T) {
	w := newLetterWorld(t, nil)
	for i := range 20 {
		w.dead(idKey(fmt.Sprintf("k%d", i)), []string{"http_500", "receipt_timeout"}[i%2],
			func(d *trigger.DeadLetter) {
				if i == 4 {
					d.Fire.Expires = trigger.At(time.Now().Add(-time.Minute))
				}
			})
	}
	if got, _ := w.redrive(`{"all":true,"dry_run":true}`); got.Matched != 20 || got.Redriven != 0 || got.Expired != 1 ||
		!got.DryRun {
		t.Errorf("dry run: %+v", got)
	}
	if got, _ := w.redrive(`{"trigger_id":"k1"}`); got.Redriven != 1 {
		t.Errorf("one: %+v", got)
	}
	if got, _ := w.redrive(`{"trigger_id":"k1"}`); got.Duplicate != 1 || got.Redriven != 0 {
		t.Errorf("one again: %+v", got)
	}
	st := w.state(idKey("k1"))
	if st == nil || st.Status != trigger.InFlight || st.Live[0].Attempt != 7 || string(st.Spec.Payload) != `{"n":1}` {
		t.Errorf("after its redrive: %+v", st)
	}
	if got, _ := w.redrive(`{"endpoint":"https://Hooks.example.com/","dry_run":true}`); got.Matched != 19 {
		t.Errorf("by an endpoint that is written otherwise: %+v", got)
	}
	p := w.must(http.StatusUnprocessableEntity, http.MethodPost, "/v1/dead-letters:redrive",
		`{"endpoint":"hooks.example.com"}`)
	if p.get(t, "field") != "endpoint" {
		t.Errorf("no origin: %s", p.body)
	}
	got, _ := w.redrive(`{"code":"receipt_timeout","rate":1000}`)
	if got.Redriven != 9 || got.Matched != 9 {
		t.Errorf("by code, of which one was redriven: %+v", got)
	}
	if got, _ := w.redrive(`{"code":"receipt_timeout","rate":1000}`); got.Matched != 0 {
		t.Errorf("by code again: %+v", got)
	}
	if got, _ := w.redrive(`{"all":true,"rate":1000}`); got.Redriven != 9 || got.Expired != 1 {
		t.Errorf("the rest: %+v", got)
	}
	if got, _ := w.redrive(`{"all":true,"include_expired":true}`); got.Redriven != 1 {
		t.Errorf("what has expired: %+v", got)
	}
	if n := w.redrives(); n != 20 {
		t.Errorf("%d occurrences went out second, want 20", n)
	}
	if got := w.ids("&status=redriven"); len(got) != 20 {
		t.Errorf("%d letters are redriven, want 20", len(got))
	}
}

// What was delivered after all is not sent again by its trigger's name: it counts as
// a duplicate, as it did while it was under way.
func TestRedriveOfDelivered(t *testing.T) {
	w := newLetterWorld(t, nil)
	w.dead(idKey("k"), "http_500")
	if got, _ := w.redrive(`{"trigger_id":"k"}`); got.Redriven != 1 {
		t.Fatalf("the first time: %+v", got)
	}
	w.delivered(idKey("k"))
	if got := w.ids("&status=resolved"); len(got) != 1 {
		t.Fatalf("resolved are %v", got)
	}
	got, _ := w.redrive(`{"trigger_id":"k"}`)
	if got.Duplicate != 1 || got.Redriven != 0 || got.Matched != 1 || got.Visited != 1 {
		t.Errorf("after it was delivered: %+v", got)
	}
	if n := w.redrives(); n != 1 {
		t.Errorf("%d occurrences went out, want 1", n)
	}
}

func TestRedriveRefuses(t *testing.T) {
	w := newLetterWorld(t, nil)
	w.dead(idKey("k"), "http_500")
	for body, want := range map[string]string{
		`{}`:                                  "invalid all",
		`{"all":false}`:                       "invalid all",
		`{"ce_id":"x"}`:                       "invalid ce_id",
		`{"trigger_id":"k","code":"x"}`:       "invalid trigger_id",
		`{"trigger_id":7}`:                    "invalid trigger_id",
		`{"trigger_id":""}`:                   "invalid trigger_id",
		`{"all":1}`:                           "invalid all",
		`{"all":true,"rate":0}`:               "invalid rate",
		`{"all":true,"rate":"fast"}`:          "invalid rate",
		`{"all":true,"rate":1e9}`:             "invalid rate",
		`{"all":true,"from":"soon"}`:          "invalid from",
		`{"all":true,"cursor":"x"}`:           "invalid cursor",
		`{"all":true,"chanel":"x"}`:           "unknown_field chanel",
		`{"all":true,"all":true}`:             "invalid all",
		`{"all":true,"dry_run":"yes"}`:        "invalid dry_run",
		`{"channel":null,"all":null}`:         "invalid all",
		`{"tenant":"x","all":true,"rate":-1}`: "invalid rate",
	} {
		a := w.must(http.StatusUnprocessableEntity, http.MethodPost, "/v1/dead-letters:redrive", body)
		if got := a.get(t, "code") + " " + a.get(t, "field"); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	w.must(http.StatusBadRequest, http.MethodPost, "/v1/dead-letters:redrive", `[]`)
	w.must(http.StatusNotFound, http.MethodPost, "/v1/dead-letters:redrive", `{"trigger_id":"k","ce_id":"k@x#0"}`)
	if n := w.redrives(); n != 0 {
		t.Errorf("%d occurrences went out again", n)
	}
}

// An operator's redrive of all does not wait for the rate of one tenant, here so low that its
// second letter would take an hour.
func TestRedriveByOperatorTakesNoTenantsRate(t *testing.T) {
	w := newLetterWorld(t, func(o *Options) {
		o.Auth = testKeys(t)
		o.Rate = func(tenant string) float64 {
			if tenant == "acme" {
				return 1.0 / 3600
			}
			return 0
		}
	})
	for i := range 3 {
		w.dead(trigger.NewKey("acme", fmt.Sprintf("r%d", i)), "http_500")
		w.dead(trigger.NewKey("blue", fmt.Sprintf("b%d", i)), "http_500")
	}
	if got, _ := w.redrive(`{"all":true,"rate":1000}`, "Authorization", "Bearer "+keyO); got.Redriven != 6 {
		t.Errorf("an operator redrives %+v", got)
	}
}

// A redrive whose caller is killed half-way stops; repeated, it goes on, and each
// occurrence goes out once.
func TestRedriveKilledHalfWay(t *testing.T) {
	w := newLetterWorld(t, nil)
	const n = 400
	var batch []*kgo.Record
	for i := range n {
		batch = append(batch, w.deadRecord(idKey(fmt.Sprintf("k%d", i)), "receipt_timeout"))
	}
	if err := w.cl.ProduceSync(context.Background(), batch...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/dead-letters:redrive",
		strings.NewReader(`{"code":"receipt_timeout","rate":100}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var first RedriveProgress // of a whole page
	for lines := bufio.NewReader(resp.Body); first.Cursor == ""; {
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &first)
		}
		if err != nil || first.Done || first.Redriven >= n || first.Redriven == 0 && first.Cursor != "" {
			t.Fatalf("it says %s, %v", line, err)
		}
	}
	cancel() // killed
	var got int
	for last := -1; got != last; { // until nothing more goes out
		last = got
		time.Sleep(1500 * time.Millisecond)
		got = w.redrives()
	}
	if got >= n {
		t.Fatalf("all %d were redriven although the caller is gone", got)
	}
	rest, _ := w.redrive(`{"code":"receipt_timeout","rate":10000}`)
	if int(rest.Redriven) != n-got || rest.Duplicate > first.Redriven {
		t.Errorf("after %d, repeated: %+v", got, rest)
	}
	if third, _ := w.redrive(`{"code":"receipt_timeout"}`); third.Matched != 0 {
		t.Errorf("a third time: %+v", third)
	}
	if got := w.redrives(); got != n {
		t.Errorf("%d of %d went out again", got, n)
	}
}

// deadOf writes n dead letters with such a payload.
func (w *letterWorld) deadOf(n int, payload []byte) {
	w.t.Helper()
	var batch []*kgo.Record
	for i := range n {
		batch = append(batch, w.deadRecord(idKey(fmt.Sprintf("k%d", i)), "http_500", func(d *trigger.DeadLetter) {
			d.Fire.Spec.Payload = payload
		}))
	}
	if err := w.cl.ProduceSync(context.Background(), batch...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// A large redrive has one chunk decided while the next is written. Each letter is counted, and goes
// out once. Pages with large contents are written in parts.
func TestRedriveInFlights(t *testing.T) {
	w := newLetterWorld(t, nil)
	const n = 2500
	payload := []byte(`"` + strings.Repeat("x", 4000) + `"`) // a page of them is over maxRedriveBytes
	w.deadOf(n, payload)
	got, refused := w.redrive(`{"code":"http_500","rate":100000}`)
	if got.Matched != n || got.Redriven != n || got.Visited < n || got.Cursor != "" || len(refused) > 0 {
		t.Errorf("%+v, %d refused", got, len(refused))
	}
	if out := w.redrives(); out != n {
		t.Errorf("%d of %d went out again", out, n)
	}
	if second, _ := w.redrive(`{"code":"http_500","rate":100000}`); second.Matched != 0 {
		t.Errorf("a second time: %+v", second)
	}
}

// While another tenant writes, few commands of a redrive are undecided: the other's commands stand
// behind them. In the end each letter went out once.
func TestRedriveBesideOthers(t *testing.T) {
	const beside, letters = 20, 90
	now := time.Now().Add(time.Minute) // the letters are older
	w := newLetterWorld(t, func(o *Options) {
		o.Auth, o.CommandsBeside = testKeys(t), beside
		o.Now = func() time.Time { return now }
		o.AnswerWithin = time.Minute
	})
	for i := range letters {
		w.dead(trigger.NewKey("acme", fmt.Sprintf("k%d", i)), "http_500")
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""), "Authorization", "Bearer "+keyB)
	w.engine.freeze()
	done := make(chan RedriveProgress, 1)
	go func() {
		got, _ := w.redrive(`{"all":true,"rate":100000}`, "Authorization", "Bearer "+keyA)
		done <- got
	}()
	if got := w.written(t, "acme/", beside); got != beside {
		t.Errorf("%d commands are written and not decided; room is for %d", got, beside)
	}
	w.engine.thaw()
	if got := <-done; got.Matched != letters || got.Redriven != letters {
		t.Errorf("%+v", got)
	}
	if out := w.redrives(); out != letters {
		t.Errorf("%d of %d went out again", out, letters)
	}
}

// TestRedriveRateByDefault: without a rate, no more than 100 letters a second go out, and none at once.
func TestRedriveRateByDefault(t *testing.T) {
	w := newLetterWorld(t, nil)
	const n = 150
	w.deadOf(n, []byte(`{}`))
	begun := time.Now()
	got, _ := w.redrive(`{"all":true}`)
	if took := time.Since(begun); got.Redriven != n || took < (n-1)*time.Second/100 {
		t.Errorf("%d of %d were redriven within %v", got.Redriven, n, took)
	}
}

// TestRedriveSlowlyOfLargeLetters: a slow redrive has one flight at a time. A page whose contents do
// not fit into one is written in parts, and none of it is passed over. Each is refused here: the limit
// of a payload is 4 KiB in this world.
func TestRedriveSlowlyOfLargeLetters(t *testing.T) {
	w := newLetterWorld(t, nil)
	const n = 30
	payload := []byte(`"` + strings.Repeat("x", maxRedriveBytes/10) + `"`)
	w.deadOf(n, payload)
	got, refused := w.redrive(`{"code":"http_500","rate":50}`)
	if got.Matched != n || got.Redriven+got.Refused != n || got.Cursor != "" || int64(len(refused)) != got.Refused {
		t.Errorf("%+v, %d refused", got, len(refused))
	}
}

// The contents of a page that are in memory at once are bounded, and there is always one.
func TestRedriveContentsBounded(t *testing.T) {
	record := func(offset int64, size int) *kgo.Record {
		return &kgo.Record{Offset: offset, Value: make([]byte, size)}
	}
	var letters []topics.Letter
	c := letterContents{ahead: map[int32][]*kgo.Record{}}
	for i := range int64(20) {
		letters = append(letters, topics.Letter{Offset: i})
		c.ahead[0] = append(c.ahead[0], record(i, 1<<20))
	}
	c.ahead[0][19] = record(19, 2*maxRedriveBytes)
	for _, want := range []int{4, 4, 4, 4, 4} {
		got, err := c.some(t.Context(), letters)
		if err != nil || len(got) != want || got[0].Offset != letters[0].Offset {
			t.Fatalf("%d records, %v; want %d", len(got), err, want)
		}
		letters = letters[want:]
	}
}

// What cannot be redriven is a line of its own, or the answer if it is alone; the
// others go on.
func TestRedriveOfWhatCannotBe(t *testing.T) {
	w := newLetterWorld(t, nil)
	w.dead(idKey("erased"), "http_500")
	w.dead(idKey("fine"), "http_500")
	big := w.deadRecord(idKey("big"), "http_500")
	big.Headers = append(big.Headers, kgo.RecordHeader{Key: "wc-error-truncated", Value: []byte("9000000")})
	if err := w.cl.ProduceSync(context.Background(), big).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.engine.set(func() {
		w.engine.states[idKey("erased")] = &trigger.State{Key: idKey("erased"), Status: trigger.Erased, Revision: 1}
	})
	got, refused := w.redrive(`{"all":true,"rate":1000}`)
	if got.Redriven != 1 || got.Refused != 2 || len(refused) != 2 {
		t.Errorf("%+v, %v", got, refused)
	}
	w.must(http.StatusNotFound, http.MethodPost, "/v1/dead-letters:redrive", `{"trigger_id":"erased"}`)
	a := w.must(http.StatusRequestEntityTooLarge, http.MethodPost, "/v1/dead-letters:redrive", `{"trigger_id":"big"}`)
	if a.get(t, "code") != "too_large" || a.get(t, "trigger_id") != "big" {
		t.Error(a.body)
	}
}

// Contents are found wherever they stand among markers, aborted records and other
// letters, and one that the topic has dropped is told.
func TestRedriveReadsFromAnyOffset(t *testing.T) {
	w := newLetterWorld(t, nil)
	for i := range 60 {
		w.dead(idKey(fmt.Sprintf("k%d", i)), fmt.Sprintf("c%d", i%7))
	}
	w.ids("") // all are there
	for i := range 7 {
		got, refused := w.redrive(fmt.Sprintf(`{"code":"c%d","rate":1000}`, 6-i))
		if got.Redriven+got.Refused != got.Matched || len(refused) > 0 {
			t.Errorf("c%d: %+v %v", 6-i, got, refused)
		}
	}
	if n := w.redrives(); n != 60 {
		t.Errorf("%d of 60 went out again", n)
	}
	w.dead(idKey("gone"), "gone")
	w.ids("")
	admin := kadm.NewClient(w.cl)
	ends, err := admin.ListEndOffsets(context.Background(), topics.Names{}.DeadLetter())
	if err == nil {
		_, err = admin.DeleteRecords(context.Background(), ends.Offsets())
	}
	if err != nil {
		t.Fatal(err)
	}
	got, refused := w.redrive(`{"code":"gone"}`)
	if got.Refused != 1 || len(refused) != 1 || !strings.Contains(refused[0], "no longer has its content") {
		t.Errorf("of a letter that the topic has dropped: %+v %v", got, refused)
	}
}
