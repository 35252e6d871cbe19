package waterclock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Follow streams the past events of a trigger, and then new ones, until the loop or the context
// ends. After a failure, and after a minute of silence, it reconnects and continues after the last
// event it received. If more consecutive attempts fail than Retries allows, it ends with an error.
// A connection over which an event or a sign of life came did not fail.
func (c *Client) Follow(ctx context.Context, id string) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		if err := checkID(id); err != nil {
			yield(nil, err)
			return
		}
		f := follower{c: c, id: id, yield: yield}
		for failures := 0; ; {
			f.alive = false
			err := f.stream(ctx)
			if f.stopped || ctx.Err() != nil {
				return
			}
			if f.alive {
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
	alive   bool // whether an event or a comment came over this connection
	yield   func(*Event, error) bool
}

// quiet is how long a connection may be silent. The server sends something every 15 s.
const quiet = time.Minute

var errSilent = fmt.Errorf("the stream was silent for %v", quiet)

// listen calls a function that reads a stream, and cancels its context once nothing has come for
// so long.
func (c *Client) listen(
	ctx context.Context, stream func(ctx context.Context, listen func(io.Reader) io.Reader) *Error,
) *Error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(quiet, func() { cancel(errSilent) })
	defer silence.Stop()
	err := stream(ctx, func(from io.Reader) io.Reader { return heard{from, silence} })
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		err = &Error{Type: Unavailable, Detail: errSilent.Error(), cause: errSilent}
	}
	return err
}

// heard restarts the time of silence with each read. While the caller handles an event it stands
// still.
type heard struct {
	io.Reader
	silence *time.Timer
}

func (h heard) Read(b []byte) (int, error) {
	h.silence.Reset(quiet)
	defer h.silence.Stop()
	return h.Reader.Read(b)
}

// lines are lines of a stream. Those that are held at a time are bounded.
type lines struct {
	*bufio.Scanner
	held, most int64 // bytes; the caller sets held to 0 when it holds no line any more
}

func (c *Client) lines(from io.Reader) *lines {
	l := &lines{Scanner: bufio.NewScanner(from), most: min(c.maxAnswer, 1<<30)}
	l.Buffer(nil, int(l.most))
	return l
}

func (l *lines) Scan() bool {
	if l.tooLong() || !l.Scanner.Scan() {
		return false
	}
	l.held += int64(len(l.Bytes())) + 1
	return !l.tooLong()
}

func (l *lines) tooLong() bool { return l.held > l.most || errors.Is(l.Err(), bufio.ErrTooLong) }

// stream reads one connection. It always returns an error, at least that the stream has ended.
func (f *follower) stream(ctx context.Context) *Error { return f.c.listen(ctx, f.connection) }

func (f *follower) connection(ctx context.Context, listen func(io.Reader) io.Reader) *Error {
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
	from := listen(res.Body)
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(from, 1<<20))
		return answered(res.StatusCode, res.Header, body)
	}
	return f.events(from)
}

// events reads server-sent events. It ignores an event that is cut off.
func (f *follower) events(body io.Reader) *Error {
	lines := f.c.lines(body)
	var id string
	var data []string
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			lines.held = 0
		}
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
			f.alive = true
			if !f.yield(e, nil) {
				f.stopped = true
				return nil
			}
			id, data = "", nil
		case name == "" && lines.Text() != "": // a comment: the trigger is quiet, and the server is well
			f.alive = true
		case name == "id":
			id = value
		case name == "data":
			data = append(data, value)
		}
	}
	err := lines.Err()
	if lines.tooLong() {
		return f.c.tooLong(http.StatusOK)
	}
	if err == nil {
		err = io.EOF
	}
	return &Error{Type: Unavailable, Detail: "the stream ended: " + err.Error(), cause: err}
}
