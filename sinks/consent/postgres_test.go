package consent

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workertest"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/postgres"
	"github.com/waterclock/waterclock/test/services"
)

// relay is a proxy between a store and its server. It can stall, and cut open connections.
type relay struct {
	ln net.Listener
	to string

	mu      sync.Mutex
	stalled chan struct{} // while it is open, nothing passes
	refuse  bool          // new connections are closed at once
	open    map[net.Conn]bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		ln.Close()
		r.flow()
		r.cut()
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	r.mu.Lock()
	refuse := r.refuse
	r.mu.Unlock()
	if refuse {
		return
	}
	server, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.open[c], r.open[server] = true, true
	r.mu.Unlock()
	go func() {
		defer c.Close()
		r.pass(c, server)
	}()
	r.pass(server, c)
}

func (r *relay) pass(to io.Writer, from io.Reader) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		stalled := r.stalled
		r.mu.Unlock()
		if stalled != nil {
			<-stalled
		}
		if _, e := to.Write(b[:n]); err != nil || e != nil {
			return
		}
	}
}

func (r *relay) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalled = make(chan struct{})
}

func (r *relay) flow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stalled != nil {
		close(r.stalled)
		r.stalled = nil
	}
}

// down sets whether connections are refused.
func (r *relay) down(refuse bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

// cut ends every connection.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		c.Close()
	}
	clear(r.open)
}

// until bounds how long a test waits for an expected result.
const until = 60 * time.Second

// eventually requests verdicts on new events until the expected one comes.
func eventually(t *testing.T, g *Gate, want string, opts ...workertest.EventOption) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(until); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got = words(g.Of(t.Context(), event(opts...))); got == want {
			return
		}
	}
	t.Fatalf("%s, want %s", got, want)
}

// PostgreSQL stalls, is down, and flaps. High is sent without preferences, and the rest waits.
// When PostgreSQL is back, the preferences apply, and the earlier claims still exist.
func TestPostgresAway(t *testing.T) {
	at, err := url.Parse(services.PostgresDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, at.Host)
	at.Host = r.ln.Addr().String()
	store, err := postgres.New(postgres.Options{URL: at.String(), Within: until})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := preferences.Decode([]byte(`{"opted_out_channels":["push"]}`), calendar.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), preferences.User{Tenant: "default", ID: "out"}, out); err != nil {
		t.Fatal(err)
	}
	g := New(Options{Store: store, Channel: "push", DedupWindow: time.Hour})
	const opted, postponed = "suppressed opted_out", "postponed preferences_away 30s"
	user, other := workertest.User("out"), workertest.User("in")
	eventually(t, g, opted, user)
	eventually(t, g, "send", other, key("a"), ofType("x"))

	for _, fault := range []struct {
		name        string
		begin, over func()
	}{
		{"stalled", r.stall, r.flow},
		{"cut", func() { r.down(true); r.cut() }, func() { r.down(false) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.begin()
			eventually(t, g, postponed, user)
			for range 5 {
				if got := words(g.Of(t.Context(), event(user))); got != postponed {
					t.Errorf("while it is away: %s", got)
				}
				if got := words(g.Of(t.Context(), event(other, workertest.High()))); got != "send "+CodeUnread {
					t.Errorf("high, while it is away: %s", got)
				}
			}
			fault.over()
			eventually(t, g, opted, user)
			eventually(t, g, "send", other, key("a"), ofType("x")) // from its earlier claim
			eventually(t, g, "suppressed duplicate", other, key(fault.name), ofType("x"))
		})
	}

	// It flaps: every verdict is that of the user, or that of an unavailable store.
	for i := range 20 {
		if i%2 == 0 {
			r.cut()
		}
		if got := words(g.Of(t.Context(), event(user))); got != opted && got != postponed {
			t.Errorf("while it flaps: %s", got)
		}
	}
	eventually(t, g, opted, user)
}

// BenchmarkPostgresBatch measures a batch of 500 users on PostgreSQL, with and without the
// limits.
func BenchmarkPostgresBatch(b *testing.B) {
	store, err := postgres.New(postgres.Options{URL: services.PostgresDatabase(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	if err := store.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	for name, o := range map[string]Options{
		"preferences": {}, "limits": {DedupWindow: time.Hour, MaxPerUser: []Cap{{Most: 5, Within: time.Hour}}},
	} {
		b.Run(name, func(b *testing.B) {
			o.Store, o.Channel, o.Within = store, "push", time.Second
			g, n := New(o), 0
			for b.Loop() {
				events := make([]*worker.DueEvent, 500)
				for i := range events {
					n++
					events[i] = event(key(fmt.Sprint(name, n)), workertest.User(fmt.Sprint("u", n%5000)), ofType("x"))
				}
				if g.OnBatch(b.Context(), events).(*batch).away {
					b.Fatal("the store was away")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/500, "µs/event")
		})
	}
}
