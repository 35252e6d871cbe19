package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/config"
)

// TestStopWithFrozenBrokers: SIGTERM arrives while the brokers accept connections but never
// answer. The process ends within stop.timeout and names what had not ended.
func TestStopWithFrozenBrokers(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	frozen, thaw := atomic.Bool{}, make(chan struct{})
	t.Cleanup(func() { close(thaw); cluster.Close() })
	cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if frozen.Load() {
			<-thaw // blocks the cluster's only goroutine, so that nothing is answered
		}
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, served := serve(ctx, t, "WATERCLOCK_BROKERS="+strings.Join(cluster.ListenAddrs(), ","),
		"WATERCLOCK_TOPICS_PARTITIONS=4", "WATERCLOCK_TOPICS_REPLICATION=1", "WATERCLOCK_STOP_TIMEOUT=2s")
	awaitStatus(t, served, "GET", "http://"+c.Listen+"/readyz", "")
	for i := range 20 { // so that turns are under way
		awaitStatus(t, served, "PUT", fmt.Sprintf("http://%s/v1/triggers/k%d", c.Listen, i), `{"recurrence":"every:1m"}`)
	}
	frozen.Store(true)
	go func() { // a request that needs Kafka
		for ctx.Err() == nil {
			_, _ = request("PUT", "http://"+c.Listen+"/v1/triggers/late", `{"delay":"1s"}`)
		}
	}()
	time.Sleep(500 * time.Millisecond)
	begun := time.Now()
	cancel()
	select {
	case err = <-served:
	case <-time.After(12 * time.Second): // a busy machine has time; TestStopHasOneDeadline is exact
		t.Fatal("the process has not ended")
	}
	var left *LeftError
	if !errors.As(err, &left) || !strings.Contains(err.Error(), "engine (partition ") ||
		!strings.Contains(err.Error(), "stop.timeout (2s)") {
		t.Errorf("after %v it said %v", time.Since(begun), err)
	}
}

// A collector of traces that takes spans and never answers holds the end of the process up no longer than stop.timeout.
func TestStopWithAHungCollector(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	asked, end := make(chan struct{}, 1000), make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-end
	}))
	t.Cleanup(func() { close(end); collector.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, served := serveWith(ctx, t, Options{LastSpansWithin: 500 * time.Millisecond},
		"WATERCLOCK_BROKERS="+strings.Join(cluster.ListenAddrs(), ","), "WATERCLOCK_TOPICS_PARTITIONS=1",
		"WATERCLOCK_TOPICS_REPLICATION=1", "WATERCLOCK_STOP_TIMEOUT=20s",
		"WATERCLOCK_TRACING_EXPORTER=otlp", "WATERCLOCK_TRACING_ENDPOINT="+collector.URL, "WATERCLOCK_TRACING_RATIO=1")
	awaitStatus(t, served, "GET", "http://"+c.Listen+"/readyz", "")
	awaitStatus(t, served, "PUT", "http://"+c.Listen+"/v1/triggers/k", `{"delay":"1h"}`)
	cancel()
	if err := <-served; err != nil { // a stop that took over 20 s is an error
		t.Errorf("it ended with %v", err)
	}
	if len(asked) == 0 {
		t.Error("the collector was not asked")
	}
}

// The last spans have half of the time that is left, so that the rest can be closed, and a bound of their own.
func TestSpansWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		for left, want := range map[time.Duration]time.Duration{
			2 * time.Second: time.Second, time.Minute: lastSpansWithin, -time.Second: -time.Second / 2,
		} {
			n.stopBy = time.Now().Add(left)
			if got := n.spansWithin(); got != want {
				t.Errorf("%v, of %v that are left", got, left)
			}
		}
		n.stopBy = time.Time{} // no deadline
		if n.opts.LastSpansWithin = time.Second; n.spansWithin() != time.Second {
			t.Error("the option does not count")
		}
	})
}

// What needs no time is closed also if the deadline is over, however long before.
func TestClosingAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{stopBy: time.Now()}
		for i := range 1000 {
			if !n.inTime(func() {}) {
				t.Fatalf("number %d was not in time", i)
			}
			n.stopBy = n.stopBy.Add(-time.Millisecond)
		}
		hang := make(chan struct{})
		defer close(hang)
		begun := time.Now()
		if n.inTime(func() { <-hang }) || time.Since(begun) != closeGrace {
			t.Errorf("what hangs was given %v", time.Since(begun))
		}
		// What ends just before the deadline is in time, although its timer may be ready, too.
		for i := range 100 {
			n.stopBy = time.Now().Add(time.Second)
			if !n.inTime(func() { time.Sleep(time.Second - time.Nanosecond) }) {
				t.Fatalf("number %d did not end in time", i)
			}
		}
	})
}

// What is closed after the roles have ended shares their deadline. What is not closed by then is named, and what would
// be closed later stays open.
func TestStopHasOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 2 * time.Second
		n := &node{log: slog.New(slog.DiscardHandler), cfg: &config.Config{}}
		n.cfg.Stop.Timeout = within
		begun := time.Now()
		hang := make(chan struct{})
		defer close(hang)
		closed := []string{}
		quick := func(name string) func() { return func() { closed = append(closed, name) } }
		err := func() (err error) {
			defer func() { err = n.ended(err) }()
			defer n.closing("last", quick("last"))()
			defer n.closing("hanging", func() { <-hang })()
			defer n.closing("first", quick("first"))()
			life := newRoles(within, n.log)
			defer func() { err = n.finish(life, err) }()
			life.start("slow", func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(within * 3 / 4)
				return nil
			})
			time.Sleep(time.Minute)
			return nil
		}()
		if took := time.Since(begun) - time.Minute; took != within {
			t.Errorf("the stop took %v, want %v", took, within)
		}
		var left *LeftError
		if !errors.As(err, &left) || len(left.Left) != 1 || left.Left[0] != "hanging (closing)" {
			t.Errorf("it ended with %v", err)
		}
		if len(closed) != 1 || closed[0] != "first" {
			t.Errorf("closed are %v", closed)
		}
	})
}

// TestEndOfRoles: the roles stop in the opposite order and share one deadline.
func TestEndOfRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so a busy machine takes none of the time that they have
		l := newRoles(50*time.Millisecond, slog.New(slog.DiscardHandler))
		block := make(chan struct{})
		defer close(block)
		l.start("first", func(ctx context.Context) error { <-ctx.Done(); return nil })
		l.start("stuck", func(context.Context) error { <-block; return nil })
		l.start("last", func(ctx context.Context) error { <-ctx.Done(); return nil })
		left := l.end()
		if len(left) != 1 || left[0] != "stuck" {
			t.Errorf("left are %v", left)
		}
		well := newRoles(time.Minute, slog.New(slog.DiscardHandler))
		well.start("one", func(ctx context.Context) error { <-ctx.Done(); return nil })
		if left := well.end(); left != nil {
			t.Errorf("left are %v", left)
		}
	})
}

func request(method, url, body string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// awaitStatus repeats a request until it succeeds.
func awaitStatus(t *testing.T, served <-chan error, method, url, body string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		status, err := request(method, url, body)
		if err == nil && status < 300 {
			return
		}
		select {
		case err := <-served:
			t.Fatalf("it ended: %v", err)
		default:
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s %s: %d %v", method, url, status, err)
		}
	}
}
