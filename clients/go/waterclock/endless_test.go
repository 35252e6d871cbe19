package waterclock_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/waterclock"
)

// endless is an answer: its first bytes, and then the rest again and again.
type endless struct {
	status  int
	coding  string
	first   string
	rest    string
	written atomic.Int64
}

func (e *endless) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if e.coding != "" {
		w.Header().Set("Content-Encoding", e.coding)
	}
	w.WriteHeader(e.status)
	next := []byte(e.first)
	for {
		n, err := w.Write(next)
		if e.written.Add(int64(n)); err != nil { // the client has hung up
			return
		}
		next = []byte(e.rest)
	}
}

// zeros returns the head of a gzip stream, and a piece to be repeated: each of about 64 KiB is 64
// MiB of zeros.
func zeros(t *testing.T) (first, rest string) {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	write := func() string {
		packed.Reset()
		if _, err := z.Write(make([]byte, 4<<20)); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		return packed.String()
	}
	first = write()
	return first, strings.Repeat(write(), 16)
}

// byFollow reads until the stream ends with an error.
func byFollow(ctx context.Context, c *waterclock.Client) error {
	for _, err := range c.Follow(ctx, "a") {
		if err != nil {
			return err
		}
	}
	return nil
}

func byRedriveAll(ctx context.Context, c *waterclock.Client) error {
	for _, err := range c.RedriveAll(ctx, waterclock.Redrive{All: true}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func byGet(ctx context.Context, c *waterclock.Client) error {
	_, err := c.Get(ctx, "a")
	return err
}

func byRedrive(ctx context.Context, c *waterclock.Client) error {
	_, err := c.Redrive(ctx, "a", waterclock.Redrive{})
	return err
}

// No more of an answer is held than MaxAnswer allows, also if few bytes decompress to many, and the
// rest of it is not read.
func TestAnswersWithoutAnEnd(t *testing.T) {
	const most = 1 << 20
	first, packed := zeros(t)
	spaces, long := strings.Repeat(" ", 1<<16), strings.Repeat("x", 10_000)
	for name, tc := range map[string]struct {
		call func(context.Context, *waterclock.Client) error
		from *endless
	}{
		"get":          {byGet, &endless{status: 200, rest: spaces}},
		"get bomb":     {byGet, &endless{status: 200, coding: "gzip", first: first, rest: packed}},
		"get error":    {byGet, &endless{status: 500, coding: "gzip", first: first, rest: packed}},
		"follow line":  {byFollow, &endless{status: 200, first: "data: ", rest: spaces}},
		"follow lines": {byFollow, &endless{status: 200, rest: strings.Repeat("data: x\n", 8192)}},
		"follow bomb":  {byFollow, &endless{status: 200, coding: "gzip", first: first, rest: packed}},
		"redrive line": {byRedrive, &endless{status: 200, rest: spaces}},
		"redrive bomb": {byRedrive, &endless{status: 200, coding: "gzip", first: first, rest: packed}},
		"redriveAll letters": {byRedriveAll, &endless{
			status: 200, rest: `{"code":"too_large","detail":"` + long + "\"}\n",
		}},
		"redrive progress": {byRedrive, &endless{
			status: 200, rest: `{"matched":1,"done":false,"cursor":"` + long + "\"}\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.from)
			defer server.Close()
			c, err := waterclock.New(server.URL, waterclock.MaxAnswer(most))
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := waterclock.ErrorOf(tc.call(within(t, time.Minute), c))
			runtime.ReadMemStats(&after)
			if got == nil || got.Type != waterclock.ServerFault || got.Attempts != 1 || got.Status != tc.from.status ||
				!strings.Contains(got.Detail, "over 1048576 bytes; see MaxAnswer") {
				t.Errorf("got %+v", got)
			}
			if got != nil && got.MaybeApplied != strings.HasPrefix(name, "redrive") {
				t.Errorf("MaybeApplied is %v", got.MaybeApplied)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 32*most {
				t.Errorf("%d KiB were allocated", used>>10)
			}
			if n := tc.from.written.Load(); n > 32*most {
				t.Errorf("the server wrote %d KiB", n>>10)
			}
		})
	}
}

// The bound is of an event, and of what comes up to a progress: a stream may be as long as it
// likes. Of a redrive of one trigger, all is held until it ends.
func TestLongStreamsOfShortEvents(t *testing.T) {
	refused, progress := `{"status":422,"code":"too_large"}`+"\n", `{"matched":1,"done":false}`+"\n"
	letters := strings.Repeat(refused+progress, 500) + `{"done":true}` + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := letters
		if r.Method == http.MethodGet {
			text = strings.Repeat(":\n\nid: 1\ndata: {}\n\n", 500)
		}
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	c, err := waterclock.New(server.URL, waterclock.MaxAnswer(1000))
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	for _, err := range c.Follow(t.Context(), "a") {
		if err != nil {
			t.Fatal(err)
		}
		if events++; events == 500 {
			break
		}
	}
	refusals := 0
	for p, err := range c.RedriveAll(t.Context(), waterclock.Redrive{All: true}) {
		if err != nil {
			t.Fatal(err)
		}
		refusals += len(p.Refusals)
	}
	if events != 500 || refusals != 500 {
		t.Errorf("%d events, %d refusals", events, refusals)
	}
	if e := waterclock.ErrorOf(byRedrive(t.Context(), c)); e == nil || e.Type != waterclock.ServerFault {
		t.Errorf("got %v", e)
	}
}

// Any number is a bound.
func TestMaxAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"trigger_id":"a"}`))
	}))
	defer server.Close()
	for most, ok := range map[int64]bool{math.MaxInt64: true, 18: true, 17: false, 0: false, -1: false} {
		c, err := waterclock.New(server.URL, waterclock.MaxAnswer(most))
		if err != nil {
			t.Fatal(err)
		}
		if err := byGet(t.Context(), c); (err == nil) != ok {
			t.Errorf("MaxAnswer(%d): %v", most, err)
		}
	}
}
