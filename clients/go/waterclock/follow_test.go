package waterclock_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/clients/go/waterclock"
)

// streams answers each request with the next body.
type streams struct {
	bodies  []func(ctx context.Context, to io.Writer)
	resumed []string // Last-Event-ID of each request
}

func (s *streams) RoundTrip(r *http.Request) (*http.Response, error) {
	s.resumed = append(s.resumed, r.Header.Get("Last-Event-ID"))
	write := s.bodies[0]
	s.bodies = s.bodies[1:]
	if write == nil { // no answer
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body, to := io.Pipe()
	go func() {
		write(r.Context(), to)
		<-r.Context().Done()
		_ = to.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
}

func event(to io.Writer, id string) {
	_, _ = fmt.Fprintf(to, "id: %s\ndata: {\"event_id\":%q}\n\n", id, id)
}

// A connection over which nothing comes any more is given up. One that the server keeps alive is
// not, however rare its events are.
func TestFollowSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{bodies: []func(context.Context, io.Writer){
			func(_ context.Context, to io.Writer) { event(to, "1") }, // then it is frozen
			nil,
			func(_ context.Context, to io.Writer) {
				for range 20 {
					time.Sleep(15 * time.Second)
					_, _ = io.WriteString(to, ":\n\n")
				}
				event(to, "2")
			},
		}}
		c, err := waterclock.New("http://waterclock.test", waterclock.HTTPClient(&http.Client{Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e, err := range c.Follow(t.Context(), "a") {
			if err != nil {
				t.Fatal(err)
			}
			if e.EventID == "1" {
				time.Sleep(time.Hour) // the caller may take its time
			}
			if got = append(got, e.EventID); len(got) == 2 {
				break
			}
		}
		if strings.Join(got, " ") != "1 2" || strings.Join(s.resumed, ",") != ",1,1" {
			t.Errorf("events %q, resumed after %q", got, s.resumed)
		}
	})
}

// Silence ends as any failure does: with an error that says so.
func TestFollowSilentForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{bodies: []func(context.Context, io.Writer){nil, func(context.Context, io.Writer) {}}}
		c, err := waterclock.New("http://waterclock.test", waterclock.HTTPClient(&http.Client{Transport: s}),
			waterclock.Retries(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range c.Follow(t.Context(), "a") {
			e := waterclock.ErrorOf(err)
			if e == nil || e.Type != waterclock.Unavailable || e.Attempts != 2 ||
				!strings.Contains(e.Detail, "silent") {
				t.Errorf("got %v after %+v", err, e)
			}
		}
		if len(s.resumed) != 2 {
			t.Errorf("%d requests, want 2", len(s.resumed))
		}
	})
}
