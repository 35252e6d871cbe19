package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const secret = "a secret of the cluster"

// share is the part of an engine that one instance owns.
type share struct {
	*engine
	owns func(partition int32) bool
}

func (s share) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	if !s.owns(topics.Partition([]byte(key), testPartitions)) {
		return nil, errNoOwner
	}
	return s.engine.Get(ctx, key)
}

func (s share) Outcome(ctx context.Context, key trigger.Key, p int32, offset int64) (Decided, bool, error) {
	if !s.owns(topics.Partition([]byte(key), testPartitions)) {
		return Decided{}, false, errNoOwner
	}
	return s.engine.Outcome(ctx, key, p, offset)
}

func (s share) Scan(ctx context.Context, p int32, after trigger.Key, f func(*trigger.State) bool) error {
	if !s.owns(p) {
		return errNoOwner
	}
	return s.engine.Scan(ctx, p, after, f)
}

func (s share) ScanUser(ctx context.Context, p int32, tenant, user string, after UserCursor, f func(UserCursor, *trigger.State) bool) error {
	if !s.owns(p) {
		return errNoOwner
	}
	return s.engine.ScanUser(ctx, p, tenant, user, after, f)
}

func (s share) Partitions() []PartitionStatus {
	return slices.DeleteFunc(s.engine.Partitions(), func(p PartitionStatus) bool { return !s.owns(p.Partition) })
}

// announce commits progress records as an owner's turn does: inside a
// transaction, behind other records.
func (w *world) announce(partition int32, addr string, term int64) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(fmt.Sprintf("t-%d", partition)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	for _, commit := range []bool{true, false} { // then one more that is aborted
		value, err := topics.AppendProgress(nil, &topics.Progress{Owner: addr, Term: term, NextCommand: 7})
		if !commit {
			value, err = topics.AppendProgress(nil, &topics.Progress{Owner: "127.0.0.1:1", Term: term + 1})
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if err := cl.BeginTransaction(); err != nil {
			w.t.Fatal(err)
		}
		topic := topics.Names{}.State()
		records := []*kgo.Record{{Topic: topic, Partition: partition, Key: []byte("x"), Value: []byte("y")}, {Topic: topic, Partition: partition, Key: topics.KeyProgress, Value: value}}
		if err := cl.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
		if err := producer.EndTransaction(w.t.Context(), cl, kgo.TransactionEndTry(commit), records...); err != nil {
			w.t.Fatal(err)
		}
	}
}

var internalCalls atomic.Int64

// cluster is two instances, each owning half of the partitions, and a third
// that owns none. Their URLs are in that order.
func newCluster(t *testing.T) (*world, []string, []string) {
	w := newWorld(t, nil)
	var urls, addrs []string
	for i := range 3 {
		var own Owner
		if i < 2 {
			own = share{w.engine, func(p int32) bool { return int(p%2) == i }}
		}
		internal := httptest.NewUnstartedServer(nil)
		addr := internal.Listener.Addr().String()
		s, u := w.gateway(own, func(o *Options) { o.PeerSecret, o.Address = []byte(secret), addr })
		if own != nil {
			h := s.InternalHandler()
			internal.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				internalCalls.Add(1)
				h.ServeHTTP(w, r)
			})
			internal.Start()
		}
		t.Cleanup(internal.Close)
		urls, addrs = append(urls, u), append(addrs, addr)
	}
	for p := range int32(testPartitions) {
		w.announce(p, addrs[p%2], 5)
	}
	return w, urls, addrs
}

func TestAnyInstanceAnswers(t *testing.T) {
	w, urls, _ := newCluster(t)
	for i := range 12 {
		id, through := fmt.Sprintf("k%02d", i), urls[i%3]
		if a := w.callAt(through, "PUT", "/v1/triggers/"+id, at(`,"user_id":"u","tags":{"n":"`+fmt.Sprint(i%2)+`"}`)); a.status != http.StatusCreated {
			t.Fatalf("register %s: %d %s", id, a.status, a.body)
		}
		for _, u := range urls {
			if a := w.callAt(u, "GET", "/v1/triggers/"+id, ""); a.status != http.StatusOK || a.get(t, "trigger_id") != id {
				t.Fatalf("read %s: %d %s", id, a.status, a.body)
			}
			if a := w.callAt(u, "PUT", "/v1/triggers/"+id, at(`,"if_absent":true`)); a.status != http.StatusConflict {
				t.Fatalf("refusal of %s: %d %s", id, a.status, a.body)
			}
		}
	}
	for i, u := range urls {
		if a := w.callAt(u, "GET", "/v1/triggers/none", ""); a.status != http.StatusNotFound {
			t.Errorf("instance %d, unknown: %d", i, a.status)
		}
		for _, q := range []string{"limit=5", "limit=5&user_id=u", "tag=n:1"} {
			var bodies []string
			for cursor := ""; ; {
				a := w.callAt(urls[(i+len(bodies))%3], "GET", "/v1/triggers?"+q+cursor, "") // cursors hold at any instance
				if a.status != http.StatusOK {
					t.Fatalf("list: %d %s", a.status, a.body)
				}
				bodies = append(bodies, a.body)
				if a.get(t, "next_cursor") == "" {
					break
				}
				cursor = "&cursor=" + url.QueryEscape(a.get(t, "next_cursor"))
			}
			if n := strings.Count(strings.Join(bodies, ""), `"trigger_id"`); n != map[bool]int{true: 6, false: 12}[strings.HasPrefix(q, "tag")] {
				t.Errorf("instance %d, %s: %d items", i, q, n)
			}
		}
		if a := w.callAt(u, "GET", "/v1/upcoming?bucket=366d&n=100", ""); strings.Count(a.body, `"count":12`) != 1 {
			t.Errorf("instance %d: upcoming %.300s", i, a.body)
		}
		if a := w.callAt(u, "GET", "/v1/partitions", ""); strings.Count(a.body, `"ready":true`) != testPartitions {
			t.Errorf("instance %d: partitions %s", i, a.body)
		}
	}
}

// A partition that moves is found by the record its new owner commits.
func TestPartitionsMove(t *testing.T) {
	w, urls, addrs := newCluster(t)
	const id = "moving"
	p := topics.Partition([]byte(id), testPartitions)
	if a := w.callAt(urls[2], "PUT", "/v1/triggers/"+id, at("")); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	takes, _ := w.gateway(nil, func(o *Options) { o.PeerSecret = []byte(secret) })
	takes.opts.Owner = share{w.engine, func(q int32) bool { return q == p }}
	internal := httptest.NewServer(takes.InternalHandler())
	defer internal.Close()
	w.engine.set(func() { w.engine.foreign[p] = true }) // nobody, for now
	began := time.Now()
	a := w.callAt(urls[2], "GET", "/v1/triggers/"+id, "")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.get(t, "code") != "not_owner" {
		t.Errorf("without an owner: %d %s", a.status, a.body)
	}
	if waited := time.Since(began); waited < lookFor {
		t.Errorf("gave up after %s", waited)
	}
	answered := make(chan answer, 1)
	go func() { answered <- w.callAt(urls[2], "GET", "/v1/triggers/"+id, "") }()
	w.announce(p, strings.TrimPrefix(internal.URL, "http://"), 6)
	w.engine.set(func() { delete(w.engine.foreign, p) })
	if a := <-answered; a.status != http.StatusOK {
		t.Errorf("after the move: %d %s (addresses %v)", a.status, a.body, addrs)
	}
}

// Reads of a partition whose owner has died, or breaks off, are to be repeated:
// there will be another. Writes are durable.
func TestOwnerThatIsGone(t *testing.T) {
	w := newWorld(t, nil)
	breaks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("["))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer breaks.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for name, base := range map[string]string{"dead": dead.URL, "breaks off": breaks.URL, "no address": "http://a b"} {
		t.Run(name, func(t *testing.T) {
			for p := range int32(testPartitions) {
				w.announce(p, strings.TrimPrefix(base, "http://"), 5)
			}
			_, u := w.gateway(nil, func(o *Options) { o.PeerSecret, o.AnswerWithin = []byte(secret), 200*time.Millisecond })
			for _, c := range []struct {
				method, path, body, ifMatch string
				want                        int
			}{
				{"GET", "/v1/triggers/x", "", "", 503}, {"GET", "/v1/triggers", "", "", 503}, {"PATCH", "/v1/triggers/x", `{"payload":1}`, "", 503},
				{"PUT", "/v1/triggers/x", at(""), "*", 503}, {"PUT", "/v1/triggers/x", at(""), "", 202},
			} {
				a := w.callAt(u, c.method, c.path, c.body, map[bool]string{true: "If-Match"}[c.ifMatch != ""], c.ifMatch)
				if a.status != c.want || c.want == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
					t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
				}
			}
		})
	}
}

// An owner that is known, and is none any more, is looked for anew and not asked
// for ever.
func TestAskLooksAgain(t *testing.T) {
	now := "old:1"
	r := &Router{partitions: 1, owners: &ownerTable{lookUp: func(context.Context, int32) (owner, error) { return owner{addr: now}, nil }}}
	ask := func() (last string, err error) {
		err = r.ask(t.Context(), 0, time.Second, nil, func(addr string) error {
			if last = addr; addr != now {
				return errNoOwner
			}
			return nil
		})
		return last, err
	}
	if addr, err := ask(); addr != "old:1" || err != nil {
		t.Errorf("%s answered, %v", addr, err)
	}
	now = "new:1"
	if addr, err := ask(); addr != "new:1" || err != nil {
		t.Errorf("after the move %s answered, %v", addr, err)
	}
}

func TestInternalAPIRefuses(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.PeerSecret = []byte(secret) })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/a", at(""))
	h := w.server.InternalHandler()
	const path = internalPath + "trigger?key=a"
	now := time.Now()
	for _, c := range []struct {
		name, path, bearer string
		want               int
	}{
		{"right", path, signPeer([]byte(secret), path, now), 200},
		{"none", path, "", 401},
		{"another secret", path, signPeer([]byte("another secret of 16"), path, now), 401},
		{"another path", path, signPeer([]byte(secret), internalPath+"trigger?key=b", now), 401},
		{"old", path, signPeer([]byte(secret), path, now.Add(-2*peerSkew)), 401},
		{"ahead", path, signPeer([]byte(secret), path, now.Add(2*peerSkew)), 401},
		{"garbled", path, "1.zz", 401},
		{"no such question", internalPath + "x", signPeer([]byte(secret), internalPath+"x", now), 404},
		{"no partition", internalPath + "find?x=1", signPeer([]byte(secret), internalPath+"find?x=1", now), 500},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.Header.Set("Authorization", "Bearer "+c.bearer)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != c.want {
			t.Errorf("%s: status %d, want %d", c.name, rec.Code, c.want)
		}
	}
	w.engine.set(func() { w.engine.foreign[topics.Partition([]byte("a"), testPartitions)] = true })
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Authorization", "Bearer "+signPeer([]byte(secret), path, now))
	rec := httptest.NewRecorder()
	if h.ServeHTTP(rec, r); rec.Code != http.StatusMisdirectedRequest {
		t.Errorf("not the owner: status %d", rec.Code)
	}
}

// A peer that breaks off in the middle must not look like a short list.
func TestBrokenPage(t *testing.T) {
	page := Page{Items: []Found{{UserCursor{5, "a"}, &trigger.State{Key: "a", Status: trigger.Pending, Revision: 3}}}, Through: UserCursor{5, "a"}, More: true}
	var b strings.Builder
	if err := writePage(&b, &page); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		if _, err := readPage(strings.NewReader(b.String()[:n])); err == nil {
			t.Errorf("%d of %d bytes read as a page", n, b.Len())
		}
	}
	got, err := readPage(strings.NewReader(b.String()))
	if err != nil || len(got.Items) != 1 || got.Items[0].State.Revision != 3 || got.Items[0].At != page.Items[0].At || got.Through != page.Through || !got.More {
		t.Errorf("read %+v, %v", got, err)
	}
}
