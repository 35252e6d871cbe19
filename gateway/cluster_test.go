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

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/lateness"
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
		return nil, peer.ErrNoOwner
	}
	return s.engine.Get(ctx, key)
}

func (s share) Decision(ctx context.Context, key trigger.Key, p int32, offset int64) (peer.Decision, bool, error) {
	if !s.owns(topics.Partition([]byte(key), testPartitions)) {
		return peer.Decision{}, false, peer.ErrNoOwner
	}
	return s.engine.Decision(ctx, key, p, offset)
}

func (s share) Scan(ctx context.Context, p int32, after trigger.Key, f func(*trigger.State) bool) error {
	if !s.owns(p) {
		return peer.ErrNoOwner
	}
	return s.engine.Scan(ctx, p, after, f)
}

func (s share) ScanUser(ctx context.Context, p int32, tenant, user string, after peer.UserCursor,
	f func(peer.UserCursor, *trigger.State) bool,
) error {
	if !s.owns(p) {
		return peer.ErrNoOwner
	}
	return s.engine.ScanUser(ctx, p, tenant, user, after, f)
}

func (s share) Stale() peer.Owner { return s }

func (s share) Lateness(
	ctx context.Context, p int32, now trigger.Instant, w lateness.Window, tenant string,
) (lateness.Report, error) {
	if !s.owns(p) {
		return lateness.Report{}, peer.ErrNoOwner
	}
	return s.engine.Lateness(ctx, p, now, w, tenant)
}

func (s share) Live(ctx context.Context, p int32, q *peer.LiveQuery) (peer.LiveAnswer, error) {
	if !s.owns(p) {
		return peer.LiveAnswer{}, peer.ErrNoOwner
	}
	return s.engine.Live(ctx, p, q)
}

func (s share) Forecast(ctx context.Context, p int32, q forecast.Query) (forecast.Answer, error) {
	if !s.owns(p) {
		return forecast.Answer{}, peer.ErrNoOwner
	}
	return s.engine.Forecast(ctx, p, q)
}

func (s share) Reconcile(ctx context.Context, p int32, dry bool) (peer.Reconciled, error) {
	if !s.owns(p) {
		return peer.Reconciled{}, peer.ErrNoOwner
	}
	return s.engine.Reconcile(ctx, p, dry)
}

func (s share) Partitions() []peer.PartitionStatus {
	return slices.DeleteFunc(s.engine.Partitions(), func(p peer.PartitionStatus) bool { return !s.owns(p.Partition) })
}

// announce commits progress records as an owner's turn does: inside a
// transaction, behind other records.
func (w *world) announce(partition int32, addr string, term int64) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(fmt.Sprintf("t-%d", partition)))
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
		records := []*kgo.Record{
			{Topic: topic, Partition: partition, Key: []byte("x"), Value: []byte("y")},
			{Topic: topic, Partition: partition, Key: topics.KeyProgress, Value: value},
		}
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
func newCluster(t *testing.T) (*world, []string, []string) { return newClusterWith(t, nil) }

// newClusterWith is newCluster with other options.
func newClusterWith(t *testing.T, change func(*Options)) (*world, []string, []string) {
	w := newWorld(t, change)
	var urls, addrs []string
	for i := range 3 {
		var own peer.Owner
		if i < 2 {
			own = share{w.engine, func(p int32) bool { return int(p%2) == i }}
		}
		internal := httptest.NewUnstartedServer(nil)
		addr := internal.Listener.Addr().String()
		s, u := w.gateway(own, func(o *Options) {
			if o.PeerSecret, o.Address = []byte(secret), addr; change != nil {
				change(o)
			}
		})
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
		if a := w.callAt(through, "PUT", "/v1/triggers/"+id,
			at(`,"user_id":"u","tags":{"n":"`+fmt.Sprint(i%2)+`"}`)); a.status != http.StatusCreated {
			t.Fatalf("register %s: %d %s", id, a.status, a.body)
		}
		for _, u := range urls {
			if a := w.callAt(u, "GET", "/v1/triggers/"+id, ""); a.status != http.StatusOK ||
				a.get(t, "trigger_id") != id {
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
				// cursors hold at any instance
				a := w.callAt(urls[(i+len(bodies))%3], "GET", "/v1/triggers?"+q+cursor, "")
				if a.status != http.StatusOK {
					t.Fatalf("list: %d %s", a.status, a.body)
				}
				bodies = append(bodies, a.body)
				if a.get(t, "next_cursor") == "" {
					break
				}
				cursor = "&cursor=" + url.QueryEscape(a.get(t, "next_cursor"))
			}
			if n := strings.Count(strings.Join(bodies, ""), `"trigger_id"`); n != map[bool]int{
				true:  6,
				false: 12,
			}[strings.HasPrefix(q, "tag")] {
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
	internal := httptest.NewUnstartedServer(nil)
	takes, _ := w.gateway(nil, func(o *Options) {
		o.PeerSecret, o.Address = []byte(secret), internal.Listener.Addr().String()
	})
	takes.opts.Owner = share{w.engine, func(q int32) bool { return q == p }}
	internal.Config.Handler = takes.InternalHandler()
	internal.Start()
	defer internal.Close()
	w.engine.set(func() { w.engine.foreign[p] = true }) // nobody, for now
	began := time.Now()
	a := w.callAt(urls[2], "GET", "/v1/triggers/"+id, "")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" ||
		a.get(t, "code") != "not_owner" {
		t.Errorf("without an owner: %d %s", a.status, a.body)
	}
	if waited := time.Since(began); waited < peer.SearchTimeout {
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
			_, u := w.gateway(nil, func(o *Options) {
				o.PeerSecret, o.AnswerWithin = []byte(secret),
					200*time.Millisecond
			})
			for _, c := range []struct {
				method, path, body, ifMatch string
				want                        int
			}{
				{"GET", "/v1/triggers/x", "", "", 503},
				{"GET", "/v1/triggers", "", "", 503},
				{"PATCH", "/v1/triggers/x", `{"payload":1}`, "", 503},
				{"PUT", "/v1/triggers/x", at(""), "*", 503},
				{"PUT", "/v1/triggers/x", at(""), "", 202},
			} {
				a := w.callAt(u, c.method, c.path, c.body, map[bool]string{true: "If-Match"}[c.ifMatch != ""],
					c.ifMatch)
				if a.status != c.want || c.want == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
					t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
				}
			}
		})
	}
}
