package console_test

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// relay stands between a browser and a server, as a network does. It can be cut.
type relay struct {
	to string

	mu     sync.Mutex
	cut    bool
	passes []*pass // all there were
}

// pass is a connection that goes through a relay.
type pass struct {
	ends [2]net.Conn
	lost atomic.Bool // nothing passes any more, and neither end learns of it
}

// newRelay listens at an address of its own.
func newRelay(t *testing.T, to string) (*relay, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{to: to}
	t.Cleanup(func() {
		_ = ln.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.passes {
			p.end()
		}
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.take(c)
		}
	}()
	return r, ln.Addr().String()
}

func (p *pass) end() {
	_ = p.ends[0].Close()
	_ = p.ends[1].Close()
}

// take passes a connection on. During a cut nobody answers it.
func (r *relay) take(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &pass{ends: [2]net.Conn{c, c}}
	r.passes = append(r.passes, p)
	if r.cut {
		return
	}
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.ends[1] = far
	go p.copy(far, c)
	go p.copy(c, far)
}

func (p *pass) copy(to, from net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if p.lost.Load() {
			return // both ends stay open and hear nothing, as behind a cable that is out
		}
		if n > 0 {
			_, _ = to.Write(b[:n])
		}
		if err != nil {
			p.end()
			return
		}
	}
}

// lose cuts the network: what is connected stays so and hears nothing more, then or later.
func (r *relay) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	for _, p := range r.passes {
		p.lost.Store(true)
	}
}

// mend lets new connections through. Those of before stay lost.
func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
}

// The network between browser and server is cut: nothing is refused, nothing comes. The page says so, and says of an
// act that nobody knows whether it happened. When the network is back, the page goes on by itself.
func TestNetworkCut(t *testing.T) {
	s := dev(t)
	r, addr := newRelay(t, strings.TrimPrefix(s.url, "http://"))
	far := &server{t: t, url: "http://" + addr}
	b := far.open(t, 1200, 900)
	b.allowed = []string{"net::ERR_"}
	b.visit("")
	b.await("#facts .newest", "Nothing yet")
	s.call(http.MethodPut, "/v1/triggers/before", inAnHour)
	b.await("#facts .newest", "before")
	b.await("#health", "Healthy")
	b.do(chromedp.Evaluate(`window.same = true`, nil))
	r.lose()
	b.await("#health", "Not known")
	b.await("main .fault", "does not answer")
	s.call(http.MethodPut, "/v1/triggers/meanwhile", inAnHour)
	r.mend()
	b.await("#facts .newest", "meanwhile")
	b.await("#health", "Healthy")
	b.do(chromedp.WaitNotPresent("main .fault", chromedp.ByQuery))

	b.click("Triggers")
	b.await("main table", "meanwhile")
	b.click("meanwhile")
	b.await("#sentence", "Scheduled")
	b.click("Pause")
	b.await("dialog h2", "Pause: meanwhile")
	r.lose()
	b.do(chromedp.Click(`dialog button.act`, chromedp.ByQuery))
	b.await("dialog .fault", "it may have happened, or not")
	if state := s.call(http.MethodGet, "/v1/triggers/meanwhile", "")["state"]; state != "PENDING" {
		t.Errorf("it is %v", state)
	}
	r.mend()
	b.do(chromedp.Click(`dialog button.act`, chromedp.ByQuery))
	b.await("#sentence", "Paused")
	var same bool
	if b.do(chromedp.Evaluate(`window.same === true`, &same)); !same {
		t.Error("the page was loaded anew")
	}
}
