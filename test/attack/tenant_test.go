package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// tenant is a caller with a key.
type tenant struct {
	n    *node
	name string
	key  string
	http *http.Client
}

func (n *node) as(name, key string) *tenant {
	return &tenant{n: n, name: name, key: key, http: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
	}}}
}

// with is the same caller with another key, or "", on the same connections.
func (c *tenant) with(key string) *tenant {
	other := *c
	other.key = key
	return &other
}

// answer is what a request came back with.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s", a.status, a.body[:min(len(a.body), 400)])
}

// problem is an answer that refuses.
func (a answer) problem() (p struct {
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	Visited int64  `json:"looked_at"`
},
) {
	_ = json.Unmarshal([]byte(a.body), &p)
	return p
}

// send makes a request whose answer is not read yet.
func (c *tenant) send(ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Response,
	error,
) {
	req, err := http.NewRequestWithContext(ctx, method, c.n.url+path, body)
	if err != nil {
		return nil, err
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.http.Do(req)
}

// try makes a request; status 0 is none, since the phase has ended.
func (c *tenant) try(ctx context.Context, method, path, body string, header ...string) answer {
	resp, err := c.send(ctx, method, path, strings.NewReader(body), header...)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// opens is the status of a stream; 0 is none, since the phase has ended.
func (c *tenant) opens(ctx context.Context, path string) int {
	resp, err := c.send(ctx, "GET", path, http.NoBody)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (c *tenant) must(t *testing.T, status int, method, path, body string, header ...string) answer {
	t.Helper()
	a := c.try(t.Context(), method, path, body, header...)
	if a.status != status {
		t.Fatalf("%s: %s %s: want %d, got %s", c.name, method, path, status, a)
	}
	return a
}

// refusedFor is how long an attacker waits behind a refusal: how many requests a
// second get as far as us is for whatever stands in front to bound.
const refusedFor = 50 * time.Millisecond

// many makes requests side by side until the phase ends, and counts the statuses.
func (c *tenant) many(ctx context.Context, atOnce int, one func(i int) answer) map[int]int {
	var mu sync.Mutex
	counts := map[int]int{}
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for ctx.Err() == nil {
				a := one(i)
				mu.Lock()
				counts[a.status]++
				mu.Unlock()
				if a.status >= 400 {
					pause(ctx, refusedFor)
				}
			}
		})
	}
	all.Wait()
	delete(counts, 0)
	return counts
}

// slowReader asks for a list and reads none of it: a connection of its own with a
// small buffer.
func (c *tenant) slowReader(ctx context.Context, path string) error {
	d := net.Dialer{}
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(c.n.url, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path,
		c.key); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
