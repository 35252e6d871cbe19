package waterclock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
)

// Follow streams the past events of a trigger, and then new ones, until the loop or the context
// ends. After a failure it reconnects and continues after the last event it received. If more
// consecutive attempts fail than Retries allows, it ends with an error.
func (c *Client) Follow(ctx context.Context, id string) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		if err := checkID(id); err != nil {
			yield(nil, err)
			return
		}
		f := follower{c: c, id: id, yield: yield}
		for failures := 0; ; {
			before := f.last
			err := f.stream(ctx)
			if f.stopped || ctx.Err() != nil {
				return
			}
			if f.last != before {
				failures = 0
			}
			failures++
			err.Attempts = failures
			wait, ok := c.retry(err, safely, true)
			if !ok || !sleep(ctx, wait) {
				if ctx.Err() == nil {
					yield(nil, err)
				}
				return
			}
		}
	}
}

type follower struct {
	c       *Client
	id      string
	last    string // id of the last event that was received completely
	stopped bool
	yield   func(*Event, error) bool
}

// stream reads one connection. It always returns an error, at least that the stream has ended.
func (f *follower) stream(ctx context.Context) *Error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &request{
		method: http.MethodGet, path: []string{"v1", "triggers", f.id, "events"}, query: url.Values{"follow": {"1"}},
	}
	r.set("Accept", "text/event-stream, application/problem+json")
	if f.last != "" {
		r.set("Last-Event-ID", f.last)
	}
	res, _, err := f.c.begin(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		return answered(res.StatusCode, res.Header, body)
	}
	return f.events(res.Body)
}

// events reads server-sent events. It ignores an event that is cut off.
func (f *follower) events(body io.Reader) *Error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, int(min(f.c.maxAnswer, 1<<30)))
	var id string
	var data []string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && data != nil:
			e := &Event{}
			if err := json.Unmarshal([]byte(strings.Join(data, "\n")), e); err != nil {
				return unreadable(http.StatusOK, err)
			}
			if id != "" {
				f.last = id
			}
			if !f.yield(e, nil) {
				f.stopped = true
				return nil
			}
			id, data = "", nil
		case name == "id":
			id = value
		case name == "data":
			data = append(data, value)
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return unreadable(http.StatusOK, err)
	}
	if err == nil {
		err = io.EOF
	}
	return &Error{Type: Unavailable, Detail: "the stream ended: " + err.Error(), cause: err}
}
