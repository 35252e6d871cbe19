package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// hostile is a receiver that means no good.
type hostile struct {
	name, url string
	codes     string // those that the attempts may end with
	conns     atomic.Int32
}

// raw is a receiver that answers each connection by hand. With head it has read a
// request first.
func raw(t *testing.T, name, scheme, codes string, head bool, answer func(net.Conn)) *hostile {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	h := &hostile{name: name, url: scheme + "://" + ln.Addr().String(), codes: codes}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			h.conns.Add(1)
			go func() {
				defer conn.Close()
				if head {
					req, err := http.ReadRequest(bufio.NewReader(conn))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
				}
				answer(conn)
			}()
		}
	}()
	return h
}

// trickle writes a text slowly, for ever.
func trickle(c net.Conn, text string) {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// hostiles are the receivers, and the file of certificates that the one of HTTP/2
// is known by.
func hostiles(t *testing.T) (all []*hostile, roots string) {
	t.Helper()
	const slow = "timeout"
	all = []*hostile{
		raw(t, "trickles-head", "http", slow, true, func(c net.Conn) { trickle(c, "H") }),
		raw(t, "trickles-body", "http", slow, true, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
			trickle(c, "x")
		}),
		raw(t, "answers-100-mb", "http", "answer_too_large", true, func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 100<<20)
			for block, i := make([]byte, 1<<20), 0; i < 100; i++ {
				if _, err := c.Write(block); err != nil {
					return
				}
			}
		}),
		raw(t, "resets", "http", "connection_reset", true, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }),
		raw(t, "lies-about-length", "http", "connection_reset", true, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")
		}),
		raw(t, "holds-tls", "https", slow, false, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
	}
	two := &hostile{name: "http2", codes: "connection_reset connection bad_answer timeout"}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		two.conns.Add(1)
		if r.ProtoMajor != 2 {
			t.Errorf("it speaks %s", r.Proto)
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		if two.conns.Load()%2 == 0 {
			panic(http.ErrAbortHandler) // the stream is reset
		}
		<-r.Context().Done() // or held open
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{NextProtos: []string{"h2"}}
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	two.url = s.URL
	roots = filepath.Join(t.TempDir(), "roots.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(roots, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	return append(all, two), roots
}

// punctual is a receiver that notes when each call comes. A plain consumer of the
// due topic notes beside it when each due event can be read.
type punctual struct {
	*httptest.Server
	mu           sync.Mutex
	due          map[string]time.Time // the instant it was planned for
	read, called map[string]time.Time
	twice        []string
}

func newPunctual(t *testing.T) *punctual {
	t.Helper()
	p := &punctual{due: map[string]time.Time{}, read: map[string]time.Time{}, called: map[string]time.Time{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Now()
		at, err := time.Parse(time.RFC3339Nano, r.Header.Get("ce-time"))
		if err != nil {
			t.Errorf("ce-time: %v", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		id := r.Header.Get("X-Trigger-Id")
		if _, ok := p.called[id]; ok || r.Header.Get("X-Trigger-Attempt") != "1" {
			p.twice = append(p.twice, id)
		}
		p.due[id], p.called[id] = at, now
	}))
	t.Cleanup(p.Close)
	return p
}

// reads notes when the due events can be read.
func (p *punctual) reads(t *testing.T, w *world) {
	t.Helper()
	f := w.follow(t, "due.webhook")
	go func() {
		for t.Context().Err() == nil {
			recs := f.cl.PollFetches(t.Context()).Records()
			now := time.Now()
			p.mu.Lock()
			for _, r := range recs {
				if id := string(r.Key); p.read[id].IsZero() {
					p.read[id] = now
				}
			}
			p.mu.Unlock()
		}
	}()
}

// of is how long those whose names begin so waited, sorted: after the instant they
// were planned for, and after a plain consumer had read the due event. The second
// leaves out how long the engine, Kafka and a busy machine took.
func (p *punctual) of(prefix string) (afterDue, afterRead []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, called := range p.called {
		if read, ok := p.read[id]; ok && strings.HasPrefix(id, prefix) {
			afterDue = append(afterDue, called.Sub(p.due[id]))
			afterRead = append(afterRead, called.Sub(read))
		}
	}
	slices.Sort(afterDue)
	slices.Sort(afterRead)
	return afterDue, afterRead
}

// number is how many of those whose names begin so were called and read.
func (p *punctual) number(prefix string) int {
	list, _ := p.of(prefix)
	return len(list)
}

// TestHostileReceiversBesideAGoodOne: two worker processes on Kafka call seven
// receivers that hold, reset, lie and flood, and a good one, all of one tenant. The
// hostile ones take every place that they may have, and nothing of the good one's:
// it is called as punctually as before. No hostile answer is an acknowledgement,
// and no worker's memory grows with what they send.
func TestHostileReceiversBesideAGoodOne(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	t.Parallel() // it waits, most of the time
	bad, roots := hostiles(t)
	good := newPunctual(t)
	allow := []string{good.URL}
	for _, h := range bad {
		allow = append(allow, h.url)
	}
	const perEndpoint = 8
	settings := []string{
		"--set", "webhook.allow=" + strings.Join(allow, ","),
		"--set", fmt.Sprintf("webhook.endpoint_concurrency=%d", perEndpoint),
		"--set", fmt.Sprintf("webhook.concurrency=%d", perEndpoint*(len(bad)+1)), // no place to spare
		"--set", "webhook.breaker.requests=100000", // no breaker helps the good one
	}
	w := newServeWorld(t, "engine,api", settings...)
	good.reads(t, w)
	var workers []*process
	for i := range 2 {
		env := []string{"SSL_CERT_FILE=" + roots}
		workers = append(workers, w.hooks(t, fmt.Sprintf("webhook-%d", i), env, settings...))
	}
	const n, gap = 150, 60 * time.Millisecond
	steadily := func(name string) {
		w.batch(t, n, func(i int) string {
			return fmt.Sprintf(`{"op":"register","id":"%s-%d","channel":"webhook","delay":"%dms",`+
				`"callback":{"url":"%s/"}}`, name, i, 1000+i*int(gap/time.Millisecond), good.URL)
		})
	}
	steadily("warm")
	await(t, "the workers work", func() bool { return good.number("warm-") == n })
	steadily("calm")
	await(t, "the calm ones", func() bool { return good.number("calm-") == n })

	const each = 60
	for _, h := range bad {
		w.batch(t, each, func(i int) string {
			return fmt.Sprintf(`{"op":"register","id":"%s-%d","channel":"webhook","delay":"500ms","callback":`+
				`{"url":"%s/","timeout":"4s","retry":["1s","1s","1s","1s","1s"]}}`, h.name, i, h.url)
		})
	}
	for _, h := range bad {
		await(t, h.name+" is called", func() bool { return h.conns.Load() > 0 })
	}
	steadily("beside")
	await(t, "those beside", func() bool { return good.number("beside-") == n })
	at := func(list []time.Duration, q int) time.Duration { return list[len(list)*q/100] }
	late, calm := good.of("calm-")
	t.Logf("calm: p50 %v, p95 %v after due; p50 %v, p95 %v after it could be read",
		at(late, 50), at(late, 95), at(calm, 50), at(calm, 95))
	late, beside := good.of("beside-")
	t.Logf("beside hostile receivers: p50 %v, p95 %v after due; p50 %v, p95 %v after it could be read",
		at(late, 50), at(late, 95), at(beside, 50), at(beside, 95))
	// Behind a hostile receiver one waits for its time-out, 4 s.
	if at(beside, 95) > at(calm, 95)+time.Second {
		t.Error("the good receiver's calls are delayed")
	}
	if len(good.twice) > 0 {
		t.Errorf("called twice: %v", good.twice)
	}
	for i, p := range workers {
		if rss := p.metric("process_resident_memory_bytes"); rss == 0 || rss > 400<<20 {
			t.Errorf("worker %d has %.0f MB", i, rss/(1<<20))
		} else {
			t.Logf("worker %d has %.0f MB", i, rss/(1<<20))
		}
	}
	judgeHostiles(t, w, bad)
}

// judgeHostiles: attempts end as they must, and none with an acknowledgement.
func judgeHostiles(t *testing.T, w *world, bad []*hostile) {
	t.Helper()
	ends := map[string]map[string]int{}
	await(t, "an attempt of each has ended", func() bool {
		clear(ends)
		for key, events := range w.events(t) {
			name := key[:strings.LastIndexByte(key, '-')]
			for _, e := range events {
				switch trigger.FactType(e.Type) {
				case trigger.DeliveryRetried:
					if ends[name] == nil {
						ends[name] = map[string]int{}
					}
					ends[name][e.Reason]++
				case trigger.DeliveryDelivered:
					if name != "warm" && name != "calm" && name != "beside" {
						t.Errorf("%s was acknowledged", key)
					}
				}
			}
		}
		return len(ends) == len(bad)
	})
	for _, h := range bad {
		for code, k := range ends[h.name] {
			if !slices.Contains(strings.Fields(h.codes), code) {
				t.Errorf("%s: %d attempts ended with %q, want %s", h.name, k, code, h.codes)
			}
		}
		t.Logf("%s: %d connections or requests, attempts ended with %v", h.name, h.conns.Load(), ends[h.name])
	}
}
