package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/topics"
)

// happens commits a turn of a partition with facts of a tenant's triggers.
func (w *world) happens(partition int32, tenant string, triggers ...string) {
	w.t.Helper()
	w.engine.set(func() {
		now := time.Now().UnixMilli()
		turn := w.engine.live[partition].Begin(now)
		for i, id := range triggers {
			if turn.Wants(tenant) {
				e := topics.Event{Type: "occurrence.fired", Trigger: id, Tenant: tenant, Seq: int64(i + 1)}
				b, _ := json.Marshal(e)
				turn.Keep(tenant, b)
			}
		}
		w.engine.live[partition].Commit(now, turn)
	})
}

// streamed is one event of a stream.
type streamed struct{ id, name, data string }

func (s streamed) state(t *testing.T) (of LiveState) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.data), &of); err != nil || s.name != "state" {
		t.Fatalf("%+v: %v", s, err)
	}
	return of
}

// watching is an open stream.
type watching struct {
	t      *testing.T
	lines  *bufio.Scanner
	status int
	body   string
	leave  func()
}

func watch(t *testing.T, base string, header ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req, _ := http.NewRequestWithContext(ctx, "GET", base+"/v1/live", nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	w := &watching{t: t, lines: bufio.NewScanner(resp.Body), status: resp.StatusCode, leave: cancel}
	if resp.StatusCode != http.StatusOK {
		for w.lines.Scan() {
			w.body += w.lines.Text()
		}
	}
	return w
}

// next is the next event; ok is false at the end of the stream.
func (w *watching) next() (s streamed, ok bool) {
	for w.lines.Scan() {
		name, value, _ := strings.Cut(w.lines.Text(), ": ")
		switch name {
		case "id":
			s.id = value
		case "event":
			s.name = value
		case "data":
			s.data = value
		case "":
			return s, true
		}
	}
	return s, false
}

func (w *watching) named(name string) streamed {
	w.t.Helper()
	for {
		s, ok := w.next()
		if !ok {
			w.t.Fatalf("the stream ended before %s: %v", name, w.lines.Err())
		}
		if s.name == name {
			return s
		}
	}
}

// A stream begins with the state. Then it has each fact of any partition, at any instance, once.
func TestLive(t *testing.T) {
	w, urls, _ := newCluster(t)
	w.counts(0, time.Now(), "default", "push", 3, 4)
	var open []*watching
	for _, u := range urls {
		s := watch(t, u)
		first, _ := s.next()
		of := first.state(t)
		if of.Partitions != testPartitions || of.Ready != testPartitions || len(of.Silent) != 0 || of.Missed ||
			of.Fires != 2 || *of.P99 != 4 || *of.Pending != 40 || *of.CommandsLag != 8 || *of.Overdue != 1.5 {
			t.Errorf("%s begins with %s", u, first.data)
		}
		open = append(open, s)
	}
	for p := range int32(testPartitions) {
		w.happens(p, "default", fmt.Sprint("t", p))
	}
	for i, s := range open {
		seen := map[string]int{}
		var counted int64
		for len(seen) < testPartitions || counted < testPartitions {
			e, ok := s.next()
			if !ok {
				t.Fatalf("instance %d: the stream ended with %v", i, seen)
			}
			if e.name == "state" {
				of := e.state(t)
				if counted += of.Facts; of.Omitted != 0 || of.Missed {
					t.Errorf("instance %d: %s", i, e.data)
				}
				continue
			}
			var fact topics.Event
			err := json.Unmarshal([]byte(e.data), &fact)
			if err != nil || e.name != "fact" || !eventID.MatchString(e.id) {
				t.Fatalf("instance %d: %+v: %v", i, e, err)
			}
			if seen[fact.Trigger]++; seen[fact.Trigger] > 1 {
				t.Errorf("instance %d: %s twice", i, fact.Trigger)
			}
		}
	}
}

// What names no trigger is for operators, of whatever tenant. Nobody else gets it.
func TestLiveNameless(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = roleKeys(t) })
	operator, reader := watch(t, w.url, as("operator")...), watch(t, w.url, as("reader")...)
	operator.named("state")
	reader.named("state")
	w.happens(1, live.Nameless, "")
	w.happens(1, "acme", "acme/one")
	got := map[string]string{}
	for len(got) < 2 {
		e := operator.named("fact")
		var fact topics.Event
		if err := json.Unmarshal([]byte(e.data), &fact); err != nil {
			t.Fatal(err)
		}
		got[fact.Trigger] = e.id
	}
	if id, is := got[""]; !is || id != "" || !eventID.MatchString(got["acme/one"]) {
		t.Errorf("an operator gets %v", got)
	}
	if e := reader.named("fact"); !strings.Contains(e.data, "acme/one") {
		t.Errorf("a reader gets %s", e.data)
	}
}

// Between two states there are at most 20 facts, and all others are counted.
func TestLiveOmits(t *testing.T) {
	w := newWorld(t, nil)
	s := watch(t, w.url)
	s.named("state")
	for p := range int32(testPartitions) {
		w.happens(p, "default", make([]string, 30)...)
	}
	var facts, all, omitted int64
	for all < 4*30 {
		e, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if e.name == "fact" {
			if facts++; facts > factsPerState {
				t.Errorf("%d facts between two states", facts)
			}
			continue
		}
		of := e.state(t)
		if of.Facts-of.Omitted != facts {
			t.Errorf("%d facts were sent, and it says %s", facts, e.data)
		}
		all, omitted, facts = all+of.Facts, omitted+of.Omitted, 0
	}
	if all != 120 || omitted < 120-3*factsPerState {
		t.Errorf("%d facts, %d omitted", all, omitted)
	}
}

// Operators have facts of two feeds: of their tenant, and what names no trigger. Together they are at most 20, too.
func TestLiveOmitsOfTwoFeeds(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = roleKeys(t) })
	s := watch(t, w.url, as("operator")...)
	s.named("state")
	for p := range int32(testPartitions) {
		w.happens(p, "acme", make([]string, 15)...)
		w.happens(p, live.Nameless, make([]string, 15)...)
	}
	var facts, all int64
	for all < 2*15*testPartitions {
		e, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if e.name == "fact" {
			facts++
			continue
		}
		of := e.state(t)
		if facts > factsPerState || of.Facts-of.Omitted != facts {
			t.Errorf("%d facts between two states, and it says %s", facts, e.data)
		}
		all, facts = all+of.Facts, 0
	}
}

// What names no trigger has no id, so nobody goes on behind it. An operator who comes back is told that there was some.
func TestLiveMissesNameless(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = roleKeys(t) })
	missed := func(role, id string) bool {
		s := watch(t, w.url, append(as(role), lastEventID, id)...)
		defer s.leave()
		first, _ := s.next()
		return first.state(t).Missed
	}
	s := watch(t, w.url, as("operator")...)
	s.named("state")
	w.happens(1, live.Nameless, "")
	s.named("fact")
	w.happens(0, "acme", "acme/a")
	id := s.named("fact").id
	if missed("operator", id) {
		t.Error("it was before the last fact")
	}
	w.happens(1, live.Nameless, "")
	s.named("fact")
	if !missed("operator", id) || missed("reader", id) {
		t.Error("it was after the last fact, which is an operator's to know")
	}
}

// Who comes back with the id of the last fact misses none, and gets none twice. Where the facts
// between are not known, the stream says so.
func TestLiveGoesOn(t *testing.T) {
	w := newWorld(t, nil)
	s := watch(t, w.url)
	s.named("state")
	w.happens(0, "default", "a")
	id := s.named("fact").id
	s.leave()
	other := watch(t, w.url)
	other.named("state")
	w.happens(1, "default", "b")
	other.named("fact")
	back := watch(t, w.url, lastEventID, id)
	if first, _ := back.next(); first.state(t).Missed {
		t.Errorf("it is all there: %s", first.data)
	}
	if e, _ := back.next(); e.name != "fact" || !strings.Contains(e.data, `"b"`) {
		t.Errorf("after a comes %+v", e)
	}
	for _, unknown := range []string{"0123456789abcdef-1", id[:17] + "999999", id[:17] + "999999999999999999"} {
		b := watch(t, w.url, lastEventID, unknown)
		if first, _ := b.next(); !first.state(t).Missed {
			t.Errorf("after %s: %s", unknown, first.data)
		}
	}
	for _, bad := range []string{
		"x", "0", id + "x", id[:17], id[:17] + "-1", id[:17] + "1000000000000000000", strings.Repeat("1", 9000),
	} {
		b := watch(t, w.url, lastEventID, bad)
		if b.status != http.StatusBadRequest || !strings.Contains(b.body, `"field":"Last-Event-ID"`) {
			t.Errorf("%.40q: %d %s", bad, b.status, b.body)
		}
	}
	for _, bad := range []string{"?n=0", "?n=86401", "?n=x", "?x=1"} {
		w.must(http.StatusBadRequest, "GET", "/v1/live"+bad, "")
	}
	if a := w.must(http.StatusOK, "GET", "/v1/live?n=2", ""); strings.Count(a.body, "event: state\n") != 2 {
		t.Errorf("n=2: %s", a.body)
	}
	w.must(http.StatusOK, "HEAD", "/v1/live", "")
}

// A partition that does not answer is named, and delays no other.
func TestLiveOfASilentPartition(t *testing.T) {
	w := newWorld(t, nil)
	s := watch(t, w.url)
	s.named("state")
	w.engine.set(func() { w.engine.foreign[2] = true })
	for of := s.named("state").state(t); len(of.Silent) != 1; of = s.named("state").state(t) {
	}
	began := time.Now()
	w.happens(1, "default", "a")
	s.named("fact")
	t.Logf("a fact of another partition came after %v", time.Since(began))
	late := watch(t, w.url)
	if first, _ := late.next(); len(first.state(t).Silent) != 1 || first.state(t).Ready != testPartitions-1 {
		t.Errorf("it begins with %s", first.data)
	}
	w.engine.set(func() { w.engine.foreign[2] = false })
	for of := s.named("state").state(t); len(of.Silent) != 0; of = s.named("state").state(t) {
	}
}

// A new owner knows nothing of what was before: the stream says that facts may be missing.
func TestLiveOfANewOwner(t *testing.T) {
	w := newWorld(t, nil)
	s := watch(t, w.url)
	s.named("state")
	time.Sleep(2 * time.Millisecond)
	w.engine.set(func() { w.engine.live[2] = live.NewRecent() })
	for of := s.named("state").state(t); !of.Missed; of = s.named("state").state(t) {
	}
	if s.named("state").state(t).Missed {
		t.Error("it says so twice")
	}
	w.happens(2, "default", "a")
	if e := s.named("fact"); !strings.Contains(e.data, `"a"`) {
		t.Errorf("%+v", e)
	}
}

// A stream has its own tenant's facts alone, an operator's too; figures of all are an operator's.
func TestLiveOfTenants(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	w.counts(0, time.Now(), "acme", "push", 3)
	w.counts(0, time.Now(), "blue", "push", 3)
	streams := map[string]*watching{}
	for _, key := range []string{keyA, keyR, keyB, keyD, keyO} {
		streams[key] = watch(t, w.url, "Authorization", "Bearer "+key)
		of := streams[key].named("state").state(t)
		want := map[string]int64{keyA: 1, keyR: 1, keyB: 1, keyD: 0, keyO: 2}[key]
		if of.Fires != want || (of.Pending != nil) != (key == keyO) || (of.Overdue != nil) != (key == keyO) {
			t.Errorf("%s begins with %+v", key, of)
		}
	}
	w.happens(0, "acme", "acme/secret")
	w.happens(0, "blue", "blue/other")
	w.happens(1, "default", "mine")
	for key, want := range map[string]string{
		keyA: "acme/secret", keyR: "acme/secret", keyO: "acme/secret", keyB: "blue/other", keyD: "mine",
	} {
		s := streams[key]
		if e := s.named("fact"); !strings.Contains(e.data, `"trigger":"`+want+`"`) {
			t.Errorf("%s sees %+v", key, e)
		}
		for range 2 {
			if e, _ := s.next(); e.name != "state" {
				t.Errorf("%s also sees %+v", key, e)
			}
		}
	}
}

// A credential that is taken away, or has other rights, ends its stream; so does the end of the
// server.
func TestLiveEnds(t *testing.T) {
	defer func(d time.Duration) { admitEvery = d }(admitEvery)
	admitEvery = 20 * time.Millisecond
	keys := &keysOf{}
	set := func(lines string) { keys.set(t, lines) }
	eve, bob := strings.Repeat("e", 40), strings.Repeat("b", 40)
	set("acme " + eve + " viewer eve\nacme " + bob + " writer bob\n")
	w := newWorld(t, func(o *Options) { o.Auth = keys })
	streams := map[string]*watching{}
	for _, key := range []string{eve, bob} {
		streams[key] = watch(t, w.url, "Authorization", "Bearer "+key)
		streams[key].named("state")
	}
	ends := func(key string) {
		t.Helper()
		for {
			if _, ok := streams[key].next(); !ok {
				return
			}
		}
	}
	set("acme " + bob + " writer bob\n")
	ends(eve)
	if second := watch(t, w.url, "Authorization", "Bearer "+eve); second.status != http.StatusUnauthorized {
		t.Errorf("it begins once more: %d", second.status)
	}
	streams[bob].named("state")
	set("acme " + bob + " viewer bob\n")
	ends(bob)
	last := watch(t, w.url, "Authorization", "Bearer "+bob)
	last.named("state")
	streams[bob] = last
	w.server.stop()
	ends(bob)
}

// keysOf are keys that change.
type keysOf struct{ now atomic.Pointer[auth.Keys] }

func (k *keysOf) set(t *testing.T, lines string) {
	t.Helper()
	keys, err := auth.ReadKeys(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	k.now.Store(keys)
}

func (k *keysOf) Authenticate(r *http.Request) (auth.Caller, error) {
	return k.now.Load().Authenticate(r)
}

// A reader that does not read loses its stream, and is counted; others go on.
func TestLiveSlowReader(t *testing.T) {
	heard := &droppedStreams{}
	w := newWorld(t, func(o *Options) { o.Listener = heard })
	h := httptest.NewUnstartedServer(w.server.Handler())
	h.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
	h.Start()
	t.Cleanup(h.Close)
	deaf, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	_ = deaf.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprint(deaf, "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	good := watch(t, w.url)
	good.named("state")
	feed := func() (n int) {
		w.server.live.feeds.mu.Lock()
		defer w.server.live.feeds.mu.Unlock()
		return len(w.server.live.feeds.feeds["default"].readers)
	}
	eventually(t, "the other stream", func() bool { return feed() >= 2 })
	big := []byte(`"` + strings.Repeat("x", 4000) + `"`)
	eventually(t, "the end of the stream that nobody reads", func() bool {
		if heard.n.Load() > 0 {
			return true
		}
		w.server.live.feeds.mu.Lock()
		f := w.server.live.feeds.feeds["default"]
		f.room = 1
		for r := range f.readers {
			r.room = 1
		}
		f.add(big)
		w.server.live.feeds.mu.Unlock()
		good.named("fact")
		return false
	})
	good.named("state")
	if heard.n.Load() != 1 || feed() != 1 {
		t.Errorf("%d were dropped, %d are left", heard.n.Load(), feed())
	}
}

type droppedStreams struct {
	NoListener
	n atomic.Int64
}

func (d *droppedStreams) StreamDropped() { d.n.Add(1) }

// Streams are bounded, in all and for a tenant; without readers nobody is asked.
func TestLiveIsBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Followers = 2 })
	a, b := watch(t, w.url), watch(t, w.url)
	a.named("state")
	b.named("state")
	if third := watch(t, w.url); third.status != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", third.status)
	}
	a.leave()
	eventually(t, "the slot of a stream that has ended", func() bool {
		c := watch(t, w.url)
		if c.status == http.StatusOK {
			c.leave()
		}
		return c.status == http.StatusOK
	})
	b.leave()
	feeds := w.server.live.feeds
	idle := func() bool {
		feeds.mu.Lock()
		defer feeds.mu.Unlock()
		for _, f := range feeds.feeds {
			if len(f.readers) == 0 {
				f.unread = unreadStates
			}
		}
		return feeds.stop == nil && len(feeds.feeds) == 0
	}
	eventually(t, "the end of questions for nobody", idle)
	watch(t, w.url).named("state")
}

// What was asked for a feed that has ended since says nothing of the feed that has its name now: that one
// begins when every partition has been asked for it.
func TestLiveAnswersToAnEndedFeed(t *testing.T) {
	feeds := newWorld(t, nil).server.live.feeds
	feeds.stop = func() {} // nobody is asked but by this test
	ctx, cancel := context.WithCancel(t.Context())
	answer := &peer.LiveAnswer{News: []live.News{{Life: 7, Next: 3}}, State: &peer.LiveState{Ready: true}}
	asks := func() (all [testPartitions][]liveAsk) {
		feeds.feed("acme")
		for p := range all {
			all[p], _ = feeds.asks(int32(p))
		}
		return all
	}
	before := asks()
	feeds.mu.Lock()
	delete(feeds.feeds, "acme")
	feeds.mu.Unlock()
	now := asks()
	f := feeds.feed("acme")
	for p, ask := range before {
		feeds.take(ctx, int32(p), ask, answer, nil)
	}
	if f.waiting != testPartitions || f.parts[0].at.Life != 0 {
		t.Errorf("it still waits for %d partitions, and is at %+v", f.waiting, f.parts[0].at)
	}
	for p, ask := range now {
		feeds.take(ctx, int32(p), ask, answer, nil)
	}
	if f.waiting != 0 || f.parts[0].at.Life != 7 || feeds.silent[0] {
		t.Errorf("after its own: %d, %+v, %v", f.waiting, f.parts[0].at, feeds.silent)
	}
	cancel()
	feeds.take(ctx, 0, now[0], &peer.LiveAnswer{}, ctx.Err())
	if feeds.silent[0] || !feeds.states[0].Ready {
		t.Error("a question that was given up makes its partition silent")
	}
}

// Whoever sees no figures of all tenants learns, too, that something is late.
func TestLiveSaysLate(t *testing.T) {
	for ms, late := range map[int64]bool{0: false, 5000: false, 5001: true} {
		f := &liveFeed{parts: make([]livePart, 1)}
		text := string(f.state(&LiveState{}, []peer.LiveState{{OverdueMS: ms}}, false))
		if strings.Contains(text, `"late":true`) != late || strings.Contains(text, "oldest_overdue_seconds") {
			t.Errorf("%d ms overdue: %s", ms, text)
		}
	}
}
